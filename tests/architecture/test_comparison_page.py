"""The comparisons claim nothing without a test that exists."""

import re

from tests.architecture.tree import ROOT

_ROW = re.compile(r"^\| (?!\||--)([^|]+) \| ([^|]+) \|", re.MULTILINE)
_TEST = re.compile(r"`(tests/\S+/test_\w+\.py)`")
_OPERATING = sorted((ROOT / "docs" / "guides" / "operating").glob("*.md"))
_TASK = re.compile(r"^\| ([^|]+) \| ([^|]+) \| ([^|]+) \| ([^|]+) \|$", re.MULTILINE)


def tasks(page: str) -> dict[str, tuple[str, str, str]]:
    """Return an operator's tasks: what to do there, what here, and what shows it."""
    head, *rows = _TASK.findall(page)
    assert (head[0], head[2:]) == ("to", ("Headrace", "shown by"))
    return {task: (there, here, shown) for task, there, here, shown in rows}


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
