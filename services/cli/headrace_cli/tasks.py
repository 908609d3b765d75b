"""``headrace tasks``: list, export, delete and fail tasks."""

from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING

import click

from headrace.jetstream.connection import Bus
from headrace.log.find import locate
from headrace.model.case import MAX_FILE_BYTES, Case, CaseRecorder
from headrace.model.events import START
from headrace.model.task import STATES
from headrace.model.task_report import RUN_ENDED_NAMES, state_name
from headrace.tasks.end import ENDED_BY_OPERATOR, fail_task
from headrace.tasks.forget import clear_away, mark_deleted
from headrace.wait_for import ELECTION, wait_for
from headrace.webhooks import Webhooks
from headrace_cli.failures import RequestFailed
from headrace_cli.gateway import Gateway, agent_of, with_agent_of_task, with_gateway
from headrace_cli.on_bus import on_bus, with_nats
from headrace_cli.printer import Printer, with_json
from headrace_cli.progress import progress
from headrace_cli.tables import one_line

if TYPE_CHECKING:
    from headrace.client import Client, ClientTask

_TIMEOUT = 3 * ELECTION
"""Seconds: covers elections of more than one stream's leader, and an agent's clean-up."""


@click.command()
@with_nats
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@with_json
@click.argument("task")
def delete(nats_url: str | None, *, yes: bool, task: str, printer: Printer) -> None:
    """Erase TASK: its log, files, webhooks, dead letters and its entry in the view.

    A task that has not ended is canceled first. Child tasks are tasks of their own and stay: delete
    them, too. Repeat the command if it was interrupted: it finishes what is left.
    """
    if not yes:
        click.confirm(f"Erase task {task}? It can't be restored", abort=True, err=True)

    async def work(bus: Bus) -> None:
        async def erase() -> None:
            key = await locate(bus, task)
            done(1)
            await mark_deleted(bus, key)
            done(2)
            await Webhooks(bus).delete_all(key)
            done(3)
            await clear_away(bus, key)
            done(4)

        # A repeated deletion finishes what is left, so it can wait out an election at any step.
        with progress("Deleting", 4, is_shown=not printer.as_json) as done:
            await wait_for("NATS", erase, _TIMEOUT)

    on_bus(nats_url, work)
    printer.record({"task": task, "outcome": "deleted"}, f"task {task} deleted")


@click.command()
@with_nats
@click.option(
    "--reason",
    default=ENDED_BY_OPERATOR,
    show_default=True,
    help="Reason that clients see.",
)
@with_json
@click.argument("task")
def fail(nats_url: str | None, reason: str, task: str, printer: Printer) -> None:
    """End TASK with FAILED, also while a worker is working on it.

    Try `headrace cancel` first: it lets the agent clean up. A worker that still holds the task is
    fenced: it can't append anything more, and stops its agent. A task that is over is not changed.
    """

    async def work(bus: Bus) -> None:
        await fail_task(bus, await locate(bus, task), reason)

    on_bus(nats_url, work)
    printer.record({"task": task, "outcome": "failed"}, f"task {task} FAILED")


_STATE = "TASK_STATE_"


class _StateName(click.Choice[str]):
    """The name of a task's state, such as ``input-required``; also with an underscore."""

    name = "state"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the state's name."""
        return super().convert(value.lower().replace("_", "-"), param, ctx)


@click.group(invoke_without_command=True)
@with_gateway
@click.option("--agent", metavar="NAME", help="Only tasks of this agent.")
@click.option("--context", help="Only tasks of this context.")
@click.option(
    "--status",
    type=_StateName(sorted(map(state_name, STATES))),
    metavar="STATE",
    help="Only tasks in this state, e.g. working.",
)
@click.option(
    "--limit",
    type=click.IntRange(1, 100),
    default=20,
    show_default=True,
    help="Maximum number of tasks per agent.",
)
@with_json
@click.pass_context
def tasks(  # noqa: PLR0913  # one parameter per flag is how click calls
    ctx: click.Context,
    *,
    gateway: Gateway,
    agent: str | None,
    context: str | None,
    status: str | None,
    limit: int,
    printer: Printer,
) -> None:
    """List tasks, the latest first; without --agent those of every agent."""
    if ctx.invoked_subcommand is not None:
        return

    async def work(client: "Client") -> "list[ClientTask]":
        search = _TaskSearch(client, context, status, limit)
        return await (search.of(agent) if agent else search.of_every_agent())

    found = gateway.ask(work, agent)
    found.sort(key=lambda one: one.task["status"].get("timestamp", ""), reverse=True)
    rows = [({"agent": one.agent, **one.task}, _cells(one)) for one in found]
    printer.table(("TASK", "AGENT", "STATE", "SINCE", "CONTEXT"), rows)


def _cells(task: "ClientTask") -> tuple[str, ...]:
    status = task.task["status"]
    state, since = status.get("state", "").removeprefix(_STATE), status.get("timestamp", "")
    return task.id, task.agent or "", state, since, task.context


@click.command()
@with_gateway
@with_agent_of_task
@click.option(
    "--max-file-bytes",
    type=click.IntRange(0),
    default=MAX_FILE_BYTES,
    show_default=True,
    help="Larger files are exported as their size and digest, without their content.",
)
@click.argument("task")
def export(gateway: Gateway, agent: str | None, max_file_bytes: int, task: str) -> None:
    """Print TASK as a case: its inputs and the agent's output, as JSON lines.

    `headrace.testing` runs a case again and shows the difference. The case has what the user and
    the agent wrote, without ids, times, metadata and the credentials in URLs. Without --agent, the
    agent is looked up.
    """

    async def work(client: "Client") -> Case:
        owner = await agent_of(client, agent, task)
        found = await client.get(owner, task)
        if found.state not in RUN_ENDED_NAMES:
            raise RequestFailed(f"task {task} is {found.state}; export it when its run has ended")
        recorder = CaseRecorder(max_file_bytes)
        async for event in client.resume(owner, task, START):
            if not event.recovered:
                raise RequestFailed(f"task {task}: the first events of its log are gone")
            recorder.add(event)
        return Case(owner, recorder.steps)

    for line in gateway.ask(work, agent, task).lines():
        click.echo(line)


tasks.add_command(export)
tasks.add_command(fail)
tasks.add_command(delete)


@dataclass(frozen=True, slots=True)
class _TaskSearch:
    """A search for tasks, at most `limit` per agent."""

    client: "Client"
    context: str | None
    state: str | None
    limit: int

    async def of(self, agent: str) -> "list[ClientTask]":
        """Return the tasks of one agent."""
        found: list[ClientTask] = []
        listed = self.client.tasks(
            agent, context=self.context, state=self.state, page_size=self.limit
        )
        async for task in listed:
            found.append(task)
            if len(found) == self.limit:
                break
        return found

    async def of_every_agent(self) -> "list[ClientTask]":
        """Return the tasks of all agents; one that refuses is reported, and left out.

        Raises:
            RequestRefused: Lists are unavailable, which is waited for once and not for each agent.
        """
        from headrace.client import RequestRefused  # noqa: PLC0415 - an extra

        found: list[ClientTask] = []
        for agent in await self.client.agents():
            try:
                found += await self.of(agent.name)
            except RequestRefused as refused:  # It may require more than this command sends.
                if refused.status == HTTPStatus.SERVICE_UNAVAILABLE:
                    raise
                click.echo(one_line(f"{agent.name}: {refused}"), err=True)
        return found
