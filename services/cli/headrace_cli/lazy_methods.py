"""Dataclasses whose methods are compiled when they are first called.

The standard library writes and compiles up to eight methods of a dataclass when it is defined. A
service imports more than 200 dataclasses, its own and its libraries', and calls few of the
methods.
"""

import dataclasses
import inspect
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    _Builder: Any = object
else:
    _Builder = getattr(dataclasses, "_FuncBuilder", object)

IS_KNOWN = sys.version_info[:2] == (3, 13)
"""Whether this Python writes dataclasses' methods in the way that is known here."""


@contextmanager
def lazy_methods() -> Iterator[None]:
    """Compile methods of dataclasses that are defined in the block when they are first called.

    A Python that writes them in another way compiles them as usual.
    """
    if not IS_KNOWN:
        yield
        return
    known: Any = dataclasses
    known._FuncBuilder = _LazyBuilder  # noqa: SLF001  # see the module
    try:
        yield
    finally:
        known._FuncBuilder = _Builder  # noqa: SLF001


class _LazyBuilder(_Builder):  # type: ignore[misc]  # the standard library's, which is private
    """Gives a class functions that compile the method they stand for, and become it."""

    def add_fns_to_class(self, cls: type) -> None:
        """Add the methods, as the standard library's builder does."""
        defined = cls.__dict__
        if any(name in defined for name in self.overwrite_errors):
            super().add_fns_to_class(cls)  # raises its error
            return
        for name, source in zip(self.names, self.src, strict=True):
            if name not in defined or name in self.unconditional_adds:
                setattr(cls, name, self._lazy(cls.__qualname__, name, source))

    def _lazy(self, owner: str, name: str, source: str) -> Callable[..., object]:
        compiled: list[Callable[..., object]] = []

        def method() -> Callable[..., object]:
            if not compiled:
                compiled.append(self._compile(name, source))
                compiled[0].__qualname__ = stub.__qualname__
            return compiled[0]

        def stub(self: object, /, *args: object, **options: object) -> object:
            for each in type(self).__mro__:
                if each.__dict__.get(name) is stub:
                    setattr(each, name, method())
            return method()(self, *args, **options)

        stub.__name__, stub.__qualname__ = name, f"{owner}.{name}"
        stub.__module__ = self.globals["__name__"]
        stub.__signature__ = lambda: inspect.signature(method())  # type: ignore[attr-defined]
        return stub

    def _compile(self, name: str, source: str) -> Callable[..., object]:
        text = f"def make({','.join(self.locals)}):\n{source}\n return {name}"
        made: dict[str, Callable[..., Any]] = {}
        exec(text, self.globals, made)  # noqa: S102  # as the standard library does
        return made["make"](**self.locals)  # type: ignore[no-any-return]
