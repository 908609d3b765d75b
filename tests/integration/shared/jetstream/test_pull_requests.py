"""Pulls of a durable consumer: what is requested, returned and left behind."""

import asyncio
import gc
import secrets
from collections.abc import AsyncIterator
from contextlib import suppress

import pytest
from nats.js.api import ConsumerConfig
from nats.js.errors import APIError, ServiceUnavailableError

from headrace.jetstream.connection import Bus
from headrace.jetstream.pull_requests import PullRequests
from tests.support.waiting import eventually, soon

_CONSUMER = "taker"
_LONG = 30.0
"""Seconds; no test waits for so long."""


class PulledStream:
    """A stream of the test's own, and the requests to its consumer, which has no message."""

    def __init__(self, bus: Bus) -> None:
        self.bus, self.name = bus, f"news{secrets.token_hex(4)}"
        self.pulls = PullRequests(bus.connection, self.name, _CONSUMER, bus.connection.new_inbox())

    async def make(self) -> None:
        await self.bus.js.add_stream(name=self.name, subjects=[self.name])
        config = ConsumerConfig(durable_name=_CONSUMER, filter_subject=self.name, ack_wait=60)
        await self.bus.js.add_consumer(self.name, config)
        await self.pulls.start()
        await eventually(self._answers, "the consumer has a leader")

    async def _answers(self) -> bool:
        with suppress(ServiceUnavailableError):
            return await self.pulls.fetch(3, 0.05) == []
        return False

    async def say(self, *bodies: bytes) -> None:
        for body in bodies:
            await self.bus.js.publish(self.name, body, headers={"Status": "408"})

    async def fetch(self) -> list[bytes]:
        return [msg.data for msg in await self.pulls.fetch(3, _LONG)]


@pytest.fixture
async def source(bus: Bus) -> AsyncIterator[PulledStream]:
    source = PulledStream(bus)
    await source.make()
    yield source
    await source.pulls.unsubscribe()
    await bus.js.delete_stream(source.name)


async def test_the_first_message_is_returned_alone_and_further_ones_in_batches(
    source: PulledStream,
) -> None:
    fetching = asyncio.ensure_future(source.fetch())
    await asyncio.sleep(0.05)
    await source.say(b"1", b"2", b"3", b"4", b"5")
    assert await fetching == [b"1"]
    assert await source.fetch() == [b"2", b"3", b"4"]
    assert await source.fetch() == [b"5"]


async def test_one_request_at_a_time_is_sent_and_waits_for_one_message(
    source: PulledStream,
) -> None:
    sent = source.bus.connection.stats["out_msgs"]
    for _ in range(5):
        assert await source.pulls.fetch(3, 0.01) == []
    assert source.bus.connection.stats["out_msgs"] - sent == 5
    fetching = asyncio.ensure_future(source.fetch())
    await asyncio.sleep(0.05)
    fetching.cancel()
    await source.say(b"1", b"2", b"3")

    async def is_given_one() -> bool:
        info = await source.bus.js.consumer_info(source.name, _CONSUMER)
        return (info.num_ack_pending, info.num_pending) == (1, 2)

    await eventually(is_given_one, "the open request is given one message")


async def test_a_message_that_comes_after_its_request_ended_is_returned(
    source: PulledStream,
) -> None:
    fetching = asyncio.ensure_future(source.fetch())
    await asyncio.sleep(0.05)
    fetching.cancel()
    await source.say(b"late")
    await soon(lambda: bool(source.pulls._arrived), "the message has come")
    assert await source.fetch() == [b"late"]


async def test_waits_without_messages_leave_no_cyclic_garbage(source: PulledStream) -> None:
    gc.collect()
    gc.disable()
    try:
        for _ in range(50):
            await source.pulls.fetch(3, 0.001)
        assert gc.collect() == 0
    finally:
        gc.enable()


async def test_a_consumer_that_is_deleted_ends_the_wait(source: PulledStream) -> None:
    fetching = asyncio.ensure_future(source.fetch())
    await asyncio.sleep(0.05)
    await source.bus.js.delete_consumer(source.name, _CONSUMER)
    with pytest.raises(APIError, match="Consumer Deleted"):
        await fetching
    with pytest.raises(ServiceUnavailableError):
        await source.fetch()
