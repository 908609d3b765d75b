"""The conformance page counts what the pages of AG-UI's and Hector's documents list.

Those pages are written by the tests that run the documents' code.
"""

import re
from collections import Counter

import pytest

from tests.architecture.tree import ROOT

PAGE = ROOT / "docs" / "conformance.md"
PAGES = ("agui-lines", "hector-lines")
HOLDS_TYPES = (
    "test_what_is_sent_and_received_is_of_these_types",
    "test_python_reads_what_is_sent_and_received",
)
_ROW = re.compile(r"^\| (?!block |section |---).*\| (.+) \|$", re.MULTILINE)
_TEST = re.compile(r"`(test_\w+)`")


def outcome(cell: str) -> str:
    """Return what becomes of a piece of code, by the last cell of its row."""
    found = _TEST.fullmatch(cell)
    if found is None:
        return "reason"
    return "types" if found[1] in HOLDS_TYPES else "run"


def counted(text: str) -> Counter[str]:
    """Return how many rows of a page have each outcome, and how many lines are not met."""
    tables, _, not_met = text.partition("\n## Not met as it stands\n")
    found = Counter(outcome(cell) for cell in _ROW.findall(tables))
    found["documents"] = len(re.findall(r"^## `", tables, re.MULTILINE))
    found["not met"] = len(re.findall(r"^- ", not_met, re.MULTILINE))
    return found


def summary() -> str:
    """Return the table as it stands on the page."""
    head = (
        "| page | documents | pieces of code | run | held to their types | "
        "listed with the reason | lines not met, with the reason |\n"
        "|---|---|---|---|---|---|---|\n"
    )
    return head + "".join(_row(name) for name in PAGES)


def _row(name: str) -> str:
    found = counted((ROOT / "docs" / f"{name}.md").read_text())
    ends = [found[kind] for kind in ("run", "types", "reason")]
    cells = [found["documents"], sum(ends), *ends, found["not met"]]
    return f"| [{name}]({name}.md) | {' | '.join(map(str, cells))} |\n"


def test_the_conformance_page_counts_what_the_pages_list() -> None:
    assert f"\n{summary()}\n" in PAGE.read_text(), f"write this to the page:\n{summary()}"


@pytest.mark.parametrize(
    ("cell", "is_"),
    [
        ("`test_messages_are_taken`", "run"),
        (f"`{HOLDS_TYPES[0]}`", "types"),
        ("A picture.", "reason"),
        ("Another server: `tests/x/test_y.py`.", "reason"),
    ],
)
def test_a_row_counts_by_its_last_cell(cell: str, is_: str) -> None:
    page = (
        f"## `a`\n\n| block | test |\n|---|---|\n| `b` | {cell} |\n\n## Not met as it stands\n- c\n"
    )
    assert counted(page) == {is_: 1, "documents": 1, "not met": 1}
