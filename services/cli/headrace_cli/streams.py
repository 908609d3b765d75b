"""``headrace streams``: compare JetStream's streams with the contract and the settings."""

import sys
from dataclasses import asdict

import click

from headrace.jetstream.api import until_answered
from headrace.jetstream.connection import Bus
from headrace.jetstream.durables import contract_differences, repair
from headrace.jetstream.errors import translated
from headrace.jetstream.mirrors import Mirror, answering_origins, create_mirrors
from headrace.jetstream.streams import Difference, allowed_changes, apply
from headrace.model.errors import StreamsDiffer
from headrace.tasks.forget import clear_mirrored
from headrace_cli.on_bus import on_bus, with_nats
from headrace_cli.printer import Printer, with_json

CHANGES_WANTED = 3
"""Exit code of a plan with changes."""

_ORIGIN_ANSWERS = (
    "the origin of {} still answers, and two regions must not both serve; nothing was changed: "
    "stop the origin, or add --despite-origin"
)


@click.group()
def streams() -> None:
    """Compare streams and buckets with the settings, and change them.

    Services never change existing streams. These settings apply: HEADRACE_REPLICAS,
    HEADRACE_EVENT_STREAMS, HEADRACE_EVENTS_MAX_BYTES, HEADRACE_FILES_MAX_BYTES, HEADRACE_RUNS_MAX,
    HEADRACE_RETENTION and HEADRACE_WAITING_RETENTION; an unset one changes nothing. Consumers that
    break the bus contract are replaced, too; their messages stay.
    """


@streams.command()
@with_nats
@with_json
def plan(nats_url: str | None, printer: Printer) -> None:
    """Show what `apply` would change. Exit code 0: nothing; 3: something."""
    found = on_bus(nats_url, contract_differences)
    _show(printer, found)
    if found:
        sys.exit(CHANGES_WANTED)


@streams.command(name="apply")
@click.option("--shrink", is_flag=True, help="Also remove replicas and lower limits.")
@click.option("--promote", is_flag=True, help="Also turn mirrors into streams of this region.")
@click.option(
    "--despite-origin", is_flag=True, help="With --promote: even if the mirrors' origin answers."
)
@with_nats
@with_json
def apply_(
    nats_url: str | None, *, shrink: bool, promote: bool, despite_origin: bool, printer: Printer
) -> None:
    """Create and change streams to match the settings; nothing shrinks without --shrink."""

    async def work(bus: Bus) -> list[Difference]:
        async def check() -> None:
            with translated():
                await allowed_changes(bus.js, bus.settings, shrink=shrink, promote=True)
                answering = await answering_origins(bus.js, bus.settings)
            if answering and not despite_origin:
                raise StreamsDiffer(_ORIGIN_ANSWERS.format(", ".join(answering)))

        async def change() -> None:
            with translated():
                await apply(bus.js, bus.settings, shrink=shrink, promote=promote)
            await repair(bus)

        planned = await contract_differences(bus)
        if promote:
            await until_answered(bus, check)
            with translated():
                await clear_mirrored(bus)
        await until_answered(bus, change)
        return planned

    _show(printer, on_bus(nats_url, work))


@streams.command()
@click.argument("domain")
@with_nats
@with_json
def mirror(domain: str, nats_url: str | None, printer: Printer) -> None:
    """Mirror the streams of the JetStream domain DOMAIN, and show how far the mirrors are.

    For a second region: NATS_URL is a server there, joined to the first by leaf nodes. Mirrors
    that exist stay as they are. `apply --promote` makes them the fleet's streams.
    """

    async def work(bus: Bus) -> list[Mirror]:
        async def make() -> list[Mirror]:
            with translated():
                return await create_mirrors(bus.js, bus.settings, domain)

        return await until_answered(bus, make)

    for one in on_bus(nats_url, work):
        printer.record(asdict(one), str(one))


def _show(printer: Printer, found: list[Difference]) -> None:
    for one in found:
        printer.record({**asdict(one), "change": one.change}, f"{one.effect:<10}  {one.change}")
    if not found:
        printer.remark("the streams match the settings")
