"""``headrace rotate-key``: replace the fleet's signing key."""

import click

from headrace.jetstream.connection import Bus
from headrace.signing import LEAD, rotate
from headrace_cli.on_bus import on_bus, with_nats


@click.command(name="rotate-key")
@with_nats
@click.option(
    "--at-once",
    is_flag=True,
    help="Use the new key now and remove all others, for example after a leak.",
)
def rotate_key(nats_url: str | None, at_once: bool) -> None:  # noqa: FBT001 - as click hands it over
    """Add a new key for signing agent cards and notifications.

    It is published at once, and used once all cached key sets contain it. It has no effect on
    fleets with HEADRACE_SIGNING_KEYS.
    """

    async def work(bus: Bus) -> str:
        return await rotate(bus, at_once=at_once)

    kid = on_bus(nats_url, work)
    when = "now" if at_once else f"in {LEAD} s"
    click.echo(f"key {kid} is used {when}")
