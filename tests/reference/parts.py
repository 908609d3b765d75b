"""The kinds of parts, and the pages that have some."""

import inspect
import re
from collections.abc import Callable, Iterable
from importlib import import_module
from pathlib import Path
from typing import Any

from tests.architecture.tree import tracked
from tests.reference import docstrings, signatures

_PART = re.compile(r"(<!-- made of (\w+) ([^>]+?) -->\n).*?(<!-- end -->)", re.DOTALL)


def pages() -> list[Path]:
    """Return the documents that have parts."""
    found = [path for path in tracked() if path.suffix == ".md"]
    return [page for page in found if _PART.search(page.read_text())]


def rewritten(text: str) -> str:
    """Return a page's text with its parts made anew."""
    return _PART.sub(lambda part: f"{part[1]}\n{_made(part[2], part[3])}\n\n{part[4]}", text)


def _made(kind: str, names: str) -> str:
    return _KINDS[kind](*names.split())


def _table(head: str, rows: Iterable[tuple[str, ...]]) -> str:
    columns = head.count("|") - 1
    lines = [f"| {' | '.join(row)} |" for row in rows]
    return "\n".join([head, f"|{'---|' * columns}", *lines])


def _options_table(rows: Iterable[tuple[str, str, str]]) -> str:
    made = (
        (f"`{name}`", f"`{default}`" if default else "required", told)
        for name, default, told in rows
    )
    return _table("| option | default | meaning |", made)


def _options(path: str, *left_out: str) -> str:
    """Return the options of a function, but those in `left_out`."""
    module, _, name = path.partition(":")
    return _options_table(row for row in signatures.options(module, name) if row[0] not in left_out)


def _named(path: str) -> Any:  # noqa: ANN401  # any public object
    module, _, name = path.partition(":")
    return getattr(import_module(module), name)


def _fields(path: str) -> str:
    """Return the fields of a class."""
    return _options_table(docstrings.fields(_named(path)))


def _members(path: str, *names: str) -> str:
    """Return the named methods, properties and fields of a class."""
    declared = _named(path)
    told = {name: text for name, _, text in docstrings.fields(declared)}
    rows = ((_call(declared, name), told.get(name) or _summary(declared, name)) for name in names)
    return _table("| `ctx.` | |", rows)


def _summary(declared: type, name: str) -> str:
    return docstrings.summary(inspect.getattr_static(declared, name))


def _call(declared: type, name: str) -> str:
    found = inspect.getattr_static(declared, name, None)
    if not inspect.isfunction(found):
        return f"`{name}`"
    _, *given = inspect.signature(found).parameters.values()
    waits = "await " if inspect.iscoroutinefunction(found) else ""
    return f"`{waits}{name}({_arguments(given)})`"


def _arguments(given: Iterable[inspect.Parameter]) -> str:
    return ", ".join(map(_argument, given))


_MARKS: dict[object, str] = {
    inspect.Parameter.VAR_POSITIONAL: "*",
    inspect.Parameter.VAR_KEYWORD: "**",
}


def _argument(parameter: inspect.Parameter) -> str:
    mark = _MARKS.get(parameter.kind, "")
    return f"{mark}{parameter.name}{'' if parameter.default is parameter.empty else '=…'}"


def _classes(module: str, *names: str) -> str:
    """Return the named classes, with their fields, and what they are."""
    found = [_named(f"{module}:{name}") for name in names]
    rows = ((_constructor(each), docstrings.summary(each)) for each in found)
    return _table("| | |", rows)


def _constructor(declared: type) -> str:
    return f"`{declared.__name__}({_arguments(inspect.signature(declared).parameters.values())})`"


_KINDS: dict[str, Callable[..., str]] = {
    "options": _options,
    "fields": _fields,
    "members": _members,
    "classes": _classes,
}
