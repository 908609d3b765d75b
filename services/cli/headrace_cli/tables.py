"""Text tables of the listing commands."""

import sys
from collections.abc import Sequence
from io import TextIOWrapper
from typing import TextIO
from unicodedata import category

import click

_KEPT = frozenset("\n\t\u00ad\u200c\u200d\u200e\u200f")
"""Shown although not `str.isprintable`: line breaks, soft hyphens, joiners, marks of direction."""


def table(heads: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> None:
    """Show `rows` under `heads`, one per line, each column as wide as its widest cell."""
    replace_unencodable(sys.stdout)
    rows = [tuple(map(one_line, row)) for row in rows]
    widths = [max(map(len, column)) for column in zip(heads, *rows, strict=True)]
    for row in (heads, *rows):
        cells = (f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True))
        click.echo("  ".join(cells).rstrip())


def printable(text: str) -> str:
    """Return `text`, which is untrusted, without terminal control characters."""
    if text.isprintable():
        return text
    return "".join(char if _is_shown(char) else "\ufffd" for char in text)


def _is_shown(char: str) -> bool:
    return char.isprintable() or char in _KEPT or category(char) == "Zs"


def one_line(text: str) -> str:
    """Return `text` as `printable` does, on one line."""
    return printable(text).replace("\n", " ").replace("\t", " ")


def replace_unencodable(stream: TextIO) -> None:
    """Let characters that the encoding of `stream` lacks be replaced, and not end the command."""
    if isinstance(stream, TextIOWrapper) and stream.errors != "replace":
        stream.reconfigure(errors="replace")
