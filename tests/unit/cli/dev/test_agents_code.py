"""Which files agents consist of, and what is done when they are saved."""

import importlib
import os
import sys
from pathlib import Path

import pytest

from headrace_cli.dev.agents_code import folders_with_code, forget_bytecode, roots_of


def test_only_packages_with_python_files_are_watched(tmp_path: Path) -> None:
    for name in ("shop/__init__.py", "shop/tills/till.py", ".venv/lib/a.py", "a-b/a.py", "d/a.txt"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    (tmp_path / "__pycache__").mkdir()
    (tmp_path / "__pycache__" / "a.py").touch()
    assert folders_with_code([tmp_path]) == {
        tmp_path,
        tmp_path / "shop",
        tmp_path / "shop" / "tills",
    }


def test_code_is_where_the_agents_modules_are_imported_from(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere = tmp_path / "src"
    (elsewhere / "shop").mkdir(parents=True)
    (elsewhere / "shop" / "__init__.py").touch()
    monkeypatch.syspath_prepend(elsewhere)
    # Another test's module of this name would be found first.
    monkeypatch.delitem(sys.modules, "shop", raising=False)
    targets = "shop.till:agents,json:loads,httpx:get,not_there:at_all"
    assert roots_of(targets, tmp_path / "project") == sorted([tmp_path / "project", elsewhere])


def test_two_saves_of_one_size_within_a_second_are_both_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    file = tmp_path / "saved_twice.py"

    def imported(version: int) -> int:
        file.write_text(f"VERSION = {version}\n")
        os.utime(file, (1, 1))
        monkeypatch.delitem(sys.modules, "saved_twice", raising=False)
        found: int = importlib.import_module("saved_twice").VERSION
        return found

    assert imported(1) == 1
    assert imported(2) == 1, "Python takes the cached bytecode for current"
    forget_bytecode({file, tmp_path / "headrace.yaml"})
    assert imported(3) == 3
