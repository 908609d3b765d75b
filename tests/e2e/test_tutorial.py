"""The tutorial's terminal: what its commands write, and a worker that is killed.

Its workers are beside those of the shared stack, which is its `headrace dev`; `pip install` and the
reload of agents have tests of their own, and so do the files' tests (tests/unit/shared/testing).
"""

import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import pytest

from tests.support import extra_services, tutorial
from tests.support.pseudo_terminal import at_terminal
from tests.support.stack import Stack
from tests.support.waiting import until

pytestmark = pytest.mark.timeout(300)

AGENT, TOOLS, QUESTION, DELEGATION, MACHINES = tutorial.STEPS
_ELSEWHERE = ("python -m ", "source ", "pip install ", "headrace dev")
"""How the commands begin that other tests run."""
_TASK = re.compile(r"task \S+")
_PROCESS = re.compile(r"process (\d+):")


def served(folder: Path, step: Path, stack: Stack, agents: list[str], workers: int) -> ExitStack:
    """Return workers with the files of a step; they serve until they are closed."""
    folder.mkdir()
    tutorial.write_files(folder, step)
    with ExitStack() as opened:
        for number in range(workers):
            worker = extra_services.worker_in(
                folder, f"tutorial-{number}", agents, stack.dev()["nats_url"]
            )
            opened.enter_context(worker)
        for agent in agents:
            until(partial(extra_services.is_served, stack.gateways, agent), f"{agent} is served")
        return opened.pop_all()


@pytest.fixture(scope="module")
def project(stack: Stack, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Two workers with the files of the last step."""
    folder = tmp_path_factory.mktemp("tutorial") / "project"
    with served(folder, MACHINES, stack, ["shop", "desk", "inventory"], 2):
        yield


def send(command: str, stack: Stack) -> str:
    """Return what a command of the tutorial writes to stdout."""
    program, *arguments = shlex.split(command)
    assert program == "headrace"
    done = subprocess.run(
        [sys.executable, "-m", "headrace_cli", *arguments],
        env={**os.environ, "HEADRACE_URL": stack.url},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_no_command_is_left_out() -> None:
    entered = [line for step in tutorial.STEPS for line in tutorial.commands(step)]
    here = [line for line in entered if not line.startswith(_ELSEWHERE)]
    assert here == [
        "headrace send --agent shop nails",
        "headrace send --agent shop screws",
        "headrace send --agent shop nails",
        'headrace send --agent desk "nails, screws"',
        "headrace send --agent inventory 8",
    ]


def test_the_first_agent_answers(stack: Stack, tmp_path: Path) -> None:
    [command] = [each for each in tutorial.outputs(AGENT) if each.startswith("headrace send")]
    with served(tmp_path / "first", AGENT, stack, ["shop"], 1):
        assert send(command, stack) == tutorial.outputs(AGENT)[command]


@pytest.mark.usefixtures("project")
@pytest.mark.parametrize("step", [TOOLS, DELEGATION], ids=lambda step: str(step.stem))
def test_an_agent_answers(step: Path, stack: Stack) -> None:
    [command] = [each for each in tutorial.outputs(step) if each.startswith("headrace send")]
    assert send(command, stack) == tutorial.outputs(step)[command]


@pytest.mark.usefixtures("project")
def test_the_shops_question_is_answered_at_the_terminal(stack: Stack) -> None:
    command, shown = list(tutorial.outputs(QUESTION).items())[-1]
    with at_terminal(*shlex.split(command)[1:], HEADRACE_URL=stack.url) as terminal:
        terminal.until("How many would you like?\n> ")
        terminal.type("3")
        assert terminal.end() == 0
    assert _TASK.sub("task", terminal.text) == _TASK.sub("task", shown)


@pytest.mark.usefixtures("project")
def test_a_count_goes_on_in_another_process(stack: Stack) -> None:
    [(command, shown)] = list(tutorial.outputs(MACHINES).items())[1:]
    with at_terminal(*shlex.split(command)[1:], HEADRACE_URL=stack.url) as terminal:
        terminal.until(": 1 2 3")
        [first] = _PROCESS.findall(terminal.text)
        os.kill(int(first), signal.SIGKILL)
        assert terminal.end() == 0
    assert shelves(terminal.text) == shelves(shown) == [str(shelf) for shelf in range(1, 9)]
    assert len(set(_PROCESS.findall(terminal.text))) == len(_PROCESS.findall(shown)) == 2


def shelves(text: str) -> list[str]:
    """Return the shelves in the order in which they were counted.

    A kill between a shelf and its checkpoint has it counted again.
    """
    counted = _PROCESS.sub("", "\n".join(line for line in text.splitlines() if ":" in line))
    return list(dict.fromkeys(counted.split()))
