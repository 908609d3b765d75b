"""Dataclasses that are cheap to define and to create.

The standard library writes and compiles up to eight methods of a frozen dataclass, and a service
defines more than a hundred of them at its start. Here only ``__init__`` is compiled; what else they
have are functions that exist. An assignment to a field of a frozen one is an error for type
checkers alone, so ``__init__`` assigns plainly, in two fifths of the time. What users import (the
SDK, the client, `headrace.testing`, the adapters) is the standard library's, which raises an error
when they assign to a field.
"""

import dataclasses
from collections.abc import Callable
from operator import attrgetter
from reprlib import recursive_repr
from typing import TYPE_CHECKING, Any


def _quick_dataclass(
    cls: type | None = None,
    /,
    *,
    init: bool = True,
    eq: bool = True,
    frozen: bool = False,
    slots: bool = False,
) -> Any:  # noqa: ANN401  # as the standard library's
    """Make `cls` a dataclass, as `dataclasses.dataclass` does; see the module."""

    def define(each: type) -> type:
        own = frozenset(each.__dict__)
        made: Any = dataclasses.dataclass(init=init, eq=False, repr=False, slots=slots)(each)
        if "__repr__" not in own:
            made.__repr__ = _repr
        if eq:
            _compare_by_value(made, own, is_frozen=frozen)
        return made  # type: ignore[no-any-return]

    return define if cls is None else define(cls)


if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass  # noqa: PLC0414  # exports it
else:
    dataclass = _quick_dataclass


def _compare_by_value(made: Any, own: frozenset[str], *, is_frozen: bool) -> None:  # noqa: ANN401  # any class
    """Give a dataclass, which defines the names `own` itself, equality and a hash of its values."""
    values = _values(tuple(each.name for each in dataclasses.fields(made) if each.compare))
    if "__eq__" not in own:
        made.__eq__ = _equal(values)
    if "__hash__" not in own:
        made.__hash__ = _hash(values) if is_frozen else None


@recursive_repr()
def _repr(self: Any) -> str:  # noqa: ANN401  # any dataclass
    shown = (each.name for each in dataclasses.fields(self) if each.repr)
    fields = ", ".join(f"{name}={getattr(self, name)!r}" for name in shown)
    return f"{type(self).__qualname__}({fields})"


def _values(names: tuple[str, ...]) -> Callable[[Any], object]:
    """Return a function of an object that returns the values of its fields `names`."""
    return attrgetter(*names) if names else lambda _: ()


def _equal(values: Callable[[Any], object]) -> Callable[[Any, object], bool]:
    def __eq__(self: Any, other: object) -> bool:  # noqa: ANN401, N807  # any dataclass, and its method
        if other.__class__ is not self.__class__:
            return NotImplemented
        return values(self) == values(other)

    return __eq__


def _hash(values: Callable[[Any], object]) -> Callable[[Any], int]:
    def __hash__(self: Any) -> int:  # noqa: ANN401, N807  # any dataclass, and its method
        return hash(values(self))

    return __hash__
