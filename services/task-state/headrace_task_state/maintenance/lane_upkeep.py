"""Lanes that nobody uses any more are let go: each costs every worker of its agent requests."""

import asyncio
import logging
import random
from collections.abc import Container

from headrace.jetstream.connection import Bus
from headrace.jetstream.consumers import consumers, delete_consumer
from headrace.model.errors import BusUnavailable
from headrace.model.events import Json
from headrace.model.queues import agent_of
from headrace.tasks.queues import UNUSED

_log = logging.getLogger(__name__)

EVERY = 60.0
"""Seconds between looks."""


class LaneUpkeep:
    """Looks at the work queue's consumers; that every replica does so is harmless."""

    def __init__(self, bus: Bus) -> None:
        """Look on `bus`."""
        self._bus, self._stream = bus, bus.streams.runs
        self._disuse = Disuse()

    async def run(self) -> None:
        """Look until cancelled."""
        # Not all replicas at a time.
        await asyncio.sleep(random.uniform(0, EVERY))  # noqa: S311
        while True:
            try:
                await self.look()
            except BusUnavailable as trouble:
                _log.info("unused lanes are left for later: %s", trouble)
            await asyncio.sleep(EVERY)

    async def look(self) -> None:
        """Let go of lanes that were empty and handed nothing out for `UNUSED` seconds.

        Raises:
            BusUnavailable: JetStream does not answer.
        """
        now = asyncio.get_running_loop().time()
        lanes = await self._lanes()
        self._disuse.keep(lanes)
        for name, consumer in lanes.items():
            if self._disuse.seconds(name, consumer, now) >= UNUSED:
                _log.info("the lane %s is used no more", name)
                await delete_consumer(self._bus, self._stream, name)

    async def _lanes(self) -> dict[str, Json]:
        """Return JetStream's ConsumerInfo of every lane that is not an agent's first."""
        found = await consumers(self._bus, self._stream)
        return {one["name"]: one for one in found if agent_of(one["name"]) != one["name"]}


class Disuse:
    """What lanes looked like when they were last seen to be used, and when that was."""

    def __init__(self) -> None:
        """Know of no lane."""
        self._seen: dict[str, tuple[object, float]] = {}

    def seconds(self, lane: str, consumer: Json, now: float) -> float:
        """Return for how long the lane is known to be unused, in seconds.

        `consumer` is JetStream's ConsumerInfo of it, as of `now` (loop time in seconds).
        """
        is_empty = consumer.get("num_pending") == 0 == consumer.get("num_ack_pending")
        # A lane that was let go and made again may have handed out as much as the one before.
        looks = consumer.get("created"), consumer.get("delivered", {}).get("consumer_seq")
        seen, since = self._seen.get(lane, (None, now))
        if not is_empty or looks != seen:
            since = now
        self._seen[lane] = looks, since
        return now - since

    def keep(self, lanes: Container[str]) -> None:
        """Forget all lanes but these."""
        self._seen = {lane: seen for lane, seen in self._seen.items() if lane in lanes}
