"""Tests that pages name: whether they exist, and the text that they look at."""

import ast
from collections.abc import Iterator
from functools import cache

from tests.architecture.tree import ROOT


def exists(test: str) -> bool:
    """Tell whether there is such a test, named by its path in ``tests`` and its name."""
    path, _, name = test.partition("::")
    return name in _parsed(path)[1]


def looked_at(test: str) -> str:
    """Return the text of a test, and of all of its module that it uses."""
    path, _, name = test.partition("::")
    text, known = _parsed(path)
    used, left = set[str](), [name]
    while left:
        if (one := left.pop()) in used or one not in known:
            continue
        used.add(one)
        left += [node.id for node in ast.walk(known[one]) if isinstance(node, ast.Name)]
    return "\n".join(_source(text, known[one]) for one in used)


@cache
def _parsed(path: str) -> tuple[str, dict[str, ast.stmt]]:
    """Return a test module's text, and what it defines, by name."""
    file = ROOT / "tests" / path
    text = file.read_text() if file.is_file() else ""
    return text, dict(_definitions(ast.parse(text)))


def _definitions(within: ast.Module | ast.ClassDef) -> Iterator[tuple[str, ast.stmt]]:
    for statement in within.body:
        match statement:
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                yield statement.name, statement
            case ast.ClassDef():
                yield statement.name, statement
                yield from _definitions(statement)
            case ast.Assign(targets=targets):
                yield from ((t.id, statement) for t in targets if isinstance(t, ast.Name))
            case ast.AnnAssign(target=ast.Name(id=name)):
                yield name, statement


def _source(text: str, statement: ast.stmt) -> str:
    decorators = getattr(statement, "decorator_list", [])
    outputs = [ast.get_source_segment(text, node) or "" for node in [*decorators, statement]]
    return "\n".join(outputs)
