"""The past of an attempt: its task's log, and the earlier tasks of the conversation."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from headrace.jetstream.connection import Bus
from headrace.log import last_entry, replay
from headrace.log.read import copy_of_beginning
from headrace.model.delegation import asking_agent
from headrace.model.entry import Entry
from headrace.model.errors import LogLost
from headrace.model.events import GENERATION, Json
from headrace.model.fold import TaskFold
from headrace.model.fork import ForkOf
from headrace.model.messages import ListTasks
from headrace.model.task import TaskKey
from headrace.state_client import StateClient

_PAGE = 100
_AT_A_TIME = 8
"""Maximum number of logs read concurrently."""


@dataclass(frozen=True, slots=True)
class TaskPast:
    """What came before an attempt: its task's log, and the other tasks of the conversation.

    Methods raise `LogLost` if a log is gone and `BusUnavailable` if it does not answer.
    """

    bus: Bus
    key: TaskKey
    owner: str
    context: str
    head: int
    """Stream sequence up to which the log is read."""

    async def task(self) -> Json:
        """Return the A2A v1.0 Task."""
        fold = TaskFold()
        for entry in await self.entries():
            fold.apply_entry(entry)
        return fold.task()

    async def events(self) -> list[tuple[int, Json]]:
        """Return the task's events, each with its generation."""
        return [
            numbered
            for entry in await self.entries()
            for numbered in enumerate(entry.parsed(), entry.generation)
        ]

    async def entries(self) -> list[Entry]:
        """Return the task's entries."""
        return await entries_before(self.bus, self.key, self.head)

    async def context_tasks(self) -> list[Json]:
        """Return the owner's other tasks in the context, least recently changed first.

        Raises:
            StateUnavailable: task state does not answer.
        """
        query = ListTasks(
            tenant=self.key.tenant,
            owner=self.owner,
            context=self.context,
            page_size=_PAGE,
            include_artifacts=True,
        )
        return await _listed(self.bus, self.key, query)

    async def context_logs(
        self, requested_by: str | None, fork: ForkOf | None
    ) -> list[list[Entry]]:
        """Return the logs of the conversation that the task continues, oldest first.

        These are the logs of the owner's other tasks of the same agent in the context, up to the
        last run that has ended. Requests of another agent are a conversation of their own:
        `requested_by` is that agent, or None for requests of users. A fork also continues its
        source's conversation, as it was then.

        Raises:
            StateUnavailable: task state does not answer.
        """
        bus, key, logs = self.bus, self.key, list[list[Entry]]()
        for source in reversed(fork.chain() if fork is not None else []):
            source_key = TaskKey(key.tenant, key.agent, source.task)
            until = datetime.fromisoformat(source.at)
            logs += await _other_logs(bus, source_key, self.owner, source.context, until)
        logs += await _other_logs(bus, key, self.owner, self.context)
        return [log for log in logs if log and asking_agent(_first_task(log)) == requested_by]


async def _other_logs(
    bus: Bus, key: TaskKey, owner: str, context: str, until: datetime | None = None
) -> list[list[Entry]]:
    """Return the logs of the other tasks of the agent in `context`, oldest first, up to a time."""
    query = ListTasks(
        tenant=key.tenant,
        owner=owner,
        agents=[key.agent],
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


async def entries_before(bus: Bus, key: TaskKey, head: int) -> list[Entry]:
    """Return the task's entries up to stream sequence `head`.

    Raises:
        LogLost: that part of the log is gone.
        BusUnavailable: the stream does not answer.
    """
    return [entry async for batch in replay(bus, key, 0, head) for entry in batch]
