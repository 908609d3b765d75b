"""Reading the last entry of each log of a range, shard by shard.

While a consumer of last messages is made, nats-server 2.15 looks for them in all blocks, and stores
nothing: for 0.35 s with 60,000 logs. So a consumer is made for each shard (0.02 s), and the blocks
are read into the server's memory before.
"""

import asyncio
from collections.abc import AsyncIterator

from headrace.jetstream.api import Json, get_message, stream_info, until_answered
from headrace.jetstream.connection import Bus
from headrace.model.subjects import shards_of_stream
from headrace_task_state.projector.arrival import Arrival
from headrace_task_state.projector.consumer import MOST, MOST_BYTES, Consumer, ConsumerLost
from headrace_task_state.projector.summaries import TooLittle
from headrace_task_state.ranges import Range

LEAST_MESSAGES = 5_000
"""Messages of a stream from which on last entries are worth it: fewer are read in a second or two,
and nothing has to be completed afterwards."""

MOST_LOGS = 4_000_000
"""Logs of a stream beyond which making a consumer takes too long."""

_BLOCK = 2 * 1024 * 1024
"""Bytes of which one is read so that all blocks have been: nats-server's have 4 or 8 MB."""

_LOOK = 0.05
_TIMEOUT = 2.0
_SILENT = 5
"""Waits for a shard's next entry in vain after which it is given up."""

_SETTLED = 30.0
"""Seconds that all shards have to show that nothing is missing, when their entries have come."""


class LastEntries:
    """The last entries of a range's logs, each as of when its shard was begun."""

    def __init__(self, bus: Bus, place: Range, name: str) -> None:
        """Read the stream of `place`; consumers' names begin with `name`, which is new."""
        self._bus, self._place, self._name = bus, place, name
        self._stream = bus.streams.events(place.stream)
        self._open: dict[int, Consumer] = {}
        self.head = 0
        """Stream sequence up to which nothing is missing in any shard at the end."""
        self.reached: dict[int, int] = {}
        """Stream sequence up to which all of each shard has been yielded."""

    async def open(self) -> None:
        """Look how far the stream goes, and have the server read it.

        Raises:
            TooLittle: there are too many logs to do so, or too few messages to gain by it.
            BusUnavailable: no leader answers.
        """
        state: Json = (await until_answered(self._bus, self._info, _TIMEOUT))["state"]
        if state.get("num_subjects", 0) > MOST_LOGS:
            raise TooLittle(f"{state['num_subjects']} logs are too many to look for last entries")
        if 0 < int(state["messages"]) < LEAST_MESSAGES:
            raise TooLittle(f"there are {state['messages']} messages")
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
        for shard in shards_of_stream(self._place.stream) if self.head else ():
            name = f"{self._name}-{shard}"
            consumer = Consumer(self._bus, self._stream, name, last_per_subject=True)
            self._open[shard] = consumer
            number = await consumer.open_last_per_subject(self._bus.subjects.shard_events(shard))
            silent = 0
            while number > 0 and shard in self._open:
                arrivals = await consumer.take(MOST, MOST_BYTES)
                silent = 0 if arrivals else silent + 1
                if silent > _SILENT:
                    raise ConsumerLost("it hands out nothing more")
                number -= len(arrivals)
                yield arrivals
                await self._settle()
        deadline = asyncio.get_running_loop().time() + _SETTLED
        while self._open:
            for consumer in list(self._open.values()):
                if consumer.waiting:
                    yield await consumer.take(MOST, MOST_BYTES)
            await asyncio.sleep(_LOOK)
            await self._settle()
            if asyncio.get_running_loop().time() > deadline:
                raise ConsumerLost("shards do not show that nothing is missing")

    async def _settle(self) -> None:
        """Give back the consumers of shards of which nothing up to `head` is missing."""
        for shard, consumer in list(self._open.items()):
            if (reached := consumer.complete_to) >= self.head:
                del self._open[shard]
                self.reached[shard] = reached
                await consumer.close()

    async def close(self) -> None:
        """Give all consumers back."""
        for consumer in self._open.values():
            await consumer.close()
