"""``headrace send`` and ``cancel``: ask for work, call it off."""

import uuid

import click

from headrace_cli.client import Client, Json, agent_path, task_path, with_agent, with_gateway
from headrace_cli.following import Following, state_of
from headrace_cli.reading import base_of_task
from headrace_cli.tables import one_line
from headrace_cli.tailing import show_all


@click.command()
@with_gateway
@with_agent
@click.option("--task", help="Continue this task; without --agent its agent is looked up.")
@click.option("--context", help="The conversation that the message belongs to.")
@click.argument("text")
def send(  # noqa: PLR0917 - as click hands the options over
    url: str,
    token: str | None,
    agent: str | None,
    task: str | None,
    context: str | None,
    text: str,
) -> None:
    """Send TEXT to an agent and show its answer as it comes.

    The answer goes to stdout, how the task fares to stderr. A dropped connection is resumed.
    """
    message: Json = {"messageId": str(uuid.uuid4()), "role": "ROLE_USER", "parts": [{"text": text}]}
    message |= {"taskId": task} if task else {}
    message |= {"contextId": context} if context else {}
    client = Client(url, token)
    base = base_of_task(client, agent, task) if task else agent_path(agent)
    following = Following(client, base, task or "")
    show_all(following.sent({"message": message}))


@click.command()
@with_gateway
@with_agent
@click.argument("task")
def cancel(url: str, token: str | None, agent: str | None, task: str) -> None:
    """Cancel TASK; without --agent its agent is looked up."""
    client = Client(url, token)
    path = task_path(base_of_task(client, agent, task), task)
    ended = client.post(f"{path}:cancel", {})
    click.echo(one_line(f"task {task} {state_of({'task': ended}).removeprefix('TASK_STATE_')}"))
