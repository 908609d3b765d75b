"""The examples as modules: each test gets a fresh one."""

import importlib.util
from pathlib import Path
from types import ModuleType

_FOLDER = Path(__file__).resolve().parents[4] / "examples"


def example(name: str) -> ModuleType:
    """Return ``examples/NAME.py``, executed anew."""
    spec = importlib.util.spec_from_file_location(f"example_{name}", _FOLDER / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
