"""Delete large files that no task has: retention and deletion find files by their tasks.

A file is stored before the event that links to it. So a gateway that is killed in between leaves
files of a task that never begins, and a worker that does not notice the end of its task may store
one when the task is erased already.

A log may also be missing because its stream was lost, or restored from an older copy, and somebody
is about to restore a newer one. Task state notices both, and begins its view again. So the files of
no log are deleted only if the view of its stream has existed since before them, or for so long that
the task would have been erased meanwhile. The time at which a stream was created does not tell: in
a copied data folder it is the original's, and after a restore through NATS' API a new one.
"""

import asyncio
import logging
from itertools import batched

from headrace.jetstream.connection import Bus
from headrace.jetstream.objects import FileStore
from headrace.jetstream.server_clock import ServerClock
from headrace.log.read import last_stored
from headrace.model.errors import BusUnavailable
from headrace.model.subjects import stream_of_shard
from headrace.model.task import TaskKey
from headrace.tasks.forget import clear_away
from headrace_task_state.maintenance.due import repeat
from headrace_task_state.maintenance.timing import MaintenanceTiming
from headrace_task_state.projector.follower import same_stream
from headrace_task_state.store import Range, Reader, Writer

_log = logging.getLogger(__name__)

_PAGE = 200
"""Tasks looked up in the view at a time."""

_PAUSE = 0.01
"""Seconds after each log that is read."""


class FileUpkeep:
    """Looks for the tasks of all files; one replica does so, under the lease of a range."""

    def __init__(
        self,
        bus: Bus,
        writer: Writer,
        reader: Reader,
        *,
        clock: ServerClock,
        timing: MaintenanceTiming,
        kept: float,
    ) -> None:
        """Find tasks through `writer`, of whichever range they are; `reader` has the progress.

        `kept` is the number of seconds for which a task that has ended is kept.
        """
        self._bus, self._writer, self._reader = bus, writer, reader
        self._clock, self._timing, self._kept = clock, timing, kept
        self._files = FileStore(bus)

    async def run(self) -> None:
        """Run until the lease is lost."""
        await repeat(self.look, self._timing.file_interval, "the search for files without a task")

    async def look(self) -> None:
        """Delete the files of tasks that are erased, or have not begun in the time allowed.

        Raises:
            BusUnavailable: NATS does not answer, or a view of files without a log has not begun.
            StateUnavailable: The store does not answer.
        """
        async for found in self._files.tasks():
            for keys in batched(sorted(found), _PAGE):
                await self._writer.confirm()
                await self._look_at(keys)

    async def _look_at(self, keys: tuple[TaskKey, ...]) -> None:
        tasks = await self._writer.fields(*(f"{key.tenant}:{key.task}" for key in keys))
        for key, task in zip(keys, tasks, strict=True):
            # The view may lag, or be rebuilt: what it has not is decided by the log.
            if task.get("agent") != key.agent:
                await self._look_after(key)
                await asyncio.sleep(_PAUSE)

    async def _look_after(self, key: TaskKey) -> None:
        try:
            await self._delete_if_unused(key)
        except BusUnavailable:
            raise
        except Exception as error:  # noqa: BLE001 - one log must not stop its range's upkeep
            _log.warning("files of task %s are left as they are: %s", key.task, error)

    async def _delete_if_unused(self, key: TaskKey) -> None:
        last = await last_stored(self._bus, key)
        if last is None and not await self._is_abandoned(key):
            return
        if last is None or last.is_tombstone:
            _log.info("deleting files of task %s, which does not exist", key.task)
            await clear_away(self._bus, key)

    async def _is_abandoned(self, key: TaskKey) -> bool:
        stored = await self._files.newest(key)
        now = self._clock.now()
        if stored is None or stored >= now - self._timing.file_without_task:
            return False
        began = await self._began(Range(stream_of_shard(key.shard)))
        return began < max(stored, now - self._kept)

    async def _began(self, place: Range) -> float:
        """Return when the view of the range began, seconds since 1970.

        Raises:
            BusUnavailable: It is of a stream that was replaced, or has not begun.
        """
        progress, stream = (
            await self._reader.progress(place),
            self._bus.streams.events(place.stream),
        )
        if not progress.began or await same_stream(self._bus, stream, progress) is None:
            raise BusUnavailable(f"the view of stream {stream} has not begun")
        return progress.began / 1000
