"""No test passes because there was nothing to look at.

A test that asserts only in a loop or a branch passes where the loop had no turns. So each asserts
something that it always comes to: a length or a content before the loop, say. Loops over what is
written out have turns, and helpers that always assert count wherever they are called.
"""

import ast
from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import cache

import pytest

from tests.architecture.tree import ROOT, modules_of_tests, parsed

type _Function = ast.FunctionDef | ast.AsyncFunctionDef

_RAISES = frozenset({"fail", "raises", "warns"})
"""What of pytest asserts."""
_AS_LONG = frozenset({"enumerate", "items", "keys", "list", "reversed", "sorted", "values", "zip"})
"""Calls that have turns where what they are given has."""


def _functions(tree: ast.AST) -> Iterator[_Function]:
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node
        if isinstance(node, ast.stmt | ast.excepthandler | ast.match_case):  # no expression
            yield from _functions(node)


def _called(call: ast.Call) -> str:
    return getattr(call.func, "attr", "") or getattr(call.func, "id", "")


def _names(call: ast.Call) -> list[str]:
    """Return what is called, and what `map` is to call."""
    name = _called(call)
    mapped = call.args[:1] if name == "map" else []
    return [name, *(one.id for one in mapped if isinstance(one, ast.Name))]


@pytest.fixture(scope="module", autouse=True)
def _parts_are_let_go() -> Iterator[None]:
    yield
    _called_in.cache_clear()


@cache  # each of many rounds asks for all of them
def _called_in(part: ast.AST) -> frozenset[str]:
    calls = (node for node in ast.walk(part) if isinstance(node, ast.Call))
    return frozenset(name for call in calls for name in _names(call))


def _gives_up(function: _Function) -> bool:
    """Tell whether it waits for something and fails where that doesn't come."""
    return any(
        isinstance(node, ast.Raise) and node.exc and "AssertionError" in ast.unparse(node.exc)
        for node in ast.walk(function)
    )


def _has_turns(looped: ast.expr) -> bool:
    match looped:
        case ast.Tuple(elts=items) | ast.List(elts=items) | ast.Set(elts=items):
            return any(not isinstance(item, ast.Starred) for item in items)
        case ast.Dict(keys=keys):
            return bool(keys)
        case ast.Call(func=ast.Name("range"), args=numbers):
            return all(isinstance(number, ast.Constant) for number in numbers)
        case ast.Call(func=ast.Attribute(value=owner), args=[]) if _called(looped) in _AS_LONG:
            return _has_turns(owner)
        case ast.Call(args=given) if _called(looped) in _AS_LONG:
            return bool(given) and all(map(_has_turns, given))
    return False


def _always(body: Iterable[ast.stmt], asserting: Collection[str]) -> bool:
    """Tell whether whoever runs `body` to its end asserts something."""

    def asserts(statement: ast.stmt) -> bool:
        evaluated: list[ast.AST] = [statement]
        inner = isinstance(statement, ast.Assert)
        match statement:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                evaluated = []
            case ast.With(items=items, body=held) | ast.AsyncWith(items=items, body=held):
                evaluated, inner = [*items], _always(held, asserting)
            case ast.For(iter=looped, body=turn) | ast.AsyncFor(iter=looped, body=turn):
                evaluated, inner = [looped], _has_turns(looped) and _always(turn, asserting)
            case ast.While(test=test):
                evaluated = [test]
            case ast.If(test=test, body=one, orelse=other):
                evaluated = [test]
                inner = _always(one, asserting) and _always(other, asserting)
            case ast.Try(body=tried, finalbody=last):
                evaluated, inner = [], _always([*tried, *last], asserting)
        return inner or any(not _called_in(one).isdisjoint(asserting) for one in evaluated)

    return any(map(asserts, body))


def may_pass_unasserted(trees: Mapping[str, ast.AST]) -> list[str]:
    """Return the tests that assert, but may come to their end without."""
    functions = [(path, one) for path, tree in trees.items() for one in _functions(tree)]
    tests = [(path, one) for path, one in functions if one.name.startswith("test_")]
    helpers = [one for _, one in functions if not one.name.startswith("test_")]
    asserting = _RAISES.union(one.name for one in helpers if _gives_up(one))
    while found := {
        one.name for one in helpers if one.name not in asserting and _always(one.body, asserting)
    }:
        asserting |= found
    return [
        f"{path}:{test.lineno} {test.name}"
        for path, test in tests
        if any(isinstance(node, ast.Assert) for node in ast.walk(test))
        and not _always(test.body, asserting)
    ]


def test_each_test_asserts_what_it_always_comes_to() -> None:
    trees = {str(path.relative_to(ROOT)): parsed(path.read_text()) for path in modules_of_tests()}
    assert len(trees) > 300
    assert may_pass_unasserted(trees) == []


@pytest.mark.parametrize(
    "body",
    [
        "for one in found(): assert one",
        "if found(): assert True",
        "if found(): assert True\n    else: pass",
        "for one in [*found()]: assert one",
        "for one in range(found()): assert one",
        "while found(): assert True",
        "with found():\n        for one in found(): checks(one)\n        if found(): assert one",
        "def inner(): assert True",
        "for one in found(): assert one\n    sometimes()",
    ],
)
def test_a_test_that_may_assert_nothing_is_found(body: str) -> None:
    assert _found(body) == ["test_it"]


@pytest.mark.parametrize(
    "body",
    [
        "assert found()\n    for one in found(): assert one",
        "for one in (1, 2): assert one",
        "for one in zip([1], [2], strict=True): assert one",
        "for one in range(8): assert one",
        "if found(): assert True\n    else: assert True",
        "for one in found(): assert one\n    checks(one)",
        "for one in found(): assert one\n    waits(one)",
        "def inner(one): assert one\n    list(map(inner, found()))",
        "with pytest.raises(ValueError): found()\n    if found(): assert True",
        "found()",
    ],
)
def test_a_test_that_asserts_at_all_events_is_not(body: str) -> None:
    assert _found(body) == []


def _found(body: str) -> list[str]:
    source = f"""
def sometimes():
    for one in found(): assert one
def always(one): assert one
def checks(one): always(one)
def waits(one):
    while not one:
        if one: raise AssertionError
def test_it():
    {body}
"""
    return [found.split()[1] for found in may_pass_unasserted({"test_it.py": parsed(source)})]
