"""Asking workers for runs."""

import asyncio
from contextlib import suppress

from headrace.jetstream.api import LEADER_TIMEOUT, Json, store_surely, stream_info
from headrace.jetstream.connection import Bus
from headrace.jetstream.errors import Refused
from headrace.model.errors import BusUnavailable
from headrace.model.messages import RunRequest
from headrace.model.queues import RunQueue
from headrace.model.subjects import NORMAL
from headrace.model.task import TaskKey
from headrace.tasks.queues import RunQueues

_LOOK_EVERY = 0.1


class RunRequests:
    """Publishes run requests, and sees that they find a queue."""

    def __init__(self, bus: Bus) -> None:
        """Publish on `bus`."""
        self._bus, self._queues = bus, RunQueues(bus)

    async def publish(
        self, key: TaskKey, generation: int, request: RunRequest, priority: str = NORMAL
    ) -> bool:
        """Ask workers for the run on the input `generation`; return whether it did not wait yet.

        Raises:
            Refused: the work queue is full (`is_full`), or does not take it.
            BusUnavailable: JetStream does not answer.
        """
        subject = self._bus.subjects.run(key, generation, priority)
        is_new = True
        try:
            await store_surely(self._bus, subject, request.encode())
        except Refused as refused:
            if not refused.is_duplicate:
                raise
            is_new = False
        # Whoever published it first may have died before there was a queue for it.
        await self._queues.open(RunQueue.of(key, priority))
        return is_new


async def publish_unconfirmed(
    bus: Bus, key: TaskKey, generation: int, request: RunRequest, priority: str = NORMAL
) -> None:
    """Ask workers for a run whose queue exists, without an answer: task state's sweep will, too.

    Raises:
        BusUnavailable: there is no connection, and no room to wait for one.
    """
    await bus.publish(bus.subjects.run(key, generation, priority), without_input(request).encode())


async def until_gone(bus: Bus, key: TaskKey, generation: int, timeout: float) -> None:
    """Return when the run request is off the queue, or after `timeout` seconds.

    A queue whose leader does not answer is asked again: it may be electing one.
    """
    query = {"subjects_filter": bus.subjects.run(key, generation)}
    with suppress(TimeoutError):
        async with asyncio.timeout(timeout):
            while True:
                if not await _is_queued(bus, query):
                    return
                await asyncio.sleep(_LOOK_EVERY)


async def _is_queued(bus: Bus, query: Json) -> bool:
    try:
        answer = await stream_info(bus, bus.streams.runs, query, LEADER_TIMEOUT)
    except BusUnavailable:
        return True
    return bool(answer["state"].get("subjects"))


def without_input(request: RunRequest) -> RunRequest:
    """Return `run` for another input than the one that it carries."""
    return request.model_copy(update={"input": None, "sequence": None})
