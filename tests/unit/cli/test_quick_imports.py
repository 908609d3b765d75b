"""Imports that make at start only what a process needs to start."""

import gc
import importlib
import sys

import pytest

from headrace_cli.quick_imports import quick_imports


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
