"""``headrace fork``: begin a new task with another task's past."""

from typing import TYPE_CHECKING

import click

from headrace_cli.gateway import (
    Gateway,
    agent_of,
    command_line,
    with_agent_of_task,
    with_gateway,
)
from headrace_cli.printer import Printer, with_json

if TYPE_CHECKING:
    from headrace.client import Client, ClientTask
    from headrace.model.events import Json


@click.command()
@with_gateway
@with_agent_of_task
@click.option(
    "--at",
    "generation",
    type=click.IntRange(min=1),
    metavar="GENERATION",
    help="Last event of the past; default: the task's last.",
)
@with_json
@click.argument("task")
@click.argument("text", required=False)
def fork(
    *,
    gateway: Gateway,
    agent: str | None,
    generation: int | None,
    task: str,
    text: str | None,
    printer: Printer,
) -> None:
    """Begin a new task with TASK's past.

    It continues with the message TEXT, or as TASK did. TASK is not changed. In the middle of a run,
    the past ends with the last input, checkpoint or step before GENERATION. Without --agent, the
    agent is looked up.
    """

    async def work(client: "Client") -> "ClientTask":
        return await client.fork(await agent_of(client, agent, task), task, generation, text)

    forked = gateway.ask(work, agent, task)
    printer.record(forked.task, _described(forked.task, gateway.url))


def _described(task: "Json", url: str) -> str:
    source = task["metadata"]["headrace.forkOf"]
    where = f"{source['task']} at generation {source['generation']}"
    if source["generation"] < source["requested"]:
        where += f", the last input, checkpoint or step before {source['requested']}"
    follow = f"{command_line('tail', url)} {task['id']}"
    return f"task {task['id']} forked from {where}; follow it with: {follow}"
