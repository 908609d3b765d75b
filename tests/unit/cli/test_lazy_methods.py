"""Dataclasses whose methods are compiled when they are first called behave as usual ones."""

import copy
import dataclasses
import inspect
import pickle
from collections.abc import Callable
from dataclasses import KW_ONLY, FrozenInstanceError, InitVar, dataclass, field
from typing import Any

import pytest

from headrace_cli.lazy_methods import IS_KNOWN, lazy_methods
from headrace_cli.quick_imports import quick_imports

pytestmark = pytest.mark.skipif(not IS_KNOWN, reason="this Python compiles methods at once")


def test_imports_of_a_service_define_such_dataclasses() -> None:
    with quick_imports():
        before = dataclasses.make_dataclass("Point", ["x"])
    after = dataclasses.make_dataclass("Point", ["x"])
    assert is_lazy(before)
    assert not is_lazy(after)


def is_lazy(cls: type) -> bool:
    return hasattr(cls.__dict__["__init__"], "__signature__")


def test_methods_are_compiled_when_they_are_called() -> None:
    with lazy_methods():
        cls = dataclasses.make_dataclass("Point", ["x", "y"])
    point: Any = cls(1, y=2)
    assert not is_lazy(cls)
    assert hasattr(cls.__eq__, "__signature__")
    assert point == cls(1, 2)
    assert not hasattr(cls.__eq__, "__signature__")


def both(make: Callable[[], type[Any]]) -> tuple[type[Any], type[Any]]:
    """Return what `make` defines as usual, and with lazy methods."""
    usual = make()
    with lazy_methods():
        lazy = make()
    assert is_lazy(lazy)
    return usual, lazy


def ordinary() -> type[Any]:
    @dataclass(order=True)
    class Each:
        one: int
        two: list[int] = field(default_factory=list)
        _: KW_ONLY
        three: str = "3"
        hidden: int = field(default=4, repr=False, compare=False)

    return Each


def frozen(*, slots: bool) -> Callable[[], type[Any]]:
    def make() -> type[Any]:
        @dataclass(frozen=True, slots=slots)  # type: ignore[literal-required]
        class Each:
            one: int
            two: object = None

        return Each

    return make


def derived() -> type[Any]:
    @dataclass
    class Base:
        one: int
        given: InitVar[int] = 1

        def __post_init__(self, given: int) -> None:
            self.sum = self.one + given

    @dataclass
    class Each(Base):
        two: int = 2

        def __repr__(self) -> str:
            return "own"

    return Each


KINDS = [
    ordinary,
    pytest.param(frozen(slots=False), id="frozen"),
    pytest.param(frozen(slots=True), id="slots"),
    derived,
]


@pytest.mark.parametrize("make", KINDS)
def test_they_create_the_same_objects(make: Callable[[], type[Any]]) -> None:
    usual, lazy = both(make)
    assert str(inspect.signature(lazy)) == str(inspect.signature(usual))
    assert lazy.__doc__ == usual.__doc__
    for arguments in [(1,), (1, 2)]:
        assert repr(lazy(*arguments)) == repr(usual(*arguments))
        assert dataclasses.astuple(lazy(*arguments)) == dataclasses.astuple(usual(*arguments))
    for cls in (usual, lazy):
        with pytest.raises(TypeError, match="__init__"):
            cls(unknown=1)


@pytest.mark.parametrize("make", KINDS)
def test_they_compare_and_copy(make: Callable[[], type[Any]]) -> None:
    for cls in both(make):
        one, same, other = cls(1), cls(1), cls(2)
        assert one == same
        assert one != other
        assert one != 1
        assert copy.copy(one) == one
        assert dataclasses.replace(one, one=2, **({"given": 1} if make is derived else {})) == other


def test_they_are_ordered() -> None:
    for cls in both(ordinary):
        assert cls(1) < cls(2) <= cls(2)
        assert sorted([cls(2), cls(1)]) == [cls(1), cls(2)]
        with pytest.raises(TypeError):
            _ = cls(1) < 1


@pytest.mark.parametrize("slots", [False, True])
def test_frozen_ones_stay_frozen_and_have_a_hash(*, slots: bool) -> None:
    for cls in both(frozen(slots=slots)):
        one = cls(1)
        assert hash(one) == hash(cls(1))
        with pytest.raises(FrozenInstanceError):
            one.one = 2
        with pytest.raises(FrozenInstanceError):
            del one.one


def test_others_have_none() -> None:
    for cls in both(ordinary):
        with pytest.raises(TypeError, match="unhashable"):
            hash(cls(1))


def test_a_method_that_was_taken_before_its_first_call_still_works() -> None:
    _, lazy = both(ordinary)
    taken = lazy.__init__
    one, two = lazy(1), lazy(2)
    taken(one, 2)
    assert one == two


def test_a_subclass_that_is_no_dataclass_uses_its_bases_methods() -> None:
    for cls in both(ordinary):

        class Further(cls):  # type: ignore[misc, valid-type]
            def __init__(self) -> None:
                super().__init__(7)

        assert Further().one == 7
        assert Further() == Further()
        assert not is_lazy(cls)


def test_an_order_that_would_replace_a_method_is_refused_as_usual() -> None:
    class Each:
        def __lt__(self, other: object) -> bool:
            return False

    with lazy_methods(), pytest.raises(TypeError, match="total_ordering"):
        dataclass(order=True)(Each)


with lazy_methods():

    @dataclass(frozen=True, slots=True)
    class Pickled:
        """One that pickle finds."""

        one: int


def test_they_are_pickled() -> None:
    assert pickle.loads(pickle.dumps(Pickled(1))) == Pickled(1)  # noqa: S301  # its own
