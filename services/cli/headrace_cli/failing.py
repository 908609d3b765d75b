"""``headrace tasks fail``: end a task that nothing else ends."""

import click

from headrace.jetstream.connection import Bus
from headrace.log.find import locate
from headrace.tasks.end import fail_task
from headrace_cli.on_bus import on_bus, with_nats


@click.command()
@with_nats
@click.option(
    "--reason",
    default="An operator has ended it",
    show_default=True,
    help="What the task's client reads.",
)
@click.argument("task")
def fail(nats_url: str | None, reason: str, task: str) -> None:
    """End TASK with FAILED, over the head of whoever works on it.

    Try `headrace cancel` first: it lets the agent clean up. A worker that still holds the task is
    fenced: it can say nothing more, and stops its agent. A task that is over stays as it is.
    """

    async def work(bus: Bus) -> None:
        await fail_task(bus, await locate(bus, task), reason)

    on_bus(nats_url, work)
    click.echo(f"task {task} FAILED")
