"""``headrace backup`` and ``headrace restore``: the fleet's streams in a folder, and back."""

from collections.abc import AsyncIterator, Callable
from pathlib import Path

import click

from headrace.backup import SavedStream, back_up
from headrace.backup import restore as restored
from headrace.jetstream.connection import Bus
from headrace_cli.on_bus import on_bus, with_nats
from headrace_cli.printer import Printer, with_json

_MEGABYTE = 1_000_000

_FOLDER = click.argument("folder", type=click.Path(file_okay=False, path_type=Path))


@click.command()
@_FOLDER
@with_nats
@with_json
def backup(folder: Path, nats_url: str | None, printer: Printer) -> None:
    """Write the fleet's streams into FOLDER while the fleet works.

    FOLDER is new or empty. It gets users' messages and the fleet's signing keys: only its owner can
    read it.
    """
    _each(nats_url, printer, lambda bus: back_up(bus, folder))
    printer.remark(f"the backup is complete: {folder}")


@click.command()
@_FOLDER
@click.option("--replace", is_flag=True, help="Delete the streams that exist first.")
@with_nats
@with_json
def restore(folder: Path, nats_url: str | None, *, replace: bool, printer: Printer) -> None:
    """Create the fleet's streams from the backup in FOLDER, on a NATS without them.

    Stop all services of the fleet first, and start them with an empty Redis afterwards.
    """
    _each(nats_url, printer, lambda bus: restored(bus, folder, replace=replace))
    printer.remark("the fleet is restored: start its services with an empty Redis")


def _each(
    nats_url: str | None, printer: Printer, work: Callable[[Bus], AsyncIterator[SavedStream]]
) -> None:
    """Print a line for each stream as it is done."""

    async def done(bus: Bus) -> None:
        async for one in work(bus):
            record = {"stream": one.name, "messages": one.messages, "bytes": one.bytes}
            size = f"{one.messages} messages, {one.bytes / _MEGABYTE:.1f} MB"
            printer.record(record, f"{one.name}: {size}")

    on_bus(nats_url, done)
