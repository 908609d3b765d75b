"""``headrace tail``: stream a task's answer."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from headrace.model.task import TERMINAL
from headrace_cli.gateway import agent_of, at_gateway, with_agent, with_gateway, with_json
from headrace_cli.send import with_save
from headrace_cli.stream_output import INTERRUPTED, StreamOutput
from headrace_cli.transcript import state_of

if TYPE_CHECKING:
    from headrace.client import Client


@click.command()
@with_gateway
@with_agent
@click.option("--after", default="", metavar="CURSOR", help="Only events after this cursor.")
@with_save
@with_json
@click.argument("task")
def tail(  # noqa: PLR0913 - one parameter per flag is how click calls
    *,
    url: str,
    token: str | None,
    agent: str | None,
    after: str,
    save: Path | None,
    as_json: bool,
    task: str,
) -> None:
    """Stream TASK's answer, also over disconnects. Without --agent, the agent is looked up.

    Exits as `headrace send` does.
    """
    output = StreamOutput(as_json=as_json, save=save)

    async def work(client: "Client") -> None:
        name = await agent_of(client, agent, task)
        found = await client.get(name, task)
        if not after and state_of({"task": found.task}) in TERMINAL:  # Nothing to subscribe to.
            await output.show_ended(found)
        else:
            await output.follow(client, client.resume(name, task, after))

    try:
        at_gateway(url, token, work, agent)
    except KeyboardInterrupt:
        output.leave(task)
        sys.exit(INTERRUPTED)
    sys.exit(output.exit_code)
