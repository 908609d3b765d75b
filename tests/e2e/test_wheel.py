"""The wheel of the source distribution, in a clean environment and an empty folder.

What README, the pages of the start and the tutorial say is entered there word by word, except for
how it is installed and the port of the first gateway, and what comes of it is compared with what
they show. The project and the stream of the start are the wheel's; the tutorial and README's agent
run their tests with its Python, and forks of this checkout's ``headrace``, which start in a tenth
of the time.
"""

import os
import re
import shlex
import signal
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Iterator
from importlib.metadata import distribution
from itertools import pairwise
from pathlib import Path

import pytest

from headrace_gateway.console.pages import site
from tests.support import extra_services
from tests.support.compose_file import ROOT
from tests.support.document import TUTORIAL, Block, blocks, examples
from tests.support.linked_packages import link, pinned
from tests.support.reader import Reader
from tests.support.stack import Stack
from tests.support.waiting import until

_INSTALLING = 400
pytestmark = pytest.mark.timeout(1000)

README = ROOT / "README.md"
FIVE_MINUTES = ROOT / "docs" / "start" / "five-minutes.md"
BREAK_IT = ROOT / "docs" / "start" / "break-it.md"
[(STREAM, TASK_ALREADY_SENT)] = examples(BREAK_IT, "sh")
_HOST = "http://127.0.0.1:8080"
_IDS = {
    "o1mn8ibj": "[0-9a-z]+",
    re.escape("0-c4ac91"): r"\d+-[0-9a-f]+",
    re.escape("e8823e42-"): "[0-9a-f]{8}-",
}

_INSTALLATION = {
    "python -m venv .venv",
    "source .venv/bin/activate",
    "pip install './headrace[all,testing]'",
    "pip install '../headrace[all,testing]'",
    "pip install './headrace[all]'",
}
"""What the fixture `environment` does instead: the wheel is in no index yet."""

_TASK = re.compile(r"task \S+")
_PROCESS = re.compile(r"process (\d+):")
_PYTEST = "python -m pytest"

PACKAGES = {
    "headrace",
    "headrace_cli",
    "headrace_dojo",
    "headrace_gateway",
    "headrace_task_state",
    "headrace_triggers",
    "headrace_worker",
}


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the source distribution, and the wheel that was built from it."""
    folder = tmp_path_factory.mktemp("dist")
    build = [sys.executable, "-m", "build", "--no-isolation", "--outdir"]
    subprocess.run([*build, folder, ROOT], check=True, capture_output=True, timeout=_INSTALLING)
    return folder


@pytest.fixture(scope="module")
def wheel(built: Path) -> Path:
    [wheel] = built.glob("*.whl")
    return wheel


@pytest.fixture(scope="module")
def environment(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A virtual environment with ``headrace[all,testing]`` of the wheel, not of the checkout.

    It has what `requirements.txt` names, and nothing else that this one has.
    """
    folder = tmp_path_factory.mktemp("clean") / "venv"
    made = [sys.executable, "-m", "venv", "--without-pip", str(folder)]
    subprocess.run(made, check=True, timeout=_INSTALLING)
    # This environment's pip, which is there already, installs into that one.
    pip = [sys.executable, "-m", "pip", "--python", str(folder / "bin" / "python"), "install"]
    install = [*pip, "--disable-pip-version-check", "--no-deps", str(wheel)]
    subprocess.run(install, check=True, capture_output=True, timeout=_INSTALLING)
    [site] = folder.glob("lib/python*/site-packages")
    # To install the rest, and to compile it, takes longer than most of what is tested.
    testing = map(distribution, ("pytest", "pytest-asyncio", "iniconfig", "pluggy"))
    link([*pinned(ROOT / "requirements.txt"), *testing], site)
    return folder


