"""``headrace send``, ``tail`` and ``cancel``: start, follow and cancel work."""

import sys
import uuid
from collections.abc import Iterable

import click

from headrace_cli.client import Client, Json, agent_path, task_path, with_agent, with_gateway
from headrace_cli.following import Following, state_of
from headrace_cli.reading import base_of_task
from headrace_cli.tables import one_line, printable
from headrace_cli.transcript import Transcript

_ENDED = {f"TASK_STATE_{state}" for state in ("COMPLETED", "FAILED", "CANCELED", "REJECTED")}

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


@click.command()
@with_gateway
@with_agent
@click.option("--after", default="", metavar="CURSOR", help="Only events after this cursor.")
@click.argument("task")
def tail(url: str, token: str | None, agent: str | None, after: str, task: str) -> None:
    """Stream TASK's answer, also over disconnects. Without --agent, the agent is looked up.

    Exits as `headrace send` does.
    """
    client = Client(url, token)
    base = base_of_task(client, agent, task)
    snapshot: Json = {"task": client.get(task_path(base, task))}
    following = Following(client, base, task, after)
    if not after and state_of(snapshot) in _ENDED:  # Nothing to subscribe to.
        show_all([snapshot], following)
    else:
        show_all(following.subscribed(), following)


def show_all(events: Iterable[Json], following: Following) -> None:
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
        if task := following.task:
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
    client = Client(url, token)
    base = base_of_task(client, agent, task) if task else agent_path(agent)
    following = Following(client, base, task or "")
    show_all(following.sent({"message": message}), following)


@click.command()
@with_gateway
@with_agent
@click.argument("task")
def cancel(url: str, token: str | None, agent: str | None, task: str) -> None:
    """Cancel TASK. Without --agent, the agent is looked up."""
    client = Client(url, token)
    path = task_path(base_of_task(client, agent, task), task)
    ended = client.post(f"{path}:cancel", {})
    click.echo(one_line(f"task {task} {state_of({'task': ended}).removeprefix('TASK_STATE_')}"))
