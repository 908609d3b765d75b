"""``headrace send``: send a message and print the answer."""

import uuid

import click

from headrace_cli.client import GatewayClient, Json, agent_path, with_agent, with_gateway
from headrace_cli.lookup import find_agent_path
from headrace_cli.resuming_stream import FollowedTask
from headrace_cli.stream_output import print_stream


@click.command()
@with_gateway
@with_agent
@click.option("--task", help="Task to continue; its agent is looked up unless --agent is given.")
@click.option("--context", help="Context (conversation) of the message.")
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

    The answer goes to stdout; reasoning, tool calls and how the task fares go to stderr. A dropped
    connection is resumed. Ctrl-C leaves the task at work.

    Exits with 0 if the task is COMPLETED, 3 if it FAILED, 4 REJECTED, 5 CANCELED, and with 6 if the
    agent asks something.
    """
    message: Json = {"messageId": str(uuid.uuid4()), "role": "ROLE_USER", "parts": [{"text": text}]}
    message |= {"taskId": task} if task else {}
    message |= {"contextId": context} if context else {}
    client = GatewayClient(url, token)
    base = find_agent_path(client, agent, task) if task else agent_path(agent)
    stream = FollowedTask(client, base, task or "")
    print_stream(stream.send({"message": message}), stream)
