"""The errors that docstrings name exist."""

import ast
import builtins
import re
from collections.abc import Iterator

from tests.architecture.tree import ROOT, modules, parsed

_SECTION = re.compile(r"^\s*Raises:\n(.*?)(?=^\s*\w+:$|\Z)", re.MULTILINE | re.DOTALL)
_NAMES = re.compile(r"^(\s*)([A-Z]\w*(?:, [A-Z]\w*)*):", re.MULTILINE)


def names_in(docstring: str) -> Iterator[str]:
    """Yield the names of errors in the sections "Raises" of a docstring."""
    for section in _SECTION.findall(docstring):
        stated = _NAMES.findall(section)
        # A line that continues a description is indented further.
        least = min((len(indent) for indent, _ in stated), default=0)
        for indent, names in stated:
            if len(indent) == least:
                yield from names.split(", ")


def bound_in(tree: ast.Module) -> Iterator[str]:
    """Yield the names of classes and imports of a module."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            yield node.name
        if isinstance(node, ast.ImportFrom):
            yield from (alias.asname or alias.name for alias in node.names)


def test_names_are_those_of_the_section() -> None:
    docstring = (
        "Do it.\n\n    Raises:\n        Lost, Late: it is\n            Gone: not a name.\n"
        "        ValueError: x\n\n    Returns:\n        Nothing: y\n"
    )
    assert list(names_in(docstring)) == ["Lost", "Late", "ValueError"]


def test_every_error_that_a_docstring_names_exists() -> None:
    trees = {path: parsed(path.read_text()) for path in modules()}
    known = {*vars(builtins)}.union(*(bound_in(tree) for tree in trees.values()))
    missing = {
        f"{path.relative_to(ROOT)}: {name}"
        for path, tree in trees.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and "Raises:" in node.value
        for name in names_in(node.value)
        if name not in known
    }
    assert missing == set()
