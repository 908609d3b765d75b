"""Earlier tasks of a conversation, and their logs."""

import asyncio
from collections.abc import Sequence
from datetime import datetime

from headrace.jetstream.connection import Bus
from headrace.log import last_entry
from headrace.log.read import copy_of_beginning
from headrace.model.delegation import Lineage
from headrace.model.entry import Entry
from headrace.model.errors import LogLost
from headrace.model.events import GENERATION, Json
from headrace.model.fork import ForkOf
from headrace.model.messages import ListTasks
from headrace.model.task import TaskKey
from headrace.state_client import StateClient
from headrace_worker.recovery import entries_before

_PAGE = 100
_AT_A_TIME = 8
"""Maximum number of logs read concurrently."""


async def earlier_tasks(bus: Bus, key: TaskKey, owner: str, context: str) -> list[Json]:
    """Return the owner's other tasks in `context`, least recently changed first.

    Raises:
        StateUnavailable: task state does not answer.
    """
    query = ListTasks(
        tenant=key.tenant, owner=owner, context=context, page_size=_PAGE, include_artifacts=True
    )
    return await _listed(bus, key, query)


async def earlier_logs(  # noqa: PLR0917 - which conversation it is
    bus: Bus, key: TaskKey, owner: str, context: str, requested_by: str | None, fork: ForkOf | None
) -> list[list[Entry]]:
    """Return the logs of the conversation that the task at `key` continues, oldest first.

    These are the logs of the owner's other tasks of the same agent in `context`, up to the last run
    that has ended. Requests of another agent are a conversation of their own: `requested_by` is
    that agent, or None for requests of users. A fork also continues its source's conversation, as
    it was then.

    Raises:
        StateUnavailable: task state does not answer.
        BusUnavailable: the log does not answer.
    """
    logs = list[list[Entry]]()
    for source in reversed(fork.chain() if fork is not None else []):
        source_key = TaskKey(key.tenant, key.agent, source.task)
        until = datetime.fromisoformat(source.at)
        logs += await _other_logs(bus, source_key, owner, source.context, until)
    logs += await _other_logs(bus, key, owner, context)
    return [log for log in logs if log and asking_agent(_first_task(log)) == requested_by]


async def _other_logs(
    bus: Bus, key: TaskKey, owner: str, context: str, until: datetime | None = None
) -> list[list[Entry]]:
    """Return the logs of the other tasks of the agent in `context`, oldest first, up to a time."""
    query = ListTasks(
        tenant=key.tenant,
        owner=owner,
        agent=key.agent,
        context=context,
        page_size=_PAGE,
        history_length=0,
    )
    limit = asyncio.Semaphore(_AT_A_TIME)

    async def read(task: Json) -> list[Entry]:
        async with limit:
            place = TaskKey(key.tenant, key.agent, task["id"])
            return await _ended_runs(bus, place, task["metadata"][GENERATION], until)

    tasks = await _listed(bus, key, query)
    return await asyncio.gather(*map(read, tasks))


def fork_of(task: Json) -> ForkOf | None:
    """Return where the task's past comes from, or None if it is no fork."""
    return ForkOf.of(task.get("metadata"))


def asking_agent(task: Json) -> str | None:
    """Return the agent that requested the task, or None if a user did."""
    lineage = Lineage.of(task.get("metadata") or {})
    return None if lineage is None else lineage.agent


async def _listed(bus: Bus, key: TaskKey, query: ListTasks) -> list[Json]:
    state, found, token = StateClient(bus), list[Json](), ""
    while True:
        page = await state.list(query.model_copy(update={"page_token": token}))
        found += [task for task in page.tasks if task["id"] != key.task]
        token = page.next_page_token
        if not token:
            return found[::-1]


def _first_task(log: Sequence[Entry]) -> Json:
    task: Json = log[0].events[0].get("task") or {}
    return task


async def _ended_runs(
    bus: Bus, key: TaskKey, generation: int, until: datetime | None
) -> list[Entry]:
    """Return the task's log up to the end of its last run that ended by then.

    The log has reached `generation`. The result is empty if it is gone.
    """
    try:
        log = await copy_of_beginning(bus, key)
        if not log or log[-1].last_generation < generation:
            # The log is long, or the replica behind: its leader states where it ends.
            last = await last_entry(bus, key)
            if last is None:
                return []
            log = await entries_before(bus, key, last.sequence)
    except LogLost:
        return []
    while log and not (log[-1].ends_run and _is_before(log[-1], until)):
        log.pop()
    return log


def _is_before(entry: Entry, until: datetime | None) -> bool:
    return until is None or datetime.fromisoformat(entry.time) <= until
