"""``headrace tail``: stream a task's answer."""

import sys
from pathlib import Path

import click

from headrace_cli.chat_session import AgentAddress, ChatSession
from headrace_cli.gateway import with_agent, with_gateway, with_json
from headrace_cli.send import with_save
from headrace_cli.stream_output import INTERRUPTED, StreamOutput


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
    session = ChatSession(AgentAddress(url, token, agent), output, task=task)
    try:
        session.resume(after)
    except KeyboardInterrupt:
        session.leave()
        sys.exit(INTERRUPTED)
    sys.exit(output.exit_code)
