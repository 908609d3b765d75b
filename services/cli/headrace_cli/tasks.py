"""``headrace tasks``: list, delete and fail tasks."""

from collections.abc import Iterator
from urllib.parse import urlencode

import click

from headrace.jetstream.connection import Bus
from headrace.log.find import locate
from headrace.tasks.end import fail_task
from headrace.tasks.forget import clear_away, mark_deleted
from headrace.wait_for import ELECTION, wait_for
from headrace.webhooks import Webhooks
from headrace_cli.client import GatewayClient, Json, agent_path, with_agent, with_gateway
from headrace_cli.failures import RequestFailed
from headrace_cli.lookup import agent_names
from headrace_cli.on_bus import on_bus, with_nats
from headrace_cli.tables import one_line, table

_TIMEOUT = 3 * ELECTION
"""Seconds: covers elections of more than one stream's leader, and an agent's clean-up."""


@click.command()
@with_nats
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@click.argument("task")
def delete(nats_url: str | None, yes: bool, task: str) -> None:  # noqa: FBT001 - as click hands it over
    """Erase TASK: its log, files, webhooks, dead letters and its entry in the view.

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

        # A repeated deletion finishes what is left, so it can wait out an election at any step.
        await wait_for("NATS", erase, _TIMEOUT)

    on_bus(nats_url, work)
    click.echo(f"task {task} deleted")


@click.command()
@with_nats
@click.option(
    "--reason",
    default="Ended by an operator",
    show_default=True,
    help="Reason that the client is shown.",
)
@click.argument("task")
def fail(nats_url: str | None, reason: str, task: str) -> None:
    """End TASK with FAILED, also while a worker is working on it.

    Try `headrace cancel` first: it lets the agent clean up. A worker that still holds the task is
    fenced: it can say nothing more, and stops its agent. A task that is over stays as it is.
    """

    async def work(bus: Bus) -> None:
        await fail_task(bus, await locate(bus, task), reason)

    on_bus(nats_url, work)
    click.echo(f"task {task} FAILED")


_STATE = "TASK_STATE_"

type _Query = dict[str, str | int]


@click.group(invoke_without_command=True)
@with_gateway
@with_agent
@click.option("--context", help="Only tasks of this context.")
@click.option("--status", metavar="STATE", help="Only tasks in this state, e.g. working.")
@click.option(
    "--limit",
    type=click.IntRange(1, 100),
    default=20,
    show_default=True,
    help="Maximum number of tasks per agent.",
)
@click.pass_context
def tasks(  # noqa: PLR0913, PLR0917  # one parameter per flag is how click calls
    ctx: click.Context,
    url: str,
    token: str | None,
    agent: str | None,
    context: str | None,
    status: str | None,
    limit: int,
) -> None:
    """List tasks, the latest first; without --agent those of every agent."""
    if ctx.invoked_subcommand is not None:
        return
    client = GatewayClient(url, token)
    query: _Query = {"pageSize": limit}
    if context:
        query["contextId"] = context
    if status:
        query["status"] = _STATE + status.upper().replace("-", "_")
    found = list(_tasks(client, agent, query) if agent else _of_every_agent(client, query))
    found.sort(key=lambda pair: pair[1]["status"].get("timestamp", ""), reverse=True)
    rows = [
        (
            task["id"],
            name,
            task["status"].get("state", "").removeprefix(_STATE),
            task["status"].get("timestamp", ""),
            task.get("contextId", ""),
        )
        for name, task in found
    ]
    table(("TASK", "AGENT", "STATE", "SINCE", "CONTEXT"), rows)


tasks.add_command(fail)
tasks.add_command(delete)


def _of_every_agent(client: GatewayClient, query: _Query) -> Iterator[tuple[str, Json]]:
    for name in agent_names(client):
        try:
            yield from _tasks(client, name, query)
        except RequestFailed as refused:  # It may want more than this command brings.
            click.echo(one_line(f"{name}: {refused}"), err=True)


def _tasks(client: GatewayClient, agent: str, query: _Query) -> Iterator[tuple[str, Json]]:
    found = client.get(f"{agent_path(agent)}/tasks?{urlencode(query)}").get("tasks", [])
    yield from ((agent, task) for task in found)