def test_the_wheel_holds_the_packages_and_nothing_else(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as content:
        tops = {name.partition("/")[0] for name in content.namelist()}
    assert {top for top in tops if not top.endswith(".dist-info")} == PACKAGES


def test_the_wheel_has_the_console(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as content:
        packed = {name for name in content.namelist() if "/console/site/" in name}
    assert {name.partition("/site/")[2] for name in packed} >= {"licenses.txt", *site()}


def test_the_source_distribution_holds_the_same_and_no_tests(built: Path, wheel: Path) -> None:
    [source] = built.glob("*.tar.gz")
    with tarfile.open(source) as content:
        files = [Path(name) for name in content.getnames()]
    with zipfile.ZipFile(wheel) as content:
        modules = [name for name in content.namelist() if name.endswith(".py")]
    assert len([file for file in files if file.suffix == ".py"]) == len(modules) > 100
    assert [file for file in files if {"tests", "docs"} & set(file.parts)] == []


def test_each_package_states_that_it_is_typed(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as content:
        typed = {name for name in content.namelist() if name.endswith("/py.typed")}
    assert typed == {f"{name}/py.typed" for name in PACKAGES}


def test_everything_comes_from_the_installed_wheel(environment: Path, tmp_path: Path) -> None:
    imports = "; ".join(f"import {name}; print({name}.__file__)" for name in sorted(PACKAGES))
    ran = subprocess.run(
        [environment / "bin" / "python", "-c", imports],
        cwd=tmp_path,
        check=True,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert all(line.startswith(f"{environment}/") for line in ran.stdout.splitlines())


@pytest.fixture
def reader(environment: Path, tmp_path: Path) -> Iterator[Reader]:
    """A reader in an empty folder, with the wheel's commands."""
    reader = Reader(tmp_path / "empty", environment)
    yield reader
    reader.leave()


@pytest.fixture
def quick_reader(environment: Path, tmp_path: Path) -> Iterator[Reader]:
    """A reader with the wheel's Python and this checkout's ``headrace``."""
    reader = Reader(tmp_path / "empty", environment, is_forked=True)
    yield reader
    reader.leave()


def follow(page: Path, reader: Reader) -> list[str]:
    """Do what a page of the tutorial says; return the commands that were entered."""
    entered, saved = list[str](), dict[str, str]()
    for block, after in pairwise([*blocks(page), Block("end", "", "")]):
        if block.title:
            saved[block.title] = block.code
            continue
        assert block.language in ("sh", "text"), block
        if block.language == "sh":
            reader.save(saved)
            saved.clear()
            shown = after.code if after.language == "text" else ""
            for command in block.code.splitlines():
                enter(command, shown, reader)
                entered.append(command)
    assert saved == {}
    return entered


def enter(command: str, shown: str, reader: Reader) -> None:
    """Enter one command, and compare what came of it with what the page shows."""
    if command in _INSTALLATION:
        return
    if command.startswith("headrace dev"):
        reader.serve(command)
        return
    if agent := re.search("--agent (\\w+)", command):
        assert reader.stack is not None
        gateways, name = reader.stack.gateways, agent[1]
        until(lambda: extra_services.is_served(gateways, name), f"{name} is served")
    if "\n> " in shown:
        answer_at_terminal(command, shown, reader)
    elif _PROCESS.search(shown):
        kill_at_terminal(command, shown, reader)
    else:
        done = reader.enter(command)
        output = done.out
        if command.startswith(_PYTEST):
            output = output.splitlines()[-1].partition(" in ")[0] + "\n"
        assert (done.code, output) == (0, shown), done


def answer_at_terminal(command: str, shown: str, reader: Reader) -> None:
    """Answer the question as the page does."""
    request, _, rest = shown.partition("\n> ")
    with reader.at_terminal(command) as terminal:
        terminal.until(f"{request.splitlines()[-1]}\n> ")
        terminal.type(rest.partition("\n")[0])
        assert terminal.end() == 0
    assert _TASK.sub("task", terminal.text) == _TASK.sub("task", shown)


def kill_at_terminal(command: str, shown: str, reader: Reader) -> None:
    """Kill the process that the output names, where the page does."""
    until_then = _PROCESS.split(shown)[2].removesuffix("process ")
    with reader.at_terminal(command) as terminal:
        terminal.until(f":{until_then}")
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


def test_the_tutorial_works_as_written(quick_reader: Reader) -> None:
    entered = [command for step in TUTORIAL for command in follow(step, quick_reader)]
    assert entered.count("python -m pytest -q") == len(TUTORIAL) == 5
    assert [command for command in entered if command.startswith("headrace ")] == [
        "headrace dev",
        "headrace send --agent shop nails",
        "headrace send --agent shop screws",
        "headrace send --agent shop nails",
        'headrace send --agent desk "nails, screws"',
        "headrace dev --gateways 2 --workers 3",
        "headrace send --agent inventory 8",
    ]


def curl(command: str, reader: Reader, stack: Stack) -> list[str]:
    """Return the lines that a command of a page gets from a gateway."""
    name, *arguments = shlex.split(command.replace("\\\n", "").replace(_HOST, stack.url))
    done = reader.enter(shlex.join([name, "--silent", *arguments]))
    assert done.code == 0, done
    return [line for line in done.out.split("\n") if line]


def pattern_of(line: str) -> str:
    """Return what matches `line` with other ids, and anything for what it leaves out."""
    pattern = re.escape(line).replace("…", ".*")
    for shown, actual in _IDS.items():
        pattern = pattern.replace(shown, actual)
    return pattern


def test_the_starts_stream_is_as_shown_and_goes_on_after_a_cursor(reader: Reader) -> None:
    """The folder is empty, as the page says."""
    stack = reader.serve("headrace dev")
    lines = curl(STREAM, reader, stack)
    shown = [line for line in TASK_ALREADY_SENT.splitlines() if line]
    assert len(shown) == 6
    differing = [
        (line, expected)
        for line, expected in zip(lines, shown, strict=False)
        if not re.fullmatch(pattern_of(expected), line)
    ]
    assert differing == []
    [task] = re.findall(r'"task":\{"id":"([^"]+)"', lines[1])
    cursor = lines[4].removeprefix("id: ")
    [resume] = [block.code for block in blocks(BREAK_IT, "sh") if "<task>" in block.code]
    command = resume.replace("<task>", task).replace("o1mn8ibj:3", cursor)
    assert curl(command, reader, stack) == lines[6:]

    page = (ROOT / "docs" / "delegation.md").read_text()
    [research] = re.findall("`(headrace send --agent research .*?)`", page)
    done = reader.enter(research)
    assert (done.code, bool(done.out)) == (0, True), done


def test_readmes_agent_greets_its_user(quick_reader: Reader) -> None:
    [install, serve, send] = said_in(README, "hello:hello")
    assert install in _INSTALLATION
    [module] = blocks(README, "python")
    quick_reader.save({module.title: module.code})
    quick_reader.serve(serve)
    done = quick_reader.enter(send)
    assert (done.code, done.out) == (0, "Hello, World!\n"), done
    assert "This must be World." in done.err


def said_in(page: Path, words: str) -> list[str]:
    """Return the commands, without their comments, of a page's only block with `words`."""
    [block] = [block for block in blocks(page, "sh") if words in block.code]
    return [line.partition("  #")[0].strip() for line in block.code.splitlines()]


def test_the_starts_project_is_tested_served_and_talked_to(
    environment: Path, tmp_path: Path
) -> None:
    assert {*said_in(FIVE_MINUTES, "pip install")} <= _INSTALLATION
    init, enter_folder, tests, serve = said_in(FIVE_MINUTES, "headrace init")
    assert Reader(tmp_path, environment).enter(init).code == 0
    reader = Reader(tmp_path / enter_folder.removeprefix("cd "), environment)
    done = reader.enter(tests)
    assert "3 passed" in done.out, done
    assert "arning" not in done.out + done.err
    declare_more(reader.folder)
    stack = reader.serve(serve)
    try:
        [send] = said_in(FIVE_MINUTES, "headrace send nails")
        with reader.at_terminal(send) as terminal:
            terminal.until("\n> ")
            terminal.type("3")
            assert terminal.end() == 0
        assert "Sold: 3 nails.\n" in terminal.text
        says_what_to_do_next(stack, reader)
    finally:
        reader.leave()


_DECLARED = """
triggers: [{name: orders, agent: shop, subject: orders.*}]
schedules: [{name: nightly, agent: shop, message: nails, cron: 0 2 * * *}]
"""

_IN_CODE = """\
from headrace import on, schedule

@on("stock.changed", name="stock")
@schedule("screws", every="1h")
@agent(
"""


def declare_more(project: Path) -> None:
    """Add triggers and schedules to what `headrace init` created."""
    with (project / "headrace.yaml").open("a") as file:
        file.write(_DECLARED)
    code = project / "shop.py"
    code.write_text(code.read_text().replace("@agent(\n", _IN_CODE))


def says_what_to_do_next(stack: Stack, reader: Reader) -> None:
    """Compare what `headrace dev` has printed, and what its suggestion and the next one bring."""
    until(lambda: len(stack.said) == 9, "the agents and a command are printed")
    ready, console, nats, *declared, listed, suggested = stack.said
    assert ready == f"ready {stack.url}"
    assert console == f"console {stack.url}/console/"
    assert nats == f"nats {stack.dev()['nats_url']}"
    assert declared == ["triggers orders", "schedules nightly", "triggers stock", "schedules shop"]
    assert listed == f"  shop {stack.url}/v1/agents/shop/ (default)"
    assert suggested == f"try: headrace send --url {stack.url} nails"

    waiting = reader.enter(suggested.removeprefix("try: "))
    assert waiting.out == "There are 7 nails. How many would you like?\n"
    assert waiting.code == 6
    [answer] = re.findall(r"headrace send .*--task \S+", waiting.err.splitlines()[-1])
    sold = reader.enter(f"{answer} 3")
    assert (sold.code, sold.out) == (0, "Sold: 3 nails.\n"), sold

    kept = reader.enter("headrace schedules list")
    assert "0 2 * * * (UTC)" in kept.out
    assert "every 1h" in kept.out
