"""Options of functions, read from their source: importing a framework takes seconds."""

import ast
from collections.abc import Iterator
from functools import cache

from tests.architecture.tree import ROOT
from tests.reference import docstrings


@cache
def _parsed(module: str) -> ast.Module:
    return ast.parse((ROOT / "shared" / f"{module.replace('.', '/')}.py").read_text())


def options(module: str, name: str) -> Iterator[tuple[str, str, str]]:
    """Yield name, default and docstring of each option of a function or a class."""
    function = _declared(_parsed(module).body, name)
    told = docstrings.arguments(ast.get_docstring(function) or "")
    for argument, default in _with_defaults(function.args):
        if argument.arg != "self":
            choice = _choice(module, argument.annotation)
            yield argument.arg, _shown(argument, default), f"{told[argument.arg]}{choice}"


def _declared(body: list[ast.stmt], name: str) -> ast.FunctionDef:
    """Return the function called so; its overloads, which come before it, are not it."""
    named = (ast.FunctionDef, ast.ClassDef)
    *_, found = (node for node in body if isinstance(node, named) and node.name == name)
    return found if isinstance(found, ast.FunctionDef) else _declared(found.body, "__init__")


def _with_defaults(given: ast.arguments) -> Iterator[tuple[ast.arg, ast.expr | None]]:
    before = [*given.posonlyargs, *given.args]
    required = [None] * (len(before) - len(given.defaults))
    yield from zip(before, [*required, *given.defaults], strict=True)
    yield from zip(given.kwonlyargs, given.kw_defaults, strict=True)


def _shown(argument: ast.arg, default: ast.expr | None) -> str:
    """Return a default in Python; a constant of the module is an object without options."""
    if isinstance(default, ast.Name) and argument.annotation is not None:
        return f"{ast.unparse(argument.annotation)}()"
    return ast.unparse(default).replace("'", '"') if default else ""


def _choice(module: str, annotation: ast.expr | None) -> str:
    """Return which texts an option may be, if its type names them."""
    match annotation:
        case ast.Name(name):
            return _choice(*_alias(module, name))
        case ast.Subscript(ast.Name("Literal"), ast.Tuple(texts)):
            return f" One of {', '.join(f'`"{ast.literal_eval(text)}"`' for text in texts)}."
    return ""


def _alias(module: str, name: str) -> tuple[str, ast.expr | None]:
    """Return where a type is declared, and what it stands for; None: no alias of the project."""
    for node in _parsed(module).body:
        match node:
            case ast.TypeAlias(ast.Name(found), _, value) if found == name:
                return module, value
            case ast.ImportFrom(origin, names) if origin and origin.startswith("headrace."):
                if any(name in (each.name, each.asname) for each in names):
                    return _alias(origin, name)
    return module, None
