"""What documents say is tested names tests that exist."""

import re
from functools import cache
from pathlib import Path

import pytest
from ag_ui.core import EventType, RunAgentInput

from tests.architecture.test_document_paths import pages
from tests.architecture.tree import ROOT, tracked

_TEST = re.compile(r"`((?:[\w-]+/)*\w+\.py)::(\w+)`")


@cache
def _modules() -> dict[str, Path]:
    """Return the test modules by their paths."""
    files = [file for file in tracked() if file.suffix == ".py" and ROOT / "tests" in file.parents]
    return {f"/{file.relative_to(ROOT)}": file for file in files}


@cache
def _defined_in(path: str) -> frozenset[str]:
    """Return the names that the test modules define whose paths end so."""
    found = [file for whole, file in _modules().items() if whole.endswith(f"/{path}")]
    return frozenset(name for file in found for name in names_in(file))


def names_in(file: Path) -> list[str]:
    """Return the functions and classes that a module defines."""
    return re.findall(r"^\s*(?:async )?(?:def|class) (\w+)", file.read_text(), re.MULTILINE)


def missing(text: str) -> list[str]:
    """Return the tests that `text` names and that do not exist."""
    named = _TEST.findall(text)
    return [f"{path}::{name}" for path, name in named if name not in _defined_in(path)]


def test_named_tests_exist() -> None:
    texts = {page.name: page.read_text() for page in pages()}
    assert sum(len(_TEST.findall(text)) for text in texts.values()) > 200
    assert {name: tests for name, text in texts.items() if (tests := missing(text))} == {}


@pytest.mark.parametrize("path", ["e2e/test_none.py", "e2e/test_chaos.py"])
def test_a_test_that_does_not_exist_is_seen(path: str) -> None:
    named = "`e2e/test_chaos.py::test_a_seed`"
    assert missing(f"{named} `{path}::test_nothing`")[-1] == f"{path}::test_nothing"


def test_each_cell_of_the_frameworks_names_a_test() -> None:
    table = (ROOT / "docs" / "adapter-tests.md").read_text()
    rows = [line for line in table.splitlines() if line.startswith("|")][2:]
    named = {f"test_{name}" for row in rows for name in re.findall(r"`([a-z_0-9]+)`", row)}
    folders = [ROOT / "tests" / folder for folder in ("integration/worker", "unit/shared/adapters")]
    files = [file for folder in folders for file in folder.rglob("*.py")]
    assert len(rows) > 10
    assert named - {name for file in files for name in names_in(file)} == set()


def test_every_event_and_every_field_of_an_input_of_agui_has_a_row() -> None:
    page = (ROOT / "docs" / "conformance.md").read_text()
    events = {event.value for event in EventType}
    fields = {field.alias or name for name, field in RunAgentInput.model_fields.items()}
    assert len(events) > 30
    assert [one for one in events | fields if f"\n| `{one}`" not in page] == []
