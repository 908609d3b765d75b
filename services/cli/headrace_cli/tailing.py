"""``headrace tail``: look on while a task runs."""

import sys
from collections.abc import Iterable

import click

from headrace_cli.client import Client, Json, task_path, with_agent, with_gateway
from headrace_cli.following import Following, state_of
from headrace_cli.reading import base_of_task
from headrace_cli.tables import one_line, printable
from headrace_cli.transcript import Transcript

_ENDED = {f"TASK_STATE_{state}" for state in ("COMPLETED", "FAILED", "CANCELED", "REJECTED")}


@click.command()
@with_gateway
@with_agent
@click.option("--after", default="", metavar="CURSOR", help="Only what came after this cursor.")
@click.argument("task")
def tail(url: str, token: str | None, agent: str | None, after: str, task: str) -> None:
    """Show TASK's answer as it comes, over dropped connections; without --agent it is looked up."""
    client = Client(url, token)
    base = base_of_task(client, agent, task)
    snapshot: Json = {"task": client.get(task_path(base, task))}
    if not after and state_of(snapshot) in _ENDED:  # Nothing to subscribe to.
        show_all([snapshot])
    else:
        show_all(Following(client, base, task, after).subscribed())


def show_all(events: Iterable[Json]) -> None:
    """Show `events` as they come: the answer on stdout, remarks on stderr."""
    transcript = Transcript(say=_say, remark=lambda line: click.echo(one_line(line), err=True))
    for event in events:
        transcript.show(event)
    transcript.end()


def _say(text: str) -> None:
    sys.stdout.write(printable(text))
    sys.stdout.flush()
