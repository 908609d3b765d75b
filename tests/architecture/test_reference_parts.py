"""Tables of options, members and classes on pages are what the code declares."""

import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args, get_type_hints

import pytest

from headrace import Emission, RunContext, adapters
from tests.architecture.tree import ROOT
from tests.reference.parts import pages, rewritten

_REFERENCE = ROOT / "docs" / "agent-reference.md"


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.stem)
def test_the_parts_of_a_page_are_made_of_the_code(page: Path) -> None:
    text = page.read_text()
    assert rewritten(text) == text, "run: python -m tests.reference"


def test_each_adapter_has_a_page_with_its_options() -> None:
    made = {name for name in adapters.__all__ if name.endswith("_agent")} | {"McpServer"}
    text = "".join(map(_all, pages()))
    shown = re.findall(r"made of options headrace\.adapters\.[\w.]+:(\w+)", text)
    assert len(made) == 9
    assert sorted(shown) == sorted(made)


def _all(page: Path) -> str:
    return page.read_text()


def test_the_reference_has_each_member_of_the_context() -> None:
    public = {name for name, _ in inspect.getmembers_static(RunContext) if name[0] != "_"}
    fields = {name for name in get_type_hints(RunContext) if name[0] != "_"}
    [*parts] = re.findall(r"made of members headrace:RunContext ([^>]+) -->", _all(_REFERENCE))
    shown = [name for part in parts for name in part.split()]
    assert len(shown) > 40
    assert sorted(shown) == sorted(public | fields)


def _kinds(alias: Any) -> Iterator[type]:  # noqa: ANN401  # a class, a union or its name
    """Yield the classes of a union of unions."""
    if isinstance(alias, type):
        yield alias
    else:
        for each in get_args(alias.__value__ if hasattr(alias, "__value__") else alias):
            yield from _kinds(each)


def test_the_reference_has_each_output_but_those_of_adapters() -> None:
    outputs = {one.__name__ for one in _kinds(Emission)} - {"str"}
    [*parts] = re.findall(r"made of classes headrace ([^>]+) -->", _all(_REFERENCE))
    shown = {name for part in parts for name in part.split()}
    assert len(outputs) > 15
    assert outputs - shown == {"Outcome", "RelayedMessage"}
    assert shown <= outputs
