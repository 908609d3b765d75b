"""Imports that make at start only what a process needs to start."""

import dataclasses
import gc
import importlib
import inspect
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import FunctionType, ModuleType

import pytest

from headrace_cli.quick_imports import quick_imports

MODULE = """
from dataclasses import dataclass, field

@dataclass(frozen=True, slots=True)
class Point:
    '''A point.'''

    x: int
    y: int = 2
    tags: list[str] = field(default_factory=list, compare=False)

@dataclass(frozen=True, slots=True)
class Solid(Point):
    '''A point in space.'''

    z: int = 3

@dataclass(order=True, kw_only=True)
class Said:
    words: str
    length: int = 0

    def __post_init__(self):
        self.length = len(self.words)

    def __repr__(self):
        return 'said'

class Loud(Said):
    def __init__(self, words):
        super().__init__(words=words.upper())
"""

defers = pytest.mark.skipif(
    sys.version_info[:2] != (3, 13), reason="dataclasses of this version compile their methods"
)


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    (tmp_path / "quickly_imported.py").write_text(MODULE)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "quickly_imported", raising=False)
    with quick_imports():
        return importlib.import_module("quickly_imported")


def method(class_: type, name: str) -> object:
    return vars(class_)[name]


@defers
@pytest.mark.parametrize("name", ["Point", "Solid", "Said"])
def test_methods_of_a_dataclass_are_compiled_when_it_is_used(module: ModuleType, name: str) -> None:
    class_ = getattr(module, name)
    assert not isinstance(method(class_, "__init__"), FunctionType)
    assert not isinstance(method(class_, "__eq__"), FunctionType)
    assert inspect.signature(class_).return_annotation is None
    assert isinstance(method(class_, "__init__"), FunctionType)
    assert class_.__init__.__qualname__ == f"{name}.__init__"


def test_a_dataclass_with_slots_is_what_it_would_be_without_the_block(module: ModuleType) -> None:
    point = module.Point(1)
    assert repr(point) == "Point(x=1, y=2, tags=[])"
    assert point == module.Point(1, 2, ["a"])
    assert point != module.Solid(1)
    assert hash(point) == hash(module.Point(1))
    assert len({point, module.Point(1), module.Point(3)}) == 2
    with pytest.raises(dataclasses.FrozenInstanceError, match="cannot assign to field 'x'"):
        point.x = 2
    with pytest.raises(dataclasses.FrozenInstanceError, match="cannot delete field 'x'"):
        del point.x
    assert dataclasses.replace(point, y=5) == module.Point(1, 5)
    assert repr(module.Solid(1, z=7)) == "Solid(x=1, y=2, tags=[], z=7)"
    assert str(inspect.signature(module.Point)) == (
        "(x: int, y: int = 2, tags: list[str] = <factory>) -> None"
    )


def test_a_dataclass_keeps_its_own_methods_and_its_order(module: ModuleType) -> None:
    assert repr(module.Loud("ah")) == "said"
    assert module.Loud("ah").words == "AH"
    assert module.Said(words="a") < module.Said(words="b")
    assert module.Said(words="a", length=9).length == 1
    with pytest.raises(TypeError, match="words"):
        module.Said()


def test_threads_may_use_a_dataclass_first_at_the_same_time(module: ModuleType) -> None:
    with ThreadPoolExecutor(8) as threads:
        made = list(threads.map(lambda _: module.Point(1), range(64)))
    assert len(made) == 64
    assert set(made) == {module.Point(1)}


@defers
def test_a_method_that_ordering_would_replace_is_an_error() -> None:
    class Ordered:
        def __lt__(self, other: object) -> bool:
            return True

    with quick_imports(), pytest.raises(TypeError, match="__lt__ in class Ordered"):
        dataclasses.dataclass(order=True)(Ordered)


def test_an_absent_module_is_absent_for_the_block_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "this", raising=False)
    with quick_imports(["dis", "this"]):
        assert importlib.import_module("dis") is sys.modules["dis"]  # imported before
        with pytest.raises(ImportError):
            importlib.import_module("this")
    assert "this" not in sys.modules


def test_afterwards_everything_is_as_before() -> None:
    with pytest.raises(ModuleNotFoundError), quick_imports(["absent"]):
        importlib.import_module("absent")
    assert "absent" not in sys.modules
    assert gc.isenabled()
    made = dataclasses.make_dataclass("Made", ["x"])
    assert isinstance(method(made, "__init__"), FunctionType)
