"""The AG-UI tables of the conformance page are made of tests that exist and look at their item."""

import re

import pytest
from ag_ui.core import EventType, RunAgentInput

from tests.architecture.agui_items import (
    ANALYSIS,
    ANALYSIS_NOT_MET,
    EVENTS_OF_0_X,
    ITEMS,
    Item,
)
from tests.architecture.named_tests import exists, looked_at
from tests.architecture.tree import ROOT, tracked

PAGE = ROOT / "docs" / "conformance.md"
_ANALYSIS = ROOT.parent / "shared" / "seeds" / "agui-drift-analysis.txt"
_BEGIN, _END = "<!-- AG-UI tables: begin -->\n", "<!-- AG-UI tables: end -->\n"
_NAMED = re.compile(r"`(tests/[\w/]+\.py|[\w/]*\btest_\w+\.py)(?:::(test_\w+))?`")
_EVENT = re.compile(r"[A-Z]+(?:_[A-Z]+)+")
_NO_EVENTS = {"SCREAMING_SNAKE_CASE"}
_WORDS = {"RAW", "CUSTOM"}
"""Events whose names the pattern does not tell from words."""


def tables() -> str:
    """Return the tables as they stand on the page."""
    return "".join(f"\n**{title}**\n\n{_table(rows)}" for title, rows in ITEMS.items())


def analysis() -> str:
    """Return the drift analysis' table as it stands on the page."""
    received = {line: ", ".join(_answers(names)) for line, names in ANALYSIS.items()}
    rows = (f"| {line} | {output} |\n" for line, output in (received | ANALYSIS_NOT_MET).items())
    return "".join(["| line | answered by |\n|---|---|\n", *rows])


def _answers(names: tuple[str, ...]) -> list[str]:
    """Return the names of tables, and the tests of rows, each once."""
    tables = [f"every row of **{name}**" for name in names if name in ITEMS]
    tests = [f"`{test}`" for item in _rows() if item.name in names for test in item.tests]
    return [*tables, *dict.fromkeys(tests)]


def _table(rows: list[Item]) -> str:
    return "".join(["| item | tests |\n|---|---|\n", *map(_row, rows)])


def _row(item: Item) -> str:
    remark = f": {item.remark}" if item.remark else ""
    name = f"`{item.name}`" if item.is_name else item.name
    return f"| {name}{remark} | {', '.join(f'`{test}`' for test in item.tests)} |\n"


def _rows() -> list[Item]:
    return [item for rows in ITEMS.values() for item in rows]


def test_every_test_of_the_tables_exists() -> None:
    named = [test for item in _rows() for test in item.tests]
    assert len(named) > 80
    assert [test for test in named if not exists(test)] == []
    assert [item.name for item in _rows() if not item.tests] == []


def test_each_name_of_the_protocols_is_in_what_its_tests_look_at() -> None:
    names = [item for item in _rows() if item.is_name]
    assert len(names) > 50
    blind = [
        item.name
        for item in names
        if not any(re.search(rf"\b{item.name}\b", looked_at(test)) for test in item.tests)
    ]
    assert blind == []


def test_every_event_and_every_field_of_an_input_has_a_row() -> None:
    names = {item.name for item in _rows() if item.is_name}
    events = {event.value for event in EventType}
    fields = {field.alias or name for name, field in RunAgentInput.model_fields.items()}
    assert len(events) > 30
    assert events - names == set()
    assert fields - names == set()


def test_every_event_of_the_0_x_documents_has_a_row() -> None:
    if _ANALYSIS.is_file():
        # What follows has the same once more, with words run together.
        listed, _, _ = _ANALYSIS.read_text().partition("\nReferences\n")
        assert set(_EVENT.findall(listed)) - _NO_EVENTS | _WORDS == EVENTS_OF_0_X
    assert len(EVENTS_OF_0_X) == 33
    assert EVENTS_OF_0_X - {item.name for item in _rows()} == set()


def test_every_line_of_the_drift_analysis_is_answered() -> None:
    listed = ANALYSIS.keys() | ANALYSIS_NOT_MET.keys()
    assert len(listed) == len(ANALYSIS) + len(ANALYSIS_NOT_MET) == 35
    answers = {answer for answers in ANALYSIS.values() for answer in answers}
    assert answers - ITEMS.keys() - {item.name for item in _rows()} == set()
    if _ANALYSIS.is_file():
        text, _, _ = _ANALYSIS.read_text().partition("\nReferences\n")
        numbered, _, rest = text.partition("\nImpact Assessment\n")
        impact, _, plan = rest.partition("\nRemediation Plan\n")
        lines = {
            *re.findall(r"^(\d\.\d .+?|[4-9]\. .+?)(?: \(.*| —.*)?$", numbered, re.MULTILINE),
            *re.findall(r"^(?:- |(?=metadata ))([^:\n]+)", impact, re.MULTILINE),
            *(
                f"{n} {output}"
                for n, output in re.findall(r"^(P\d\.\d) — (.+)$", plan, re.MULTILINE)
            ),
        }
        assert lines == listed


def test_the_page_has_the_drift_analysis_table_as_it_is() -> None:
    assert f"\n{analysis()}\n" in PAGE.read_text()


def test_the_page_has_the_tables_as_they_are() -> None:
    _, _, rest = PAGE.read_text().partition(_BEGIN)
    found, _, _ = rest.partition(_END)
    assert found == tables(), "write what tables() returns between the marks of the page"


def test_every_test_file_that_the_page_names_exists() -> None:
    folders = {path.parent for path in tracked() if path.is_relative_to(ROOT / "tests")}
    named = _NAMED.findall(PAGE.read_text())
    assert len(named) > 200
    missing = [
        path
        for path, name in named
        if not any((folder / path.removeprefix("tests/")).is_file() for folder in folders)
        or (name and not exists(f"{path}::{name}"))
    ]
    assert missing == []


@pytest.mark.parametrize(
    "test", ["unit/gateway/protocols/agui/test_text.py::test_nothing", "unit/none.py::test_a"]
)
def test_a_test_that_does_not_exist_is_seen(test: str) -> None:
    assert not exists(test)
    assert looked_at(test) == ""
