"""Text tables of the listing commands."""

from collections.abc import Sequence

import click


def table(heads: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> None:
    """Show `rows` under `heads`, one per line, each column as wide as its widest cell."""
    rows = [tuple(map(one_line, row)) for row in rows]
    widths = [max(map(len, column)) for column in zip(heads, *rows, strict=True)]
    for row in (heads, *rows):
        cells = (f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True))
        click.echo("  ".join(cells).rstrip())


def printable(text: str) -> str:
    """Return `text`, which is untrusted, without terminal control characters."""
    return "".join(char if char.isprintable() or char in "\n\t" else "\ufffd" for char in text)


def one_line(text: str) -> str:
    """Return `text` as `printable` does, on one line."""
    return printable(text).replace("\n", " ").replace("\t", " ")
