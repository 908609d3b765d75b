"""``headrace chat``: a conversation with an agent."""

import sys
from pathlib import Path

import click

from headrace_cli.chat_session import ChatSession, read_message
from headrace_cli.failures import RequestFailed
from headrace_cli.gateway import Gateway, with_agent, with_gateway
from headrace_cli.printer import Printer, with_json
from headrace_cli.send import with_save
from headrace_cli.stream_output import INTERRUPTED, StreamOutput


@click.command()
@with_gateway
@with_agent
@click.option("--task", default="", help="Task to resume; its agent is looked up.")
@click.option("--context", default="", help="Conversation to continue with a new task.")
@with_save
@with_json
def chat(
    *,
    gateway: Gateway,
    agent: str | None,
    task: str,
    context: str,
    save: Path | None,
    printer: Printer,
) -> None:
    """Chat with an agent until Ctrl-D.

    Each line is a message. If the agent requires input, the next line is the answer. Ctrl-C during
    an answer offers to cancel the task; otherwise the task continues, and the commands that resume
    and cancel it are shown.
    """
    output = StreamOutput(gateway.url, as_json=printer.as_json, save=save, hints=False)
    session = ChatSession(gateway, agent, output, task=task, context=context)
    if task:
        _turn(session, None)
    while (text := read_message("" if printer.as_json else "> ")) is not None:
        if text.strip():
            _turn(session, text)
    session.leave_question()


def _turn(session: ChatSession, text: str | None) -> None:
    try:
        if text is None:
            session.resume()
        else:
            session.send(text)
    except RequestFailed as failed:
        failed.show()
    except KeyboardInterrupt:
        click.echo()
        if not session.shown_task or not _wants_cancel():
            session.leave()
            sys.exit(INTERRUPTED)
        session.cancel()


def _wants_cancel() -> bool:
    try:
        return click.confirm("Cancel the task?", default=False)
    except click.Abort:
        return False
