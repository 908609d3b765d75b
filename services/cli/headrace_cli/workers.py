"""``headrace workers``: list workers, and have them end after their active runs."""

import asyncio
from http import HTTPStatus
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
"""Seconds between two questions to a worker that drains."""

_HEADS = ("WORKER", "AGENTS", "LAST HEARTBEAT")


@click.group(invoke_without_command=True)
@with_gateway
@with_json
@click.pass_context
def workers(ctx: click.Context, gateway: Gateway, printer: Printer) -> None:
    """List live workers and the agents that they serve; for operators."""
    if ctx.invoked_subcommand is not None:
        return
    found = gateway.ask(lambda client: client.fleet()).get("workers")
    if found is None:
        raise RequestFailed("only operators can list workers")
    printer.table(_HEADS, [(one, _row(one)) for one in found])


def _row(worker: "Json") -> tuple[str, ...]:
    return worker["id"], " ".join(worker["agents"]), f"{worker['heartbeatSeconds']:.1f} s ago"


@workers.command()
@click.argument("names", metavar="WORKER...", nargs=-1, required=True)
@click.option("--wait", "waits", is_flag=True, help="Wait until their active runs have ended.")
@with_gateway
@with_json
def drain(*, names: tuple[str, ...], waits: bool, gateway: Gateway, printer: Printer) -> None:
    """Have each WORKER start no more runs, and end after its active ones; for operators."""

    async def work(client: "Client") -> None:
        draining = [await client.drain(name) for name in dict.fromkeys(names)]
        for one in draining:
            printer.record(one, f"{one['worker']} drains; {one['runs']} runs are active")
        if waits:
            await _until_ended(client, draining, printer)

    gateway.ask(work)


async def _until_ended(client: "Client", draining: "list[Json]", printer: Printer) -> None:
    active = {one["worker"]: one for one in draining}
    total = sum(one["runs"] for one in draining)
    with progress("Draining", total, is_shown=not printer.as_json) as done:
        while active:
            for name, one in list(active.items()):
                if (left := await _drained_again(client, one)) is not None:
                    active[name] = left
                    continue
                del active[name]
                printer.record({"worker": name, "ended": True}, f"{name} has ended")
            done(total - sum(one["runs"] for one in active.values()))
            await asyncio.sleep(_PAUSE if active else 0)


async def _drained_again(client: "Client", draining: "Json") -> "Json | None":
    """Return the worker's answer; None: it has ended."""
    from headrace.client import RequestRefused  # noqa: PLC0415 - an extra

    try:
        return await client.drain(draining["worker"], draining["agent"])
    except RequestRefused as refused:
        if refused.status != HTTPStatus.NOT_FOUND:
            raise
        return None
