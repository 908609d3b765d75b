"""``headrace cancel``: cancel a task."""

from typing import TYPE_CHECKING

import click

from headrace_cli.gateway import Gateway, agent_of, with_agent_of_task, with_gateway
from headrace_cli.printer import Printer, with_json
from headrace_cli.transcript import state_of

if TYPE_CHECKING:
    from headrace.client import Client, ClientTask


@click.command()
@with_gateway
@with_agent_of_task
@with_json
@click.argument("task")
def cancel(gateway: Gateway, agent: str | None, task: str, printer: Printer) -> None:
    """Cancel TASK. Without --agent, the agent is looked up."""

    async def work(client: "Client") -> "ClientTask":
        return await client.cancel(await agent_of(client, agent, task), task)

    ended = gateway.ask(work, agent, task).task
    state = state_of({"task": ended}).removeprefix("TASK_STATE_")
    printer.record(ended, f"task {task} {state}")
