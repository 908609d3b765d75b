"""The runs of a thread: those of every task in its context.

Task state lists a thread's tasks; the run ids are in the tasks' logs.
"""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import NamedTuple

from headrace.log import last_entry, replay
from headrace.model.entry import Entry
from headrace.model.errors import LogLost
from headrace.model.events import Json
from headrace.model.task import INPUT_REQUIRED, TaskKey
from headrace_gateway.call import Call
from headrace_gateway.context_tasks import ContextTasks
from headrace_gateway.protocols.agui.call_names import OpenCalls
from headrace_gateway.protocols.agui.errors import RunUnknown
from headrace_gateway.protocols.agui.fold import NamedRuns
from headrace_gateway.protocols.agui.run import AguiRun
from headrace_gateway.services import Services

RECENT = 50
"""Maximum tasks read for a thread's newest run and for its history: the latest ones."""


@dataclass(frozen=True, slots=True)
class ThreadRun:
    """One run of a thread, and its log."""

    key: TaskKey
    log: str
    number: int
    run: AguiRun
    time: str
    """Time when its input was stored, RFC 3339."""
    sequence: int = 0
    """Stream sequence of its input."""


class WaitingRuns(NamedTuple):
    """The runs of a task that waits for input."""

    task: str
    runs: list[ThreadRun]
    calls: OpenCalls


class RunThread:
    """One thread of a caller with an agent."""

    def __init__(self, services: Services, call: Call, thread: str) -> None:
        """Read the thread with that id."""
        self._services, self._thread = services, thread
        self.tasks = ContextTasks(services, call, thread)
        """The tasks that its runs belong to."""

    async def find(self, run: str) -> ThreadRun:
        """Return the run with that id; the newest if the id was reused.

        Raises:
            RunUnknown: the thread has no such run, or no longer.
            StateUnavailable, BusUnavailable: try again.
        """
        async for task in self.tasks.newest_first():
            for found in reversed(await self._runs_of(task)):
                if found.run.id == run:
                    return found
        raise RunUnknown(f"thread {self._thread} has no run {run}")

    async def newest(self) -> ThreadRun:
        """Return the run that started last.

        Raises:
            RunUnknown, StateUnavailable, BusUnavailable: as `find`.
        """
        runs = await self.runs()
        if not runs:
            raise RunUnknown(f"thread {self._thread} does not exist")
        return runs[-1]

    async def runs(self) -> list[ThreadRun]:
        """Return the runs of the thread's latest tasks, oldest first."""
        found: list[ThreadRun] = []
        async for task in self.tasks.newest_first(RECENT):
            found += await self._runs_of(task)
        return sorted(found, key=lambda one: (one.time, one.key.task, one.number))

    async def entries(self, run: ThreadRun) -> list[Entry]:
        """Return the current entries of the run's task, with file addresses for the client."""
        last = await last_entry(self._services.bus, run.key)
        if last is None:
            return []
        log = replay(self._services.bus, run.key, 0, last.sequence)
        links = self._services.links
        return [links.entry(entry) async for batch in log for entry in batch]

    async def waiting(self) -> AsyncIterator[WaitingRuns]:
        """Yield each task that waits for input, with its runs.

        Raises:
            StateUnavailable, BusUnavailable: try again.
        """
        async for task in self.tasks.newest_first(states=[INPUT_REQUIRED]):
            named = NamedRuns()
            runs = await self._runs_of(task, named)
            yield WaitingRuns(task["id"], runs, named.left().open_calls)

    async def _runs_of(self, task: Json, named: NamedRuns | None = None) -> list[ThreadRun]:
        """Return the runs of a task; `named` reads its log meanwhile."""
        key = self.tasks.key(task["id"])
        last = await last_entry(self._services.bus, key)
        if last is None:
            return []
        found: list[ThreadRun] = []
        try:
            async for batch in replay(self._services.bus, key, 0, last.sequence):
                found += [_run(key, entry) for entry in batch if is_input(entry)]
                if named is not None:
                    for entry in batch:
                        named.read(entry)
        except LogLost:
            return []  # past its retention
        return found


def is_input(entry: Entry) -> bool:
    """Return whether the entry contains the input of its run."""
    return entry.generation <= entry.stamp.run <= entry.last_generation


def _run(key: TaskKey, entry: Entry) -> ThreadRun:
    number = entry.stamp.run
    run = AguiRun.of_input(entry.events[number - entry.generation], number)
    return ThreadRun(key, entry.stamp.log, number, run, entry.time, entry.sequence)
