"""Dataclasses with one compiled method are like the standard library's."""

import dataclasses
from collections.abc import Callable
from importlib import import_module
from typing import Any

import pytest

from headrace.dataclass import _repr, dataclass
from headrace_worker.adapters.credentials import ApiKey, Bearer, ClientCredentials


def _made(decorate: Callable[[type], type]) -> type[Any]:
    class Point:
        x: int
        y: int = 0
        note: str = dataclasses.field(default="", compare=False)
        key: str = dataclasses.field(default="hidden", repr=False)
        seen: list[object] = dataclasses.field(default_factory=list, compare=False)

    return decorate(Point)


_KINDS: list[dict[str, bool]] = [
    {},
    {"slots": True},
    {"frozen": True},
    {"frozen": True, "slots": True},
    {"eq": False, "slots": True},
]


@pytest.fixture(params=_KINDS, ids=str)
def kinds(request: pytest.FixtureRequest) -> tuple[type[Any], type[Any]]:
    """The same class, ours and the standard library's."""
    return _made(dataclass(**request.param)), _made(dataclasses.dataclass(**request.param))


def test_is_shown_as_the_standard_library_shows_it(kinds: tuple[type[Any], type[Any]]) -> None:
    ours, theirs = ((each := kind(1, note="n")).seen.append(each) or repr(each) for kind in kinds)
    assert ours == theirs
    assert "hidden" not in ours
    assert "seen=[...]" in ours


def test_compares_what_the_standard_library_compares(
    kinds: tuple[type[Any], type[Any]],
) -> None:
    ours, theirs = (
        [kind(1) == kind(1), kind(1) == kind(1, note="n"), kind(1) == kind(2), kind(1) == 1]
        for kind in kinds
    )
    assert ours == theirs


def test_can_be_a_key_where_the_standard_library_s_can(
    kinds: tuple[type[Any], type[Any]],
) -> None:
    ours, theirs = kinds
    assert (ours.__hash__ is None) == (theirs.__hash__ is None)
    if ours.__hash__ is not None:
        assert len({ours(1), ours(1, note="n"), ours(2)}) == len({theirs(1), theirs(1), theirs(2)})


def test_has_the_signature_fields_and_slots_of_the_standard_library_s(
    kinds: tuple[type[Any], type[Any]],
) -> None:
    ours, theirs = kinds
    assert [each.name for each in dataclasses.fields(ours)] == ["x", "y", "note", "key", "seen"]
    assert getattr(ours, "__slots__", None) == getattr(theirs, "__slots__", None)
    assert ours.__match_args__ == theirs.__match_args__
    assert dataclasses.replace(ours(1), x=2).x == 2
    with pytest.raises(TypeError, match="x"):
        ours()


def test_keeps_the_methods_that_a_class_has_itself() -> None:
    @dataclass(frozen=True, slots=True)
    class Name:
        text: str

        def __repr__(self) -> str:
            return self.text

        def __eq__(self, other: object) -> bool:
            return isinstance(other, Name) and self.text.lower() == other.text.lower()

        def __hash__(self) -> int:
            return hash(self.text.lower())

    assert repr(Name("Ada")) == "Ada"
    assert len({Name("Ada"), Name("ADA")}) == 1


def test_two_without_fields_are_equal() -> None:
    @dataclass(frozen=True, slots=True)
    class Nothing:
        """No fields."""

    assert len({Nothing(), Nothing()}) == 1
    assert repr(Nothing()).endswith("Nothing()")


def test_what_users_import_is_the_standard_library_s() -> None:
    modules = [import_module(f"headrace{name}") for name in ("", ".client", ".testing")]
    users: set[object] = {ApiKey, Bearer, ClientCredentials}
    users |= {getattr(module, name) for module in modules for name in module.__all__}
    made = [each for each in users if isinstance(each, type) and dataclasses.is_dataclass(each)]
    assert len(made) > 40
    assert [each for each in made if each.__repr__ is _repr] == []
