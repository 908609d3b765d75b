"""``headrace cancel``: cancel a task."""

import click

from headrace_cli.client import GatewayClient, task_path, with_agent, with_gateway
from headrace_cli.lookup import find_agent_path
from headrace_cli.resuming_stream import state_of
from headrace_cli.tables import one_line


@click.command()
@with_gateway
@with_agent
@click.argument("task")
def cancel(url: str, token: str | None, agent: str | None, task: str) -> None:
    """Cancel TASK. Without --agent, the agent is looked up."""
    client = GatewayClient(url, token)
    path = task_path(find_agent_path(client, agent, task), task)
    ended = client.post(f"{path}:cancel", {})
    click.echo(one_line(f"task {task} {state_of({'task': ended}).removeprefix('TASK_STATE_')}"))
