"""Delete large files and memory that no task has: retention and deletion find both by their tasks.

A file is stored before the event that links to it. So a gateway that is killed in between leaves
files of a task that never begins, and a worker that does not notice the end of its task may store
one, or a value of the task's memory, when the task is erased already. Below, both are called files.

A log may also be missing because its stream was lost, or restored from an older copy, and somebody
is about to restore a newer one. Task state notices both, and begins its view again. So the files of
no log are deleted only if the view of its stream has existed since before them, or for so long that
the task would have been erased meanwhile. The time at which a stream was created does not tell: in
a copied data folder it is the original's, and after a restore through NATS' API a new one.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from itertools import batched
from typing import Protocol

from headrace.jetstream.agent_memory import AgentMemory
from headrace.jetstream.objects import FileStore
from headrace.log.read import last_stored
from headrace.model.errors import BusUnavailable
from headrace.model.subjects import stream_of_shard
from headrace.model.task import TaskKey
from headrace.tasks.forget import clear_away
from headrace_task_state.maintenance.due import Upkeep, repeat
from headrace_task_state.projector.follower import same_stream
from headrace_task_state.store import Progress, Range, name_of

_log = logging.getLogger(__name__)

_PAGE = 200
"""Tasks looked up in the view at a time."""

_PAUSE = 0.01
"""Seconds after each log that is read."""


class TaskData(Protocol):
    """A store of what tasks have. Methods raise `BusUnavailable` if it does not answer."""

    def tasks(self) -> AsyncIterator[set[TaskKey]]:
        """Yield the tasks of which it has something, some at a time."""

    async def newest(self, key: TaskKey) -> float | None:
        """Return when it got the newest of a task, seconds since 1970. None: it has nothing."""

    async def drop(self, key: TaskKey) -> None:
        """Delete all that it has of a task."""


class FileUpkeep:
    """Looks for the tasks of all files; one replica does so, under the lease of a range."""

    def __init__(
        self,
        upkeep: Upkeep,
        progress_of: Callable[[Range], Awaitable[Progress]],
        kept: float,
    ) -> None:
        """Find tasks by the `upkeep` of one range, of whichever range they are.

        `progress_of` returns how far a range has been applied.
        `kept` is the number of seconds for which a task is kept at most: as long as it may wait for
        its user, and then as one that has ended.
        """
        self._bus, self._writer, self._progress_of = upkeep.bus, upkeep.writer, progress_of
        self._clock, self._timing, self._kept = upkeep.clock, upkeep.timing, kept
        self._stores: Sequence[TaskData] = FileStore(self._bus), AgentMemory(self._bus)
        self._unknown = set[int]()
        """Event streams of which this pass has found no view: what they lack may be restored."""

    async def run(self) -> None:
        """Run until the lease is lost."""
        await repeat(self.look, self._timing.file_interval, "the search for files without a task")

    async def look(self) -> None:
        """Delete the files of tasks that are erased, or have not begun in the time allowed.

        Raises:
            BusUnavailable: NATS does not answer.
            StateUnavailable: The store does not answer.
        """
        self._unknown.clear()
        for store in self._stores:
            async for found in store.tasks():
                for keys in batched(sorted(found), _PAGE):
                    await self._writer.confirm()
                    await self._look_at(store, keys)

    async def _look_at(self, store: TaskData, keys: tuple[TaskKey, ...]) -> None:
        tasks = await self._writer.fields(*map(name_of, keys))
        for key, task in zip(keys, tasks, strict=True):
            # The view may lag, or be rebuilt: what it has not is decided by the log.
            if task.get("agent") != key.agent:
                await self._look_after(store, key)
                await asyncio.sleep(_PAUSE)

    async def _look_after(self, store: TaskData, key: TaskKey) -> None:
        try:
            await self._delete_if_unused(store, key)
        except BusUnavailable:
            raise
        except Exception as error:  # noqa: BLE001 - one log must not stop its range's upkeep
            _log.warning("files of task %s are left as they are: %s", key.task, error)

    async def _delete_if_unused(self, store: TaskData, key: TaskKey) -> None:
        last = await last_stored(self._bus, key)
        if last is not None and last.is_tombstone:
            await clear_away(self._bus, key)
        # The log is read again: it may have been restored while the view was looked at.
        elif (
            last is None
            and await self.is_abandoned(stream_of_shard(key.shard), await store.newest(key))
            and await last_stored(self._bus, key) is None
        ):
            _log.info("deleting files of task %s, which does not exist", key.task)
            await store.drop(key)

    async def is_abandoned(self, stream: int, stored: float | None) -> bool:
        """Return whether a task of an event stream that has data of that age would be known."""
        now = self._clock.now()
        if stored is None or stored >= now - self._timing.file_without_task:
            return False
        began = None if stream in self._unknown else await self._began(stream)
        if began is None:
            self._unknown.add(stream)
            return False
        return began < max(stored, now - self._kept)

    async def _began(self, stream: int) -> float | None:
        """Return when the view of the event stream began, seconds since 1970.

        None: it is of a stream that was replaced, or has not begun.

        Raises:
            BusUnavailable: NATS does not answer.
        """
        name = self._bus.streams.events(stream)
        progress = await self._progress_of(Range(stream))
        if not progress.began or await same_stream(self._bus, name, progress) is None:
            return None
        return progress.began / 1000
