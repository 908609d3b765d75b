"""``headrace cancel``: cancel a task."""

import json
from typing import TYPE_CHECKING

import click

from headrace_cli.gateway import agent_of, at_gateway, with_agent, with_gateway, with_json
from headrace_cli.tables import one_line
from headrace_cli.transcript import state_of

if TYPE_CHECKING:
    from headrace.client import Client, ClientTask


@click.command()
@with_gateway
@with_agent
@with_json
@click.argument("task")
def cancel(url: str, token: str | None, agent: str | None, task: str, *, as_json: bool) -> None:
    """Cancel TASK. Without --agent, the agent is looked up."""

    async def work(client: "Client") -> "ClientTask":
        return await client.cancel(await agent_of(client, agent, task), task)

    ended = at_gateway(url, token, work, agent).task
    if as_json:
        click.echo(json.dumps(ended))
    else:
        click.echo(one_line(f"task {task} {state_of({'task': ended}).removeprefix('TASK_STATE_')}"))
