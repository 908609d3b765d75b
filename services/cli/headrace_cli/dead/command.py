"""``headrace dead``: list, retry and drop dead letters."""

from collections.abc import AsyncIterator

import click

from headrace.jetstream.connection import Bus
from headrace.tasks.dead_letters import Letter, LetterFilter, Letters, retry_and_drop
from headrace_cli.dead.selection import Choice, with_choice, with_filters
from headrace_cli.on_bus import on_bus, with_nats
from headrace_cli.printer import Printer, with_json
from headrace_cli.tables import one_line, printable

_COLUMNS = ("ID", "KIND", "TENANT", "AGENT", "TASK", "AT", "REASON")


@click.group()
def dead() -> None:
    """Inspect dead letters: failed runs, unreadable messages, undeliverable notifications.

    Each has an ID. `retry` requests the work again and deletes the letter; `drop` only deletes it.
    Letters are deleted after 30 days.
    """


@dead.command("list")
@with_nats
@with_filters
@click.option(
    "--after",
    type=click.IntRange(0),
    default=0,
    metavar="ID",
    help="Only dead letters after this ID.",
)
@click.option("--limit", type=click.IntRange(1, 10_000), default=50, show_default=True)
@with_json
def list_(
    nats_url: str | None, wanted: LetterFilter, after: int, limit: int, printer: Printer
) -> None:
    """List dead letters, oldest first."""
    # One more than is shown, to find out whether there is another page.
    found = on_bus(nats_url, lambda bus: _first(Letters(bus).find(wanted, after), limit + 1))
    shown = found[:limit]
    printer.table(_COLUMNS, [(letter.summary(), _row(letter)) for letter in shown])
    if len(found) > limit:
        click.echo(f"more: --after {shown[-1].number}", err=True)


async def _first(letters: AsyncIterator[Letter], most: int) -> list[Letter]:
    found: list[Letter] = []
    async for letter in letters:
        found.append(letter)
        if len(found) == most:
            break
    return found


@dead.command()
@with_nats
@click.argument("number", metavar="ID", type=click.IntRange(1))
@with_json
def show(nats_url: str | None, number: int, printer: Printer) -> None:
    """Show one dead letter in full."""
    letter = on_bus(nats_url, lambda bus: Letters(bus).get(number))
    facts = letter.details()
    if printer.as_json:
        printer.record(facts, "")
        return
    del facts["bodyBase64"]
    for name, value in facts.items():
        if value not in (None, "", {}):
            # Only the body may contain line breaks.
            shown = printable if name == "body" else one_line
            click.echo(shown(f"{name + ':':<9} {value}"))


@dead.command("retry")
@with_nats
@with_choice
@with_json
def retry_(nats_url: str | None, choice: Choice, printer: Printer) -> None:
    """Retry dead letters and drop them.

    A run that was given up has ended its task with FAILED, which is final, so its input becomes a
    new task in the same context, which refers to the failed one and has its history. A run is
    retried once, however often this is repeated. Run requests and notifications are sent again
    unchanged.
    """

    async def act(bus: Bus, letter: Letter) -> str:
        return (await retry_and_drop(bus, letter)).outcome

    choice.carry_out(nats_url, printer, "Retry", act)


@dead.command()
@with_nats
@with_choice
@with_json
def drop(nats_url: str | None, choice: Choice, printer: Printer) -> None:
    """Drop dead letters without a retry."""

    async def act(bus: Bus, letter: Letter) -> str:
        await Letters(bus).drop(letter.number)
        return "dropped"

    choice.carry_out(nats_url, printer, "Drop", act, is_loss=True)


def _row(letter: Letter) -> tuple[str, ...]:
    facts = letter.summary().values()
    return tuple("-" if fact in (None, "") else " ".join(str(fact).split()) for fact in facts)
