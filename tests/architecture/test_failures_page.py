"""Every failure on the page is shown by a test that exists, and what it quotes is in the source."""

import ast
import re
from functools import cache

import pytest

from tests.architecture.tree import ROOT, modules, parsed

PAGE = ROOT / "docs" / "design" / "failures.md"
_NAMED = re.compile(r"`([\w/]+\.py)::(test_\w+)`")
_SHOWN = re.compile(rf"{_NAMED.pattern}(?:, {_NAMED.pattern})*")
_ROW = re.compile(r"^\| (?!failure |command |---)", re.MULTILINE)


def rows(text: str) -> list[list[str]]:
    """Return the cells of each failure in `text`."""
    lines = [line for line in text.splitlines() if _ROW.match(line)]
    cells = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]
    return [row for row in cells if len(row) > 2]


def missing(text: str) -> list[str]:
    """Return what is named in `text` and is no test."""
    return [
        f"{path}::{name}"
        for path, name in _NAMED.findall(text)
        if f"def {name}(" not in _source(path)
    ]


def _source(path: str) -> str:
    file = ROOT / "tests" / path
    return file.read_text() if file.is_file() else ""


def unquotable(text: str) -> list[str]:
    """Return the log lines and reasons quoted in `text` that are in no module."""
    quotes = [
        quote
        for row in rows(text)
        for quote in re.findall(r"`([^`]+)`", f"{row[1]} {row[2]}")
        if " " in quote and not quote.startswith(("headrace ", "GET "))
    ]
    sources = [path.read_text(encoding="utf-8") for path in modules()]
    return [quote for quote in quotes if not _is_said(quote, sources)]


def _is_said(quote: str, sources: list[str]) -> bool:
    # Only modules with a piece of the quote are parsed: a text may be split over lines.
    piece = max(quote.split("…"), key=len).strip()[:12]
    return any(quote in text for source in sources if piece in source for text in _texts(source))


@cache
def _texts(source: str) -> tuple[str, ...]:
    """Return each text of a module, with … for what is inserted into it."""
    return tuple(_text(node) for node in ast.walk(parsed(source)))


def _text(node: ast.AST) -> str:
    match node:
        case ast.JoinedStr(values=values):
            return "".join(_text(v) if isinstance(v, ast.Constant) else "…" for v in values)
        case ast.Constant(value=str() as text):
            return re.sub(r"%(?:\.\d)?[dfgrs]", "…", text)
    return ""


def test_every_quoted_line_is_in_the_source() -> None:
    assert unquotable(PAGE.read_text()) == []


@pytest.mark.parametrize("line", ["waiting for nobody: …", "task …: attempt … went well"])
def test_a_quoted_line_that_nothing_states_is_seen(line: str) -> None:
    row = f"| a failure | nothing | `{line}`, `task …: attempt … failed, next in … s: …` | test |"
    assert unquotable(row) == [line]


def test_every_failure_has_a_test_that_exists() -> None:
    text = PAGE.read_text()
    assert missing(text) == []
    assert len(rows(text)) > 40
    assert [row for row in rows(text) if len(row) != 4 or not _SHOWN.fullmatch(row[3])] == []


@pytest.mark.parametrize(
    "named", ["`e2e/test_chaos.py::test_nothing`", "`e2e/test_none.py::test_a_seed`"]
)
def test_a_test_that_does_not_exist_is_seen(named: str) -> None:
    assert missing(f"| a failure | nothing | nothing | {named} |")
