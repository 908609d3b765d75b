"""Load the examples as modules, a fresh one for each test."""

from pathlib import Path
from types import ModuleType

_FOLDER = Path(__file__).resolve().parents[2] / "examples"


def example(name: str, **elsewhere: str) -> ModuleType:
    """Return ``examples/NAME.py``, executed anew; `elsewhere`: addresses that replace its own."""
    source = (_FOLDER / f"{name}.py").read_text()
    for constant, address in elsewhere.items():
        own = next(line for line in source.splitlines() if line.startswith(f"{constant} = "))
        source = source.replace(own, f"{constant} = {address!r}")
    module = ModuleType(f"example_{name}")
    exec(compile(source, f"{name}.py", "exec"), module.__dict__)  # noqa: S102  # our own example
    return module
