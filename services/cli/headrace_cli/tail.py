"""``headrace tail``: stream a task's answer."""

import sys
from pathlib import Path

import click

from headrace.model.cursor import Cursor
from headrace.model.events import START
from headrace_cli.chat_session import ChatSession
from headrace_cli.gateway import Gateway, with_agent_of_task, with_gateway
from headrace_cli.printer import Printer, with_json
from headrace_cli.send import with_save
from headrace_cli.stream_output import INTERRUPTED, StreamOutput


def _checked(_: click.Context, __: click.Parameter, cursor: str) -> str:
    if cursor and cursor != START and Cursor.parse(cursor) is None:
        rule = f"a cursor is LOG:GENERATION, as the id of an event, or {START!r}"
        raise click.BadParameter(f"{cursor!r} is not a cursor; {rule}")
    return cursor


@click.command()
@with_gateway
@with_agent_of_task
@click.option(
    "--after",
    default="",
    metavar="CURSOR",
    callback=_checked,
    help="Only events after this cursor; 'start': all events.",
)
@with_save
@with_json
@click.argument("task")
def tail(
    *,
    gateway: Gateway,
    agent: str | None,
    after: str,
    save: Path | None,
    printer: Printer,
    task: str,
) -> None:
    """Stream TASK's answer; dropped connections are resumed.

    Without --agent, the agent is looked up. Of an ended task, its feedback is shown, too.

    Exits as `headrace send` does.
    """
    output = StreamOutput(gateway.url, as_json=printer.as_json, save=save)
    session = ChatSession(gateway, agent, output, task=task)
    try:
        session.resume(after)
    except KeyboardInterrupt:
        session.leave()
        sys.exit(INTERRUPTED)
    sys.exit(output.exit_code)
