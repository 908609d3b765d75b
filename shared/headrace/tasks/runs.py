"""Asking workers for a leg."""

import asyncio
import logging

from headrace.jetstream.api import store
from headrace.jetstream.connection import Bus
from headrace.jetstream.errors import Refused
from headrace.model.errors import BusUnavailable, LogLost
from headrace.model.messages import Run
from headrace.model.queues import Lane
from headrace.model.subjects import NORMAL
from headrace.model.task import TaskKey
from headrace.tasks.queues import Lanes
from headrace.tasks.rejecting import QUEUE_FULL, reject_unbegun

_log = logging.getLogger(__name__)

CARRIED = 16 * 1024
"""Bytes up to which a run carries its input; larger ones are not stored twice."""

_ACK_PATIENCE = 2.0


class RunRequests:
    """Publishes runs, without letting anybody wait for it."""

    def __init__(self, bus: Bus) -> None:
        """Publish on `bus`."""
        self._bus, self._lanes = bus, Lanes(bus)
        self._publishing: set[asyncio.Task[None]] = set()

    def ask_for(
        self, key: TaskKey, leg: int, run: Run, priority: str = NORMAL
    ) -> asyncio.Task[None]:
        """Ask for a leg, and return what is over when that is done.

        Should it fail, task state's sweep publishes the run again.
        """
        task = asyncio.create_task(self._publish(key, leg, run, priority))
        self._publishing.add(task)
        task.add_done_callback(self._publishing.discard)
        return task

    async def _publish(self, key: TaskKey, leg: int, run: Run, priority: str) -> None:
        subject = self._bus.subjects.run(key, leg, priority)
        try:
            try:
                await store(self._bus, subject, run.encode(), _ACK_PATIENCE)
            except Refused as refused:
                _log.warning("%s; the sweep will look", refused)
                if leg == 1 and refused.is_full:
                    # Who has just asked is told so; a task that went on before may wait for the
                    # sweep.
                    await reject_unbegun(self._bus, key, leg, QUEUE_FULL)
            await self._lanes.open(Lane.of(key, priority))
        except (BusUnavailable, LogLost) as trouble:
            _log.warning("%s; the sweep will look", trouble)


def with_input(run: Run, line: bytes, sequence: int) -> Run:
    """Return `run` with the input that was just appended, unless that is large."""
    if len(line) > CARRIED:
        return run
    return run.model_copy(update={"input": line.decode(), "sequence": sequence})
