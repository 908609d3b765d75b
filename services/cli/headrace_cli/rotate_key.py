"""``headrace rotate-key``: replace the fleet's signing key."""

import click

from headrace.jetstream.connection import Bus
from headrace.signing import Rotation, rotate
from headrace_cli.on_bus import on_bus, with_nats
from headrace_cli.printer import Printer, with_json


@click.command(name="rotate-key")
@with_nats
@click.option(
    "--at-once",
    is_flag=True,
    help="Use the new key now and remove all others, for example after a leak.",
)
@with_json
def rotate_key(nats_url: str | None, *, at_once: bool, printer: Printer) -> None:
    """Add a new key for signing agent cards and notifications.

    It is published at once, and used once all cached key sets contain it. It has no effect on
    fleets with HEADRACE_SIGNING_KEYS.
    """

    async def work(bus: Bus) -> Rotation:
        return await rotate(bus, at_once=at_once)

    new = on_bus(nats_url, work)
    text = f"key {new.id} is used {f'in {new.used_in} s' if new.used_in else 'now'}"
    if new.replaced:
        text += f", in place of {', '.join(new.replaced)}"
    printer.record(new.shown(), text)
