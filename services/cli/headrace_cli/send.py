"""``headrace send``: send a message and print the answer."""

import sys
from pathlib import Path

import click

from headrace_cli.chat_session import ChatSession, is_interactive, read_message
from headrace_cli.gateway import Gateway, command_line, with_agent, with_gateway
from headrace_cli.printer import Printer, with_json
from headrace_cli.stream_output import INTERRUPTED, StreamOutput

with_files = click.option(
    "--file",
    "files",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    multiple=True,
    help="File to attach; repeatable.",
)

with_save = click.option(
    "--save",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="Save the files in results in DIR.",
)


@click.command()
@with_gateway
@with_agent
@click.option("--task", help="Task to continue; its agent is looked up unless --agent is given.")
@click.option("--context", help="Context (conversation) of the message.")
@click.option(
    "--at",
    metavar="TIME",
    help="Have the run begin at this time, such as 2027-01-31T09:00:00Z; only the task is shown.",
)
@with_files
@with_save
@with_json
@click.argument("text")
def send(  # noqa: PLR0913 - one parameter per flag is how click calls
    *,
    gateway: Gateway,
    agent: str | None,
    task: str | None,
    context: str | None,
    at: str | None,
    files: tuple[Path, ...],
    save: Path | None,
    printer: Printer,
    text: str,
) -> None:
    """Send TEXT to an agent and stream its answer.

    The answer goes to stdout; reasoning, tool calls and the task's state go to stderr, unless
    stdout is a terminal. There, a question is answered in place; Ctrl-D leaves it open. A dropped
    connection is resumed. After Ctrl-C the task continues, and the commands
    that resume and cancel it are shown.

    Exits with 0 if the task is COMPLETED, 3 if it FAILED, 4 REJECTED, 5 CANCELED, and with 6 if the
    agent requires input.
    """
    can_answer = is_interactive() and not printer.as_json
    output = StreamOutput(gateway.url, as_json=printer.as_json, save=save, hints=not can_answer)
    session = ChatSession(gateway, agent, output, task=task or "", context=context or "")
    if at is not None:
        sent = session.send_for_later(text, files, at)
        follow = f"{command_line('tail', gateway.url)} {sent.id}"
        printer.record(sent.task, f"task {sent.id}: {sent.state}; follow it: {follow}")
        return
    try:
        session.send(text, files)
        while can_answer and session.waits_for_answer and (answer := read_message()) is not None:
            session.send(answer)
        if can_answer:
            session.leave_question()
    except KeyboardInterrupt:
        session.leave()
        sys.exit(INTERRUPTED)
    sys.exit(output.exit_code)
