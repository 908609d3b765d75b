"""What a command prints on stdout: text for people or, with ``--json``, JSON lines for programs."""

import json
from collections.abc import Mapping, Sequence

import click

from headrace_cli.tables import one_line, table

type Row = tuple[Mapping[str, object], tuple[str, ...]]
"""A record and its cells in a table."""


class Printer:
    """Prints records, each as a line of text or as one JSON object on a line."""

    def __init__(self, *, as_json: bool, err: bool = False) -> None:
        """Print JSON if `as_json`; on stderr if `err`, where stdout has something else."""
        self.as_json, self._err = as_json, err

    def record(self, record: Mapping[str, object], text: str, *, label: str = "") -> None:
        """Print a record.

        Args:
            record: What programs get.
            text: The same for people, on one line; it may have others' words.
            label: Text before it, which may be styled.
        """
        click.echo(json.dumps(record) if self.as_json else label + one_line(text), err=self._err)

    def table(self, heads: tuple[str, ...], rows: Sequence[Row]) -> None:
        """Print a table, or its records."""
        if not self.as_json:
            table(heads, [cells for _, cells in rows])
            return
        for record, _ in rows:
            click.echo(json.dumps(record))

    def remark(self, text: str) -> None:
        """Print a line that is only for people."""
        if not self.as_json:
            click.echo(text)


def _printer(_: click.Context, __: click.Parameter, as_json: bool) -> Printer:  # noqa: FBT001 - as click hands it over
    return Printer(as_json=as_json)


with_json = click.option(
    "--json",
    "printer",
    is_flag=True,
    callback=_printer,
    help="Print one JSON object per line.",
)
"""Adds ``--json`` to a command, which gets a `Printer` as its parameter ``printer``."""
