"""No module imports what mypy leaves unread: all that comes from there would pass every check."""

import re
import tomllib
from collections.abc import Sequence
from fnmatch import fnmatchcase
from functools import cache

import pytest

from tests.architecture.tree import ROOT, modules, modules_of_tests

IMPORTED = re.compile(r"^\s*(?:from|import)\s+([\w.]+)", re.MULTILINE)

UNCHECKED = {
    "tests/benchmarks/official_server.py": {"sqlalchemy.ext.asyncio"},  # one engine
}


@cache
def unread() -> Sequence[str]:
    """Return the patterns of the modules that mypy does not follow."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    sections = settings["tool"]["mypy"]["overrides"]
    skipped = [one["module"] for one in sections if one.get("follow_imports") == "skip"]
    return [pattern for patterns in skipped for pattern in patterns]


def unread_imports(source: str) -> set[str]:
    """Return the modules that `source` imports and mypy does not read."""
    patterns = unread()
    names = set(IMPORTED.findall(source))
    return {name for name in names if any(fnmatchcase(f"{name}.", one) for one in patterns)}


def test_mypy_reads_all_that_is_imported() -> None:
    found = {
        str(path.relative_to(ROOT)): names
        for path in [*modules(), *modules_of_tests()]
        if (names := unread_imports(path.read_text()))
    }
    assert found == UNCHECKED


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("import langsmith", {"langsmith"}),
        (
            "def late():\n    from openai.types.beta.thread import Thread",
            {"openai.types.beta.thread"},
        ),
        ("from openai.types import Batch\nimport langsmiths\n# import langsmith", set[str]()),
    ],
)
def test_an_import_of_what_is_not_read_is_seen(source: str, expected: set[str]) -> None:
    assert unread_imports(source) == expected
