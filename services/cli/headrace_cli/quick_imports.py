"""Import a command's modules without work that is of no use.

A process imports hundreds of modules before it does anything. Garbage collections find nothing
meanwhile, and libraries import optional parts that the process does not use.
"""

import gc
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager


@contextmanager
def quick_imports(absent: Sequence[str] = ()) -> Iterator[None]:
    """Make imports in the block quick; `absent` modules can't be imported in it.

    Garbage is not collected. Absent modules are optional ones that a library imports if it can.
    Neither lasts longer than the block.
    """
    # Nearly all objects of an import stay, so collections during it find nothing.
    gc.disable()
    try:
        with _absent(absent):
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
