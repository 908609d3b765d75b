"""Ask for the holders of all running tasks, when a worker is gone or the range has a new replica.

A worker that dies together with the replica that watched it leaves runs with long leases, and no
process has a list of them. A run whose request was lost is missed only once its worker dies. Both
would be found much later, by the silence of their tasks. So the holders of all running tasks of a
range are contacted once when a replica takes it, and once when a worker has left the directory,
except those that the watch of workers knows from their workers' last answers. A run without a
holder is requested again, or released to the queue, which still has it.

This decides nothing, like the watch of workers: who gets such a run contacts its holder first.
"""

import asyncio
import logging
import time
from collections.abc import Sequence
from itertools import batched

from headrace.directory import Directory
from headrace.model.messages import Control
from headrace.model.task import SUBMITTED, TaskKey
from headrace.tasks.holder import ask_holder
from headrace_task_state.maintenance.due import AT_ONCE, Upkeep, repeat
from headrace_task_state.maintenance.sweep import Sweep
from headrace_task_state.maintenance.worker_watch import was_cut_off
from headrace_task_state.store import DueList, Fields, key_of

_log = logging.getLogger(__name__)

_MOST = 1_000_000
"""Tasks that are checked at once; more are left to the sweep."""

_AT_ONCE = 200
"""Holders asked concurrently."""

type _Running = tuple[TaskKey, Fields]

_REST = 10.0
"""Rest after a check, as a multiple of the processor time that this process has used during it: a
fleet with many tasks may replace many workers."""

_ANSWER = 1.0
"""Seconds to wait for a holder's answer, twice."""

_WHO = Control(ask="who")


class HolderCheck:
    """Checks the running tasks of one range, under its lease."""

    def __init__(self, upkeep: Upkeep, directory: Directory, sweep: Sweep) -> None:
        """Find tasks by `upkeep`; leave those without a holder to `sweep`."""
        self._upkeep, self._directory, self._sweep = upkeep, directory, sweep
        self._bus, self._writer, self._timing = upkeep.bus, upkeep.writer, upkeep.timing
        self._workers: set[str] | None = None
        """Those at the last look; None: there was no check."""
        self._next_read: asyncio.Event | None = None
        """When the directory may have changed since the last look."""
        self._not_before = 0.0
        """When the next check may begin, monotonic."""

    async def run(self) -> None:
        """Run until the lease is lost."""
        await repeat(self._look_in_turn, 0.0, "the check of holders")

    async def _look_in_turn(self) -> None:
        if self._next_read is not None:
            await self._next_read.wait()
        self._next_read = self._directory.next_read
        await self.look()

    async def look(self) -> None:
        """Check the running tasks if the range is new here or a worker is gone since the last time.

        Raises as `DueTasks.go_through`.
        """
        # Workers may be on their way back, too.
        if was_cut_off(self._bus, self._timing.watch) or time.monotonic() < self._not_before:
            return
        workers = set(self._directory.agents_by_worker())
        if self._workers is None or self._workers - workers:
            used = time.process_time()
            await self._check()
            self._not_before = time.monotonic() + _REST * (time.process_time() - used)
        self._workers = workers

    async def _check(self) -> None:
        # Runs that sleep have no holder. Those that sleep for long are due later.
        until = self._upkeep.now(self._timing.max_silence)
        silent = list[_Running]()
        for names in batched(await self._writer.due(DueList.AT_WORK, until, _MOST), _AT_ONCE):
            silent += await self._without_holder(await self._running(names))
        if silent:
            # A worker that lost its connection is back, or the run has been taken over.
            await asyncio.sleep(self._timing.holder_pause)
        for some in batched(silent, _AT_ONCE):
            for lost in batched(await self._without_holder(some), AT_ONCE):
                await asyncio.gather(*(self._recover(key, task) for key, task in lost))

    async def _recover(self, key: TaskKey, task: Fields) -> None:
        try:
            await self._sweep.recover(key, task)
        except Exception as error:  # noqa: BLE001 - one log must not stop its range's upkeep
            _log.info("task %s without a holder is left to the sweep: %s", key.task, error)

    async def _running(self, names: Sequence[str]) -> list[_Running]:
        found = list[_Running]()
        for name, task in zip(names, await self._writer.fields(*names), strict=True):
            if task and task.get("state") != SUBMITTED:
                key = key_of(name, task["agent"])
                if self._sweep.known_holder(key) is None:
                    found.append((key, task))
        return found

    async def _without_holder(self, tasks: Sequence[_Running]) -> list[_Running]:
        requests = (ask_holder(self._bus, key, _WHO, _ANSWER) for key, _ in tasks)
        answers = await asyncio.gather(*requests)
        return [one for one, answer in zip(tasks, answers, strict=True) if answer is None]
