"""The last entries of a range's logs, read shard by shard.

While a consumer of last messages is created, nats-server 2.15 searches all blocks for them and
stores nothing: for 0.35 s with 60,000 logs. So each shard has its own consumer (0.02 s), and the
blocks are read into the server's memory first.
"""

import asyncio
import math
from collections.abc import AsyncIterator

from headrace.jetstream.api import Json, get_message, stream_info, stream_state, until_answered
from headrace.jetstream.connection import Bus
from headrace.model.subjects import shards_of_stream
from headrace_task_state.projector.consumer import MOST, Arrival, Consumer, ConsumerLost
from headrace_task_state.projector.summaries import TooLittle
from headrace_task_state.store import Range

LEAST_MESSAGES = 5_000
"""Minimum messages of a stream for reading last entries. Fewer are read in a second or two, and
nothing has to be completed afterwards."""

MOST_LOGS = 4_000_000
"""Maximum logs of a stream; with more, creating a consumer takes too long."""

MOST_BYTES = 1024 * 1024
"""Maximum bytes of entries in one batch, each of which may be of another task."""

_BLOCK = 2 * 1024 * 1024
"""Distance in bytes of the messages read to load all blocks; nats-server's have 4 or 8 MB."""

_TIMEOUT = 2.0

_LOOK = 0.05

_SILENT = 5
"""Failed waits for a shard's next entry after which the shard is given up."""

_SETTLED = 30.0
"""Seconds for all shards to show that no entry is missing, once their entries have arrived."""


class LastEntries:
    """The last entries of a range's logs, each as of the start of its shard."""

    def __init__(self, bus: Bus, place: Range, name: str) -> None:
        """Read the stream of `place`; consumers' names begin with `name`, which is unused."""
        self._bus, self._place, self._name = bus, place, name
        self._stream = bus.streams.events(place.stream)
        self._open: dict[int, Consumer] = {}
        self._ends: dict[int, int] = {}
        """Per shard, the stream's end when its last entries had been determined."""
        self.head = 0
        """Stream sequence up to which no shard misses an entry at the end."""
        self.reached: dict[int, int] = {}
        """Per shard, the stream sequence up to which everything has been yielded."""

    async def open(self) -> None:
        """Find the stream's end, and make the server read its blocks.

        Raises:
            TooLittle: there are too many logs, or too few messages for this to pay off.
            BusUnavailable: no leader answers.
        """
        state: Json = (await until_answered(self._bus, self._info, _TIMEOUT))["state"]
        if state.get("num_subjects", 0) > MOST_LOGS:
            raise TooLittle(f"{state['num_subjects']} logs are too many for a summary")
        if 0 < int(state["messages"]) < LEAST_MESSAGES:
            raise TooLittle(f"{state['messages']} messages are too few for a summary")
        self.head = int(state["last_seq"])
        step = max(int(state["messages"]) * _BLOCK // max(int(state["bytes"]), 1), 1)
        for sequence in range(int(state["first_seq"]), self.head + 1, step):
            await get_message(self._bus, self._stream, {"seq": sequence, "next_by_subj": ">"})

    async def _info(self) -> Json:
        return await stream_info(self._bus, self._stream, timeout=_TIMEOUT)

    async def batches(self) -> AsyncIterator[list[Arrival]]:
        """Yield the entries, ordered within each shard; at the end, all up to `head` were yielded.

        Raises:
            ConsumerLost: start again.
            BusUnavailable: no leader answers.
        """
        for shard in shards_of_stream(self._place.stream) if self.head else ():
            name = f"{self._name}-{shard}"
            consumer = Consumer(self._bus, self._stream, name, last_per_subject=True)
            self._open[shard] = consumer
            number = await consumer.open_last_per_subject(self._bus.subjects.shard_events(shard))
            # The last entry of a log that went on since `open` lies beyond `head`, and is the only
            # one of that log. So the shard is complete only when that one has been taken too.
            state = await stream_state(self._bus, self._stream, _TIMEOUT)
            self._ends[shard] = max(self.head, state.last)
            silent = 0
            while number > 0 and shard in self._open:
                arrivals = await consumer.fetch(MOST, MOST_BYTES)
                silent = 0 if arrivals else silent + 1
                if silent > _SILENT:
                    raise ConsumerLost("the consumer delivers no more messages")
                number -= len(arrivals)
                yield arrivals
                await self._settle()
        deadline = asyncio.get_running_loop().time() + _SETTLED
        while self._open:
            for consumer in list(self._open.values()):
                if consumer.waiting:
                    yield await consumer.fetch(MOST, MOST_BYTES)
            await asyncio.sleep(_LOOK)
            await self._settle()
            if asyncio.get_running_loop().time() > deadline:
                raise ConsumerLost("some shards did not confirm that they are complete")

    async def _settle(self) -> None:
        """Close the consumers of shards that miss no entry up to their end."""
        for shard, consumer in list(self._open.items()):
            # One that is being opened has no end yet.
            if (reached := consumer.complete_to) >= self._ends.get(shard, math.inf):
                del self._open[shard]
                self.reached[shard] = reached
                await consumer.close()

    async def close(self) -> None:
        """Close all consumers."""
        for consumer in self._open.values():
            await consumer.close()
