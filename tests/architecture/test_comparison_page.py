"""The comparisons claim nothing without a test that exists, and name commands that exist."""

import re
import shlex

import click
import pytest

from headrace_cli.main import main
from tests.architecture.tree import ROOT

_ROW = re.compile(r"^\| (?!\||--)([^|]+) \| ([^|]+) \|", re.MULTILINE)
_TEST = re.compile(r"`(tests/\S+/test_\w+\.py)`")
_OPERATING = sorted((ROOT / "docs" / "guides" / "operating").glob("*.md"))
_TASK = re.compile(r"^\| ([^|]+) \| ([^|]+) \| ([^|]+) \| ([^|]+) \|$", re.MULTILINE)
_COMMAND = re.compile(r"`headrace ([^`]+)`")


def tasks(page: str) -> dict[str, tuple[str, str, str]]:
    """Return an operator's tasks: what to do there, what here, and what shows it."""
    head, *rows = _TASK.findall(page)
    assert (head[0], head[2:]) == ("to", ("Headrace", "shown by"))
    return {task: (there, here, shown) for task, there, here, shown in rows}


def unknown(words: list[str]) -> list[str]:
    """Return what a command line names that the command line does not have."""
    command: click.Command = main
    while isinstance(command, click.Group) and words and words[0].islower() and words[0][0] != "-":
        found = command.get_command(click.Context(command), words[0])
        if found is None:
            return words[:1]
        command, words = found, words[1:]
    options = {name for parameter in command.params for name in parameter.opts}
    return [word for word in words if word.startswith("--") and word not in options]


def test_each_claim_of_the_comparison_names_a_test() -> None:
    rows = dict(_ROW.findall((ROOT / "docs" / "comparison.md").read_text()))
    assert len(rows) > 15
    without = [what for what, cell in rows.items() if cell != "no" and not _TEST.search(cell)]
    assert without == []


def test_the_pages_for_operators_have_the_same_tasks_with_tests_that_exist() -> None:
    first, *others = [tasks(page.read_text()) for page in _OPERATING]
    assert len(others) == 3
    assert len(first) > 15
    ours = {task: cells[1:] for task, cells in first.items()}
    assert [{task: cells[1:] for task, cells in page.items()} for page in others] == [ours] * 3
    shown = {task: _TEST.findall(cells[1]) for task, cells in ours.items()}
    assert [task for task, tests in shown.items() if not tests] == []
    named = {test for tests in shown.values() for test in tests}
    assert [test for test in named if not (ROOT / test).is_file()] == []


def test_commands_that_the_pages_for_operators_name_exist() -> None:
    commands = {line for page in _OPERATING for line in _COMMAND.findall(page.read_text())}
    assert len(commands) > 20
    assert {line: found for line in commands if (found := unknown(shlex.split(line)))} == {}


@pytest.mark.parametrize("line", ["undo", "agents undo", "tasks --stuck", "dead retry ID --twice"])
def test_a_command_that_does_not_exist_is_found(line: str) -> None:
    assert unknown(shlex.split(line)) == [shlex.split(line)[-1]]
