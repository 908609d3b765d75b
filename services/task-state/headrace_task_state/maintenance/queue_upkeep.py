"""Delete unused queues, which cost workers requests, and what is left in that of webhooks."""

import asyncio
import logging
import random
from collections.abc import Container

from headrace.jetstream.api import stream_info
from headrace.jetstream.connection import Bus
from headrace.jetstream.consumers import consumer_info, consumers, delete_consumer
from headrace.jetstream.durables import of_pushes
from headrace.jetstream.purge import purge
from headrace.model.errors import BusUnavailable
from headrace.model.events import Json
from headrace.model.queues import RunQueue
from headrace_task_state.maintenance.timing import MaintenanceTiming

_log = logging.getLogger(__name__)


class QueueUpkeep:
    """Checks both work queues' consumers; it is harmless that every replica does so."""

    def __init__(self, bus: Bus, timing: MaintenanceTiming) -> None:
        """Check the queues on `bus`."""
        self._bus, self._stream, self._timing = bus, bus.streams.runs, timing
        self._disuse = QueueIdleTracker()

    async def run(self) -> None:
        """Run until cancelled."""
        # Replicas should not all check at the same time.
        await asyncio.sleep(random.uniform(0, self._timing.queue_interval))  # noqa: S311
        while True:
            try:
                await self.look()
                await self.remove_finished()
            except BusUnavailable as error:
                _log.info("the queues will be checked later: %s", error)
            await asyncio.sleep(self._timing.queue_interval)

    async def look(self) -> None:
        """Delete queues that were empty and delivered nothing for `MaintenanceTiming.unused_queue`.

        Raises:
            BusUnavailable: JetStream does not answer.
        """
        now = asyncio.get_running_loop().time()
        queues = await self._queues()
        self._disuse.keep(queues)
        for name, consumer in queues.items():
            if self._disuse.seconds(name, consumer, now) >= self._timing.unused_queue:
                _log.info("deleting unused queue %s", name)
                await delete_consumer(self._bus, self._stream, name)

    async def remove_finished(self) -> None:
        """Remove messages that the queue of webhooks has, but no consumer delivers any more.

        NATS records a message's removal by its acknowledgement, not by a newer one on its subject.
        After ``kill -9`` the older one is there again, behind what its consumer has finished.

        Raises:
            BusUnavailable: JetStream does not answer.
        """
        stream, subjects = self._bus.streams.pushes, self._bus.subjects
        finished_by_queue = list[int]()
        for number in range(self._bus.settings.event_streams):
            name = of_pushes(subjects, number).durable_name or ""
            consumer = await consumer_info(self._bus, stream, name)
            finished_by_queue.append(int(consumer["ack_floor"]["stream_seq"]))
        # Read after them all: it is never older than what they have finished.
        state = (await stream_info(self._bus, stream))["state"]
        for number, finished in enumerate(finished_by_queue):
            # A stream that is behind its consumer has lost its sequences, and starts over.
            if state["messages"] and state["first_seq"] <= finished <= state["last_seq"]:
                await purge(self._bus, stream, subjects.pushes(number), finished + 1)

    async def _queues(self) -> dict[str, Json]:
        """Return JetStream's ConsumerInfo of every queue except those that workers keep."""
        found = await consumers(self._bus, self._stream)
        return {one["name"]: one for one in found if not _is_kept(one)}


def _is_kept(consumer: Json) -> bool:
    """Return whether the queue is an agent's first, or a version's first that has a worker."""
    queue = RunQueue(*consumer["name"].split("@"))
    return queue.is_first and (not queue.version or bool(consumer.get("num_waiting")))


class QueueIdleTracker:
    """The state of each queue when it was last seen in use, and when that was."""

    def __init__(self) -> None:
        """Start without any queue."""
        self._seen: dict[str, tuple[object, float]] = {}

    def seconds(self, queue: str, consumer: Json, now: float) -> float:
        """Return for how long the queue is known to be unused, in seconds.

        `consumer` is JetStream's ConsumerInfo of it, as of `now` (loop time in seconds).
        """
        is_empty = consumer.get("num_pending") == 0 == consumer.get("num_ack_pending")
        # A queue that was deleted and created again may have delivered as much as the old one.
        looks = consumer.get("created"), consumer.get("delivered", {}).get("consumer_seq")
        seen, since = self._seen.get(queue, (None, now))
        if not is_empty or looks != seen:
            since = now
        self._seen[queue] = looks, since
        return now - since

    def keep(self, queues: Container[str]) -> None:
        """Forget all queues but these."""
        self._seen = {queue: seen for queue, seen in self._seen.items() if queue in queues}
