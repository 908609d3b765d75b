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


@click.command()
@with_gateway
@with_agent
@click.option("--after", default="", metavar="CURSOR", help="Only events after this cursor.")
@click.argument("task")
def tail(url: str, token: str | None, agent: str | None, after: str, task: str) -> None:
    """Stream TASK's answer, also over disconnects. Without --agent, the agent is looked up."""
    client = Client(url, token)
    base = base_of_task(client, agent, task)
    snapshot: Json = {"task": client.get(task_path(base, task))}
    if not after and state_of(snapshot) in _ENDED:  # Nothing to subscribe to.
        show_all([snapshot])
    else:
        show_all(Following(client, base, task, after).subscribed())


def show_all(events: Iterable[Json]) -> None:
    """Show `events` as they arrive: the answer on stdout, remarks on stderr."""
    transcript = Transcript(say=_say, remark=lambda line: click.echo(one_line(line), err=True))
    for event in events:
        transcript.show(event)
    transcript.end()


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
    """Cancel TASK. Without --agent, the agent is looked up."""
    client = Client(url, token)
    path = task_path(base_of_task(client, agent, task), task)
    ended = client.post(f"{path}:cancel", {})
    click.echo(one_line(f"task {task} {state_of({'task': ended}).removeprefix('TASK_STATE_')}"))
