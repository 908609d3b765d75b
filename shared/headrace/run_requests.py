"""Asking workers for a leg."""

import asyncio
import logging

import orjson

from headrace.bus import Bus
from headrace.errors import BusUnavailable
from headrace.lanes import Lane, Lanes
from headrace.messages import Run
from headrace.subjects import NORMAL
from headrace.task import TaskKey

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

    def ask_for(self, key: TaskKey, leg: int, run: Run, priority: str = NORMAL) -> None:
        """Ask for a leg. Should that fail, task state's sweep publishes the run again."""
        task = asyncio.create_task(self._publish(key, leg, run, priority))
        self._publishing.add(task)
        task.add_done_callback(self._publishing.discard)

    async def _publish(self, key: TaskKey, leg: int, run: Run, priority: str) -> None:
        subject = self._bus.subjects.run(key, leg, priority)
        try:
            ack = orjson.loads((await self._bus.request(subject, run.encode(), _ACK_PATIENCE)).data)
            if "error" in ack:
                what = ack["error"].get("description")
                _log.warning("%s: %s; the sweep will look", subject, what)
            await self._lanes.open(Lane.of(key, priority))
        except BusUnavailable as trouble:
            _log.warning("%s; the sweep will publish it", trouble)


def with_input(run: Run, line: bytes, sequence: int) -> Run:
    """Return `run` with the input that was just appended, unless that is large."""
    if len(line) > CARRIED:
        return run
    return run.model_copy(update={"input": line.decode(), "sequence": sequence})
