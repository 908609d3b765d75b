"""``headrace tail``: stream a task's answer."""

import click

from headrace_cli.client import GatewayClient, Json, task_path, with_agent, with_gateway
from headrace_cli.lookup import find_agent_path
from headrace_cli.resuming_stream import FollowedTask, state_of
from headrace_cli.stream_output import print_stream

_ENDED = {f"TASK_STATE_{state}" for state in ("COMPLETED", "FAILED", "CANCELED", "REJECTED")}


@click.command()
@with_gateway
@with_agent
@click.option("--after", default="", metavar="CURSOR", help="Only events after this cursor.")
@click.argument("task")
def tail(url: str, token: str | None, agent: str | None, after: str, task: str) -> None:
    """Stream TASK's answer, also over disconnects. Without --agent, the agent is looked up.

    Exits as `headrace send` does.
    """
    client = GatewayClient(url, token)
    base = find_agent_path(client, agent, task)
    snapshot: Json = {"task": client.get(task_path(base, task))}
    stream = FollowedTask(client, base, task, after)
    if not after and state_of(snapshot) in _ENDED:  # Nothing to subscribe to.
        print_stream([snapshot], stream)
    else:
        print_stream(stream.subscribe(), stream)
