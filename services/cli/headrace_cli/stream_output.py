"""Print a task's events in the terminal, and exit with the code of its state."""

import sys
from collections.abc import Iterable

import click

from headrace_cli.client import Json
from headrace_cli.resuming_stream import FollowedTask
from headrace_cli.tables import one_line, printable
from headrace_cli.transcript import Transcript

EXIT_CODES = {
    "TASK_STATE_FAILED": 3,
    "TASK_STATE_REJECTED": 4,
    "TASK_STATE_CANCELED": 5,
    "TASK_STATE_INPUT_REQUIRED": 6,
}
"""Exit codes of `send` and `tail` by the state in which they leave the task; 0: it is COMPLETED.
1 is a request that failed, 2 a wrong option."""

_INTERRUPTED = 130
"""The exit code of a program that Ctrl-C ended."""


def print_stream(events: Iterable[Json], stream: FollowedTask) -> None:
    """Show `events` as they arrive, and exit with the code of the state that they end in.

    The answer goes to stdout; reasoning, tool calls and remarks go to stderr. Ctrl-C leaves the
    task at work.
    """
    transcript = Transcript(
        say=_say, remark=lambda line: click.echo(one_line(line), err=True), think=_think
    )
    try:
        for event in events:
            transcript.show(event)
    except KeyboardInterrupt:
        transcript.end()
        if task := stream.task:
            how = f"follow it: headrace tail {task}; end it: headrace cancel {task}"
            click.echo(one_line(f"task {task} goes on; {how}"), err=True)
        sys.exit(_INTERRUPTED)
    transcript.end()
    sys.exit(EXIT_CODES.get(transcript.state, 0))


def _think(text: str) -> None:
    # Without colours where stderr is no terminal.
    click.echo(click.style(printable(text), dim=True), err=True, nl=False)


def _say(text: str) -> None:
    sys.stdout.write(printable(text))
    sys.stdout.flush()
