"""``headrace view``: how far task state has applied the log, as while it rebuilds its view."""

import asyncio
from typing import TYPE_CHECKING

import click

from headrace_cli.failures import RequestFailed
from headrace_cli.gateway import Gateway, with_gateway
from headrace_cli.printer import Printer, with_json
from headrace_cli.progress import progress

if TYPE_CHECKING:
    from headrace.client import Client
    from headrace.model.events import Json

_PAUSE = 1.0
"""Seconds between two looks."""

_HEADS = ("STREAM", "APPLIED", "OF", "LAG")


@click.command()
@click.option("--wait", "waits", is_flag=True, help="Wait until what is stored now is applied.")
@with_gateway
@with_json
def view(*, waits: bool, gateway: Gateway, printer: Printer) -> None:
    """Show how far lists are behind each event stream; for operators.

    The numbers are stream sequences. They lag while no task state service runs, and while the
    view is rebuilt after Redis has lost its data.
    """

    async def work(client: "Client") -> "list[Json]":
        found = await _ranges(client)
        if waits:
            ends = {one["stream"]: one["head"] for one in found}
            with progress("Applying", sum(ends.values()), is_shown=not printer.as_json) as done:
                while (applied := _applied(found, ends)) < sum(ends.values()):
                    done(applied)
                    await asyncio.sleep(_PAUSE)
                    found = await _ranges(client)
        return found

    found = gateway.ask(work)
    printer.table(_HEADS, [(one, _row(one)) for one in found])


async def _ranges(client: "Client") -> "list[Json]":
    ranges: list[Json] | None = (await client.fleet()).get("ranges")
    if ranges is None:
        raise RequestFailed("only operators can see the progress of task state")
    return ranges


def _applied(ranges: "list[Json]", ends: dict[str, int]) -> int:
    """Return how many of the messages up to `ends`, by stream, are applied."""
    return sum(min(one["position"] or 0, ends.get(one["stream"], 0)) for one in ranges)


def _row(one: "Json") -> tuple[str, ...]:
    position, lag = one["position"], one["lag"]
    unknown = "unknown"
    return (
        one["stream"],
        unknown if position is None else str(position),
        str(one["head"]),
        unknown if lag is None else str(lag),
    )
