"""Import a command's modules at a fraction of the processor time.

A process imports hundreds of modules before it does anything. Most of what they make in the
meantime is used later or never: garbage collections that find nothing, methods of dataclasses,
parts of libraries that the process does not use.
"""

import dataclasses
import gc
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

_BUILDER = "_FuncBuilder" if sys.version_info[:2] == (3, 13) else ""
"""Class in `dataclasses` that compiles the methods of one dataclass, in one `exec`: 0.5 to 1 ms. In
3.12 there is none, in 3.14 its methods find their annotations through their class."""

_COMPILE = "add_fns_to_class"


@contextmanager
def quick_imports(absent: Sequence[str] = ()) -> Iterator[None]:
    """Make imports in the block quick; `absent` modules can't be imported in it.

    Garbage is not collected, and a method of a dataclass is compiled when it is used first. Absent
    modules are optional ones that a library imports if it can. Nothing of this lasts longer than
    the block.
    """
    # Nearly all objects of an import stay, so collections during it find nothing.
    gc.disable()
    try:
        with _absent(absent), _deferred_methods():
            yield
    finally:
        gc.freeze()
        gc.enable()


@contextmanager
def _absent(names: Sequence[str]) -> Iterator[None]:
    hidden = [name for name in names if name not in sys.modules]
    sys.modules.update(dict.fromkeys(hidden))  # type: ignore[arg-type]  # None, as for an ImportError
    try:
        yield
    finally:
        for name in hidden:
            del sys.modules[name]


@contextmanager
def _deferred_methods() -> Iterator[None]:
    builder: Any = vars(dataclasses).get(_BUILDER)
    if builder is None:
        yield
        return
    compile_: Callable[[Any, type], None] = vars(builder)[_COMPILE]

    def defer(methods: Any, of: type) -> None:  # noqa: ANN401  # the builder, which has no type
        _defer(_Methods(methods, of.__qualname__, compile_), methods, of)

    setattr(builder, _COMPILE, defer)
    try:
        yield
    finally:
        setattr(builder, _COMPILE, compile_)


class _Methods:
    """The generated methods of one dataclass, compiled on first use."""

    def __init__(self, builder: Any, class_: str, compile_: Callable[[Any, type], None]) -> None:  # noqa: ANN401  # it has no type
        self._builder, self._class, self._compile = builder, class_, compile_
        self._compiled: Mapping[str, Any] | None = None

    def __getitem__(self, name: str) -> Any:  # noqa: ANN401  # any method
        if self._compiled is None:
            # Methods take their names from the class that they are added to, and nothing else.
            bearer = type(self._class.rpartition(".")[2], (), {})
            bearer.__qualname__ = self._class
            self._compile(self._builder, bearer)
            self._compiled = vars(bearer)
        return self._compiled[name]


class _Method:
    """A method in its class until it is used; then the compiled one takes its place."""

    __slots__ = ("_methods", "_name", "_owner")

    def __init__(self, methods: _Methods, name: str, owner: type) -> None:
        self._methods, self._name, self._owner = methods, name, owner

    def __set_name__(self, owner: type, name: str) -> None:
        # A class with slots is made a second time.
        self._owner = owner

    def __get__(self, instance: object, owner: type | None = None) -> Any:  # noqa: ANN401  # any method
        method = self._methods[self._name]
        if vars(self._owner).get(self._name) is self:
            setattr(self._owner, self._name, method)
        return method.__get__(instance, owner)


def _defer(methods: _Methods, builder: Any, of: type) -> None:  # noqa: ANN401  # it has no type
    given = vars(of)
    for name in builder.names:
        if name not in given or name in builder.unconditional_adds:
            setattr(of, name, _Method(methods, name, of))
        elif name in builder.overwrite_errors:
            raise TypeError(f"cannot overwrite attribute {name} in class {of.__name__}")
    if not of.__doc__:
        # Instead of the signature, for which `__init__` would be compiled.
        of.__doc__ = of.__name__
