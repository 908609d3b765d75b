"""Sleeps of an agent: recorded in the log, and spent without a permit, a hold or a process.

A sleep is recorded before its attempt ends, under an id that is the same in each attempt. The run
request stays in the queue, which delivers it again at the time. So if any process is killed
meanwhile, the next attempt finds in the log which sleeps there were and when they end.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime

from headrace import clock
from headrace.model.delegation import earliest
from headrace.model.timestamp import timestamp
from headrace.sdk.runtime import Interrupt
from headrace_worker.timing import Timing


class Sleeps:
    """The sleeps of one attempt."""

    def __init__(
        self,
        known: Mapping[str, datetime],
        new_id: Callable[[str], str],
        record: Callable[[str, str], Awaitable[object]],
        interrupt: Callable[[Interrupt], None],
        timing: Timing,
    ) -> None:
        """Begin an attempt at a run that has the `known` sleeps, by their ids.

        `record` appends the id and the end of another one, and `interrupt` ends the attempt.
        """
        self._known, self._new_id, self._record = known, new_id, record
        self._interrupt, self._timing = interrupt, timing
        self.until: datetime | None = None
        """When the first of the sleeps ends for which the attempt ends. None: it ends for none."""

    async def begin(self, until: datetime) -> float:
        """See `Runtime.sleep`."""
        name = self._new_id("sleep")
        end = self._known.get(name, until)
        if _left(end) <= self._timing.waking:
            return _left(end)
        if name not in self._known:
            await self._record(name, timestamp(end))
        if self._timing.keeps_sleepers:
            return _left(end)
        self.until = earliest(self.until, end)
        # An agent that has not paused yet is not a task that can be stopped.
        await asyncio.sleep(0)
        self._interrupt(Interrupt.HANDED_BACK)
        await asyncio.get_running_loop().create_future()
        raise AssertionError("an attempt went on after it was released")


def _left(end: datetime) -> float:
    return (end - clock.now()).total_seconds()
