"""The table of public reports on the conformance page names a verdict and tests that exist."""

import re
from typing import NamedTuple

import pytest

from tests.architecture.named_tests import exists
from tests.architecture.tree import ROOT

PAGE = ROOT / "docs" / "conformance.md"
_HEAD = "\n| repository | number | situation | verdict | test |\n|---|---|---|---|---|\n"
_REPOSITORY = re.compile(r"[\w.-]+/[\w.-]+")
_NUMBERS = re.compile(r"(?:[\w./-]+ )?\d+(?:, (?:[\w./-]+ )?\d+)*")
_VERDICT = re.compile(r"holds|mended|not supported: .{20,}")
_TEST = re.compile(r"`([\w/]+\.py::\w+)`")


class Row(NamedTuple):
    """One situation."""

    repository: str
    number: str
    situation: str
    verdict: str
    test: str


def rows() -> list[Row]:
    """Return the rows of the table."""
    _, _, rest = PAGE.read_text().partition(_HEAD)
    table, _, _ = rest.partition("\n\n")
    return [Row(*line.strip("| ").split(" | ")) for line in table.splitlines()]


def test_there_are_as_many_as_were_tried() -> None:
    assert len(rows()) >= 60
    assert len({(row.repository, row.number) for row in rows()}) == len(rows())


@pytest.mark.parametrize("row", rows(), ids=lambda row: f"{row.repository} {row.number}")
def test_a_row_has_a_verdict_and_an_existing_test(row: Row) -> None:
    assert _REPOSITORY.fullmatch(row.repository)
    assert _NUMBERS.fullmatch(row.number)
    assert _VERDICT.fullmatch(row.verdict)
    named = _TEST.fullmatch(row.test)
    assert named
    assert exists(named[1])
