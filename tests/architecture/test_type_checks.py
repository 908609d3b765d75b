"""No module imports what mypy leaves unread: all that comes from there would pass every check."""

import ast
import re
import tomllib
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from functools import cache

import pytest

from tests.architecture.tree import ROOT, modules, modules_of_tests

ENGINE = "sqlalchemy.ext.asyncio.create_async_engine"
UNCHECKED = {"tests/benchmarks/official_server.py": {ENGINE}}


@cache
def unread() -> Sequence[str]:
    """Return the patterns of the modules that mypy does not follow."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    sections = settings["tool"]["mypy"]["overrides"]
    skipped = [one["module"] for one in sections if one.get("follow_imports") == "skip"]
    return [pattern for patterns in skipped for pattern in patterns]


@cache
def suspicious() -> re.Pattern[str]:
    """Return what a line has that may import one of them: parsing every module takes seconds."""
    roots = "|".join({pattern.partition(".")[0] for pattern in unread()})
    return re.compile(rf"^\s*(?:from|import)\b.*\b(?:{roots})\b", re.MULTILINE)


def unread_imports(source: str) -> set[str]:
    """Return what `source` imports, modules and names of modules, that mypy does not read."""
    if not suspicious().search(source):
        return set()
    return {one for one in imports(source) if any(fnmatchcase(f"{one}.", two) for two in unread())}


def imports(source: str) -> Iterator[str]:
    """Yield the absolute name of each import: a name in a module may be a module itself."""
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Import(names=names):
                yield from (one.name for one in names)
            case ast.ImportFrom(module=str(module), names=names, level=0):
                yield from (f"{module}.{one.name}" for one in names)
            case _:
                pass


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
            {"openai.types.beta.thread.Thread"},
        ),
        ("from openai.types import beta", {"openai.types.beta"}),
        ("import os, langsmith", {"langsmith"}),
        ("from openai.types import Batch\nimport langsmiths\n# import langsmith", set[str]()),
    ],
)
def test_an_import_of_what_is_not_read_is_seen(source: str, expected: set[str]) -> None:
    assert unread_imports(source) == expected
