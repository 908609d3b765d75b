"""The sweep: an input that no worker has taken up gets its run published again, or is rejected.

A gateway may die between an append and its run. A copy of a run that still waits is refused by
the queue, a copy of one in flight does nothing: the log decides. Past its start deadline an input
is asked for no more: its task ends, also if no worker lives.
"""

import asyncio
import logging
import time

import orjson

from headrace import metrics
from headrace.bus import Bus
from headrace.errors import BusUnavailable, StateUnavailable
from headrace.lanes import Lane, Lanes
from headrace.log import last_entry
from headrace.messages import Run
from headrace.rejecting import TOO_LATE, is_unbegun, reject_unbegun
from headrace.subjects import NORMAL
from headrace.task import TaskKey
from headrace_task_state.following.due import DueTasks
from headrace_task_state.store.writing import LeaseLost, Writer

_log = logging.getLogger(__name__)

EVERY = 1.0
"""Seconds between looks for inputs that are due."""

LONGEST = 60.0
"""What the time to the next request for one input grows to, seconds: it doubles each time."""

_WAITING = "w"
_ACK_TIMEOUT = 2.0
_ALREADY_WAITING = 10077


class Sweep:
    """Looks after the waiting inputs of one range, under its lease."""

    def __init__(self, bus: Bus, writer: Writer, start_within: float) -> None:
        """Look through `writer`; what nobody has begun after `start_within` s is rejected."""
        self._bus = bus
        self._start_within = round(start_within * 1000)
        self._lanes = Lanes(bus)
        self._due = DueTasks(bus, writer, _WAITING, self._ask_again)

    async def run(self) -> None:
        """Sweep until the lease is lost."""
        while True:
            await asyncio.sleep(EVERY)
            try:
                await self.sweep()
            except LeaseLost:
                return
            except (BusUnavailable, StateUnavailable) as trouble:
                _log.info("the sweep waits: %s", trouble)

    async def sweep(self) -> int:
        """Ask for a worker for every input that is due; returns for how many.

        Raises:
            LeaseLost: the range is another replica's.
            BusUnavailable: the queue does not answer.
            StateUnavailable: Redis does not answer.
        """
        return await self._due.go_through(round(time.time() * 1000))

    async def _ask_again(self, key: TaskKey, task: dict[str, str]) -> int:
        """Ask for a worker, or reject the input if it is late; return when to ask again, ms."""
        now = round(time.time() * 1000)
        submitted = int(task.get("submitted", now))
        start_by = submitted + self._start_within
        if own := int(task.get("start_by") or 0):
            start_by = min(start_by, own)
        await self._look_after(key, task, is_late=start_by <= now)
        due = now + min(now - submitted, round(LONGEST * 1000))
        return min(due, start_by) if start_by > now else due

    async def _look_after(self, key: TaskKey, task: dict[str, str], *, is_late: bool) -> None:
        leg, priority = int(task["leg"]), task.get("priority", NORMAL)
        # The view may lag: after it was lost, the inputs of all time come by as if they waited.
        last = await last_entry(self._bus, key)
        if last is None or not is_unbegun(last, leg):
            return
        if not is_late:
            await self._publish(key, task, priority)
        elif await reject_unbegun(self._bus, key, leg, TOO_LATE):
            _log.warning("no worker began %s of leg %d in time: it is rejected", key.task, leg)

    async def _publish(self, key: TaskKey, task: dict[str, str], priority: str) -> None:
        subject = self._bus.subjects.run(key, int(task["leg"]), priority)
        run = Run(
            log=task["log"],
            context=task["context"],
            owner=task["owner"],
            traceparent=task.get("traceparent"),
        )
        msg = await self._bus.request(subject, run.encode(), _ACK_TIMEOUT)
        error = orjson.loads(msg.data).get("error")
        if error is None:
            metrics.RUNS_ASKED_AGAIN.inc()
            _log.warning("nobody had taken up %s of leg %s: asked again", key.task, task["leg"])
        elif error.get("err_code") != _ALREADY_WAITING:
            raise BusUnavailable(f"{subject}: {error.get('description')}")
        # Who asked first may have died before there was a lane for it.
        await self._lanes.open(Lane.of(key, priority))
