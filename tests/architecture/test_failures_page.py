"""Every failure on the page is shown by a test that exists."""

import re

import pytest

from tests.architecture.tree import ROOT

PAGE = ROOT / "docs" / "failures.md"
_NAMED = re.compile(r"`([\w/]+\.py)::(test_\w+)`")
_SHOWN = re.compile(rf"{_NAMED.pattern}(?:, {_NAMED.pattern})*")
_ROW = re.compile(r"^\| (?!failure |command |---)", re.MULTILINE)


def rows(text: str) -> list[list[str]]:
    """Return the cells of each failure in `text`."""
    lines = [line for line in text.splitlines() if _ROW.match(line)]
    cells = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]
    return [row for row in cells if len(row) > 2]


def missing(text: str) -> list[str]:
    """Return what is named in `text` and is no test."""
    return [
        f"{path}::{name}"
        for path, name in _NAMED.findall(text)
        if f"def {name}(" not in _source(path)
    ]


def _source(path: str) -> str:
    file = ROOT / "tests" / path
    return file.read_text() if file.is_file() else ""


def test_every_failure_has_a_test_that_exists() -> None:
    text = PAGE.read_text()
    assert missing(text) == []
    assert len(rows(text)) > 40
    assert [row for row in rows(text) if len(row) != 4 or not _SHOWN.fullmatch(row[3])] == []


@pytest.mark.parametrize(
    "named", ["`e2e/test_chaos.py::test_nothing`", "`e2e/test_none.py::test_a_seed`"]
)
def test_a_test_that_does_not_exist_is_seen(named: str) -> None:
    assert missing(f"| a failure | nothing | nothing | {named} |")
