"""Tables of text, as every listing command shows them."""

from collections.abc import Sequence

import click


def table(heads: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> None:
    """Show `rows` under `heads`, each column as wide as its widest cell."""
    widths = [max(map(len, column)) for column in zip(heads, *rows, strict=True)]
    for row in (heads, *rows):
        cells = (f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True))
        click.echo(printable("  ".join(cells).rstrip()))


def printable(text: str) -> str:
    """Return `text`, whoever wrote it, without what a terminal would obey instead of showing."""
    return "".join(char if char.isprintable() or char in "\n\t" else "\ufffd" for char in text)
