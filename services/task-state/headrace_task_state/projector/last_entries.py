"""Reading the last entry of each log of a range, shard by shard.

While a consumer of last messages is made, nats-server 2.15 looks for them in all blocks, and stores
nothing: for 0.35 s with 60,000 logs. So a consumer is made for each shard (0.02 s), and the blocks
are read into the server's memory before.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack

from headrace.jetstream.api import Json, get_message, stream_info, until_answered
from headrace.jetstream.connection import Bus
from headrace.model.subjects import shards_of_stream
from headrace_task_state.projector.arrival import Arrival
from headrace_task_state.projector.consumer import MOST, MOST_BYTES, Consumer, ConsumerLost
from headrace_task_state.projector.summaries import TooLittle
from headrace_task_state.ranges import Range

MOST_LOGS = 4_000_000
"""Logs of a stream beyond which making a consumer takes too long."""

_BLOCK = 2 * 1024 * 1024
"""Bytes of which one is read so that all blocks have been: nats-server's have 4 or 8 MB."""

_LOOK = 0.05
_TIMEOUT = 2.0
_SILENCE = 10.0
"""Seconds after which a shard that should have more is given up."""


class LastEntries:
    """The last entries of a range's logs, each as of when its shard was begun."""

    def __init__(self, bus: Bus, place: Range, name: str) -> None:
        """Read the stream of `place`; consumers' names begin with `name`, which is new."""
        self._bus, self._place, self._name = bus, place, name
        self._stream = bus.streams.events(place.stream)
        self._shards: dict[int, _Shard] = {}
        self._consumers = AsyncExitStack()
        self.head = 0
        """Stream sequence up to which nothing is missing in any shard."""

    async def open(self) -> None:
        """Look how far the stream goes, and have the server read it.

        Raises:
            TooLittle: there are too many logs to do so.
            BusUnavailable: no leader answers.
        """
        state: Json = (await until_answered(self._bus, self._info, _TIMEOUT))["state"]
        if state.get("num_subjects", 0) > MOST_LOGS:
            raise TooLittle(f"{state['num_subjects']} logs are too many to look for last entries")
        self.head = int(state["last_seq"])
        step = max(int(state["messages"]) * _BLOCK // max(int(state["bytes"]), 1), 1)
        for sequence in range(int(state["first_seq"]), self.head + 1, step):
            await get_message(self._bus, self._stream, {"seq": sequence, "next_by_subj": ">"})

    async def _info(self) -> Json:
        return await stream_info(self._bus, self._stream, timeout=_TIMEOUT)

    async def batches(self) -> AsyncIterator[list[Arrival]]:
        """Yield them, those of a shard in order; at the end, all up to `head` have come.

        Raises:
            ConsumerLost: begin again.
            BusUnavailable: no leader answers.
        """
        for shard in shards_of_stream(self._place.stream):
            name = f"{self._name}-{shard}"
            consumer = Consumer(self._bus, self._stream, name, last_per_subject=True)
            self._consumers.push_async_callback(consumer.close)
            number = await consumer.open_last_per_subject(self._bus.subjects.shard_events(shard))
            found = self._shards[shard] = _Shard(consumer)
            while number > 0 and found.reached < self.head:
                number -= len(arrivals := await found.take())
                yield arrivals
        for found in self._shards.values():
            while found.reached < self.head:
                if found.consumer.waiting:
                    yield await found.take()
                await asyncio.sleep(_LOOK)
                found.check()

    def reached(self) -> dict[int, int]:
        """Return up to which stream sequence all of each shard has been yielded."""
        return {shard: found.reached for shard, found in self._shards.items()}

    async def close(self) -> None:
        """Give all consumers back."""
        await self._consumers.aclose()


class _Shard:
    def __init__(self, consumer: Consumer) -> None:
        self.consumer, self._taken = consumer, 0
        self._loop = asyncio.get_running_loop()
        self._heard = self._loop.time()

    @property
    def reached(self) -> int:
        """Up to where all has been taken."""
        return self._taken if self.consumer.waiting else max(self._taken, self.consumer.examined)

    async def take(self) -> list[Arrival]:
        arrivals = await self.consumer.take(MOST, MOST_BYTES)
        if arrivals:
            self._taken, self._heard = arrivals[-1].sequence, self._loop.time()
        else:
            self.check()
        return arrivals

    def check(self) -> None:
        """Raise ConsumerLost if nothing has come for long."""
        if self._loop.time() - self._heard > _SILENCE:
            raise ConsumerLost("it hands out nothing more")
