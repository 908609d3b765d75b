import os
import re
import signal
import subprocess
import sys
from importlib import import_module
from types import SimpleNamespace

import click
import pytest
from click.testing import CliRunner, Result

from headrace_cli import services
from headrace_cli.stream_output import EXIT_CODES, INTERRUPTED
from tests.architecture.tree import ROOT


def headrace(*arguments: str) -> Result:
    return CliRunner().invoke(import_module("headrace_cli.main").main, arguments)


def test_help_names_every_command() -> None:
    text = headrace("--help").output
    commands = "dev gateway worker task-state agents send tail tasks cancel"
    assert [name for name in commands.split() if f"  {name} " not in text] == []


def test_help_lists_each_command_with_the_first_line_of_its_own_help() -> None:
    main = import_module("headrace_cli.main").main
    context = click.Context(main)
    own = {
        name: command.get_short_help_str(limit=1000)
        for name in main.list_commands(context)
        if (command := main.get_command(context, name)) is not None
    }
    text = " ".join(headrace("--help").output.split())
    assert len(own) > 10
    assert [name for name, line in own.items() if f" {name} {line}" not in text] == []


def test_open_prints_the_consoles_url_on_request() -> None:
    answer = headrace("open", "--print", "--url", "https://example.com/fleet/")
    assert (answer.output, answer.exit_code) == ("https://example.com/fleet/console/\n", 0)


def test_open_starts_a_browser_or_names_the_url(monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []

    def launch(url: str) -> int:
        opened.append(url)
        return 0

    monkeypatch.setattr(click, "launch", launch)
    assert headrace("open").exit_code == 0
    assert opened == ["http://127.0.0.1:8080/console/"]
    monkeypatch.setattr(click, "launch", lambda _: 1)
    answer = headrace("open")
    assert answer.exit_code == 1
    assert "open http://127.0.0.1:8080/console/" in answer.output


@pytest.mark.parametrize("url", ["javascript:alert(1)", "http://x/?a", "http://x/#b", "x:80", ""])
def test_open_takes_urls_of_gateways_only(url: str) -> None:
    result = headrace("open", "--print", "--url", url)
    assert result.exit_code == 2
    assert "not the URL of a gateway" in result.output


def test_an_unknown_command_is_refused() -> None:
    answer = headrace("fly")
    assert answer.exit_code == 2
    assert "No such command 'fly'" in answer.output


def test_a_missing_extra_is_one_line_that_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(_: str) -> None:
        raise ModuleNotFoundError("no uvicorn", name="uvicorn")

    monkeypatch.setattr(services, "import_module", missing)
    answer = headrace("gateway")
    assert answer.exit_code == os.EX_CONFIG
    assert answer.output == (
        "Error: the gateway needs the module uvicorn: pip install 'headrace[gateway]'\n"
    )


def test_a_service_exits_with_the_code_of_its_run(monkeypatch: pytest.MonkeyPatch) -> None:
    requests = list[str]()

    def run(target: str, _config: str, *, reload: bool) -> int:
        requests.append(f"{target} {reload}")
        return 3

    monkeypatch.setattr(services, "import_module", lambda _: SimpleNamespace(run=run))
    assert headrace("worker", "my.agents:all").exit_code == 3
    assert headrace("worker", "--no-reload", "my.agents:all").exit_code == 3
    assert requests == ["my.agents:all True", "my.agents:all False"]


@pytest.mark.parametrize("target", ["x", "x:", ":x", "x y:z", "x:y:z", "./x:y", "x.:y"])
def test_agents_are_named_as_module_and_attribute(target: str) -> None:
    answer = headrace("worker", target)
    assert answer.exit_code == 1
    assert answer.output.startswith("Error: agents must be given as MODULE:ATTR")


def test_a_command_that_is_called_nearly_the_same_is_named() -> None:
    near = headrace("sned", "hi")
    far = headrace("qqqq")
    assert near.stderr.splitlines()[-1] == "Error: No such command 'sned'. Did you mean 'send'?"
    assert far.stderr.splitlines()[-1] == "Error: No such command 'qqqq'."


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_script_completes_in_the_shell(shell: str) -> None:
    printed = headrace("completion", shell).output
    assert f"_HEADRACE_COMPLETE={shell}_complete" in printed


def test_the_page_on_the_command_line_lists_commands_options_and_exit_codes_as_they_are() -> None:
    page = (ROOT / "docs" / "command-line.md").read_text()
    main = import_module("headrace_cli.main").main
    named = set(re.findall(r"headrace ([a-z]+) ", page))
    helps = {name: headrace(name, "--help") for name in named}
    assert {name: answer.exit_code for name, answer in helps.items()} == dict.fromkeys(named, 0)
    options = set(re.findall(r"--[a-z]+", page))
    outputs = [one.output for one in helps.values()] + [
        headrace("tasks", "export", "--help").output,
        headrace("agents", "route", "--help").output,
        headrace("logs", "level", "--help").output,
    ]
    assert options <= set(re.findall(r"--[a-z]+", "".join(outputs)))
    assert "headrace tasks export" in page
    assert {"send", "chat", "tail", "tasks", "cancel"} <= named <= set(main.list_commands(None))
    rows = re.findall(r"^\| ([\d, ]+) \|", page, re.MULTILINE)
    codes = {int(code) for row in rows for code in row.split(",")}
    assert codes == {0, 1, 2, *EXIT_CODES.values(), INTERRUPTED}


_SIGNALLED_WHILE_IT_IMPORTS = """
import os, sys
from importlib.abc import MetaPathFinder
from headrace_cli.main import main

class Signals(MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name == "headrace_worker.main":
            os.kill(os.getpid(), int(sys.argv[1]))

sys.meta_path.insert(0, Signals())
main(["worker", "no_such_module:agent"])
"""


def signalled_while_it_imports(number: signal.Signals) -> subprocess.CompletedProcess[str]:
    """Return how a worker ended that got a signal before it had imported its modules."""
    return subprocess.run(
        [sys.executable, "-c", _SIGNALLED_WHILE_IT_IMPORTS, str(int(number))],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_sigusr2_does_not_end_a_service_that_is_still_importing() -> None:
    ended = signalled_while_it_imports(signal.SIGUSR2)
    assert "no_such_module" in ended.stderr
    assert ended.returncode == os.EX_CONFIG


def test_sigusr1_stops_a_worker_that_is_still_importing() -> None:
    ended = signalled_while_it_imports(signal.SIGUSR1)
    assert (ended.returncode, ended.stderr) == (0, "")
