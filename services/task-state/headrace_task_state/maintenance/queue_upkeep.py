"""Delete unused queues, which cost workers requests, and what queues have finished."""

import asyncio
import logging
from collections.abc import Container

from headrace.background import check_regularly
from headrace.jetstream.connection import Bus
from headrace.jetstream.consumers import consumer_info, consumers, delete_consumer
from headrace.jetstream.durables import of_pushes
from headrace.jetstream.finished_messages import remove_finished
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
        await check_regularly(self._check, self._timing.queue_interval, "the queues")

    async def _check(self) -> None:
        await self.look()
        await self.remove_finished()

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
        """Remove runs and webhooks' messages that are finished, but that nats-server has again.

        A run that is back would have JetStream refuse another request for it.

        Raises:
            BusUnavailable: JetStream does not answer.
        """
        streams, subjects = self._bus.streams, self._bus.subjects
        queues = [
            of_pushes(subjects, number).durable_name or ""
            for number in range(self._bus.settings.event_streams)
        ]
        pushing = [await consumer_info(self._bus, streams.pushes, name) for name in queues]
        await remove_finished(self._bus, streams.pushes, pushing)
        await remove_finished(self._bus, streams.runs, await consumers(self._bus, streams.runs))

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
