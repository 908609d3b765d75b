"""Extract code from Hector's documents, or from the fixtures in their form."""

import ast
import re
import shlex
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache

from tests.support.given_documents import needs, path_of

DOCUMENTS = ("hector-a2a", "hector-agui-metadata", "hector-agui")

needed = needs(*(f"{name}.txt" for name in DOCUMENTS))
"""Marks a test that compares with the documents themselves."""

_HEADING = re.compile(r"[A-Zg0-9#][^{}=;|,]{1,60}")
_NO_HEADINGS = {"Request:", "Response:", "A2A Format:", "AG-UI Format:", "Example:"}
_NO_HEADING = re.compile(r".*!|(Protocol|Features|Purpose): .*|(\S+ ){4,}\S+:")
"""Sentences, and lines of lists, that stand alone."""
_NAMED = re.compile(r"(?:export )?(function|class|interface) (\w+)")
_LISTENS = re.compile(r"eventSource\.addEventListener\('(\w+)'")
_PATH = re.compile(r"localhost:\d+(/[^\s'\"?]*(?:\?[^\s'\"]*)?)?")


@dataclass(frozen=True, slots=True)
class Unit:
    """A piece of code: a function, a listener, a command, a program."""

    document: str
    section: str
    name: str
    """What it is called in the table; unlike that of any other of its document."""
    code: str


@cache
def units() -> list[Unit]:
    """Return all units, in order."""
    return [unit for name in DOCUMENTS for unit in _units_of(name)]


def of(document: str, prefix: str) -> list[Unit]:
    """Return a document's units whose names begin with `prefix`; there is one at least."""
    found = [one for one in units() if one.document == document and one.name.startswith(prefix)]
    assert found, f"{document} has no {prefix}"
    return found


def _units_of(document: str) -> Iterator[Unit]:
    lines = path_of(f"{document}.txt").read_text(encoding="utf-8").splitlines()
    section, seen, at = "", Counter[str](), 0
    while at < len(lines):
        if _is_heading(lines, at):
            section = lines[at].rstrip(":")
        found = _unit_at(lines, at)
        if found is None:
            at += 1
            continue
        name, length = found
        seen[name] += 1
        number = f" ({seen[name]})" if seen[name] > 1 else ""
        yield Unit(document, section, name + number, "\n".join(lines[at : at + length]))
        at += length


def _is_heading(lines: list[str], at: int) -> bool:
    alone = at > 0 and not lines[at - 1].strip() and not "".join(lines[at + 1 : at + 2]).strip()
    line = lines[at]
    if not alone or line in _NO_HEADINGS or _NO_HEADING.fullmatch(line):
        return False
    return _HEADING.fullmatch(line) is not None


def _unit_at(lines: list[str], at: int) -> tuple[str, int] | None:
    """Return name and length of the unit that begins there."""
    line = lines[at]
    if (named := _NAMED.match(line)) is not None:
        return f"{named[1]} {named[2]}", _until(lines, at, "}")
    if (listens := _LISTENS.match(line)) is not None:
        return f"addEventListener {listens[1]}", _until(lines, at, "});")
    for begin, name, end in _STATEMENTS:
        if line.startswith(begin):
            return name, _until(lines, at, end) if end else 1
    if line.startswith(("curl ", "grpcurl ")):
        length = _longest(lines, at, _is_command)
        return _named_command("\n".join(lines[at : at + length])), length
    if line == "import requests":
        return "import requests", _program(lines, at)
    return None


_STATEMENTS = (
    ("const eventSource = new EventSource(", "new EventSource", ");"),
    ("const messageState = ", "const messageState", ""),
    ("const ws = ", "new WebSocket", ""),
    ("ws.onmessage = ", "ws.onmessage", "};"),
    ("import React", "import React", ""),
)


def _until(lines: list[str], at: int, end: str) -> int:
    return lines.index(end, at) + 1 - at


def _longest(lines: list[str], at: int, is_whole: Callable[[str], bool]) -> int:
    length = 1
    while not is_whole("\n".join(lines[at : at + length])):
        length += 1
    return length


def _is_command(text: str) -> bool:
    try:
        shlex.split(text)
    except ValueError:
        return False
    return not text.endswith("\\")


def _named_command(command: str) -> str:
    found = _PATH.search(command)
    assert found is not None, command
    accepts = " as AG-UI" if "x-agui-events" in command else ""
    program = command.split(maxsplit=1)[0]
    called = command.rsplit(maxsplit=1)[-1] if program == "grpcurl" else found[1]
    return f"{program} {called}{accepts}"


def _program(lines: list[str], at: int) -> int:
    """Return how many lines are Python: all that parses, without a heading behind it."""
    lengths = range(1, len(lines) - at)
    whole = max(size for size in lengths if _parses("\n".join(lines[at : at + size])))
    body = ast.parse("\n".join(lines[at : at + whole])).body
    while isinstance(last := body[-1], ast.Expr) and isinstance(last.value, ast.Name):
        body.pop()
    return body[-1].end_lineno or whole


def _parses(text: str) -> bool:
    try:
        ast.parse(text)
    except SyntaxError:
        return False
    return True
