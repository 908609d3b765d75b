"""``headrace send``: send a message and print the answer."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from headrace_cli.gateway import agent_of, at_gateway, with_agent, with_gateway, with_json
from headrace_cli.stream_output import INTERRUPTED, StreamOutput

if TYPE_CHECKING:
    from headrace.client import Client, TaskStream

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
@with_files
@with_save
@with_json
@click.argument("text")
def send(  # noqa: PLR0913 - one parameter per flag is how click calls
    *,
    url: str,
    token: str | None,
    agent: str | None,
    task: str | None,
    context: str | None,
    files: tuple[Path, ...],
    save: Path | None,
    as_json: bool,
    text: str,
) -> None:
    """Send TEXT to an agent and show its answer as it comes.

    The answer goes to stdout; reasoning, tool calls and how the task fares go to stderr. A dropped
    connection is resumed. Ctrl-C leaves the task at work.

    Exits with 0 if the task is COMPLETED, 3 if it FAILED, 4 REJECTED, 5 CANCELED, and with 6 if the
    agent asks something.
    """
    output = StreamOutput(as_json=as_json, save=save)
    streams: list[TaskStream] = []

    async def work(client: "Client") -> None:
        name = await agent_of(client, agent, task) if task else agent
        stream = client.stream(name, text, task=task, context=context, files=files)
        streams.append(stream)
        await output.follow(client, stream)

    try:
        at_gateway(url, token, work, agent)
    except KeyboardInterrupt:
        output.leave(streams[0].task if streams else "")
        sys.exit(INTERRUPTED)
    sys.exit(output.exit_code)
