"""``headrace tasks delete``: erase one task everywhere."""

import click

from headrace.jetstream.connection import Bus
from headrace.log.find import locate
from headrace.tasks.forget import clear_away, mark_deleted
from headrace.wait_for import ELECTION, patiently
from headrace.webhooks import Webhooks
from headrace_cli.on_bus import on_bus, with_nats

_PATIENCE = 3 * ELECTION
"""Seconds: elections of more than one stream's leader, and an agent that cleans up."""


@click.command()
@with_nats
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.argument("task")
def delete(nats_url: str | None, yes: bool, task: str) -> None:  # noqa: FBT001 - as click hands it over
    """Erase TASK everywhere: log, files, webhooks, dead letters, and task state's view.

    A task that has not ended is canceled first. Child tasks are tasks of their own and stay: delete
    them, too. Repeat the command if it was interrupted: it finishes what is left.
    """
    if not yes:
        click.confirm(f"Erase task {task}? It can't be restored", abort=True)

    async def work(bus: Bus) -> None:
        async def erase() -> None:
            key = await locate(bus, task)
            await mark_deleted(bus, key)
            await Webhooks(bus).delete_all(key)
            await clear_away(bus, key)

        # Done again it finishes what is left, so a leader's election is waited out anywhere in it.
        await patiently("NATS", erase, _PATIENCE)

    on_bus(nats_url, work)
    click.echo(f"task {task} deleted")
