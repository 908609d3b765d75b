"""Reading a log that grows faster than it is read: the reader comes back to the live copies."""

import asyncio
import secrets
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from headrace.jetstream import direct_get as direct
from headrace.jetstream.connection import Bus
from headrace.jetstream.direct_get import DirectAnswer
from headrace.log import TailRule, read
from headrace.log.follow import ReorderBuffer
from headrace.log.read import LogMessage
from headrace.settings import BusSettings
from tests.support.servers import NatsProcess
from tests.support.task_log import TaskLog, following, generations

_READ = 0.1
"""Seconds that a read takes: several events come meanwhile."""


@pytest.fixture
async def bus(nats_server: NatsProcess) -> AsyncIterator[Bus]:
    name = f"slow{secrets.token_hex(4)}"
    bus = Bus(BusSettings(nats_url=nats_server.url, prefix=name, stream_prefix=name))
    await bus.connect("test")
    yield bus
    await bus.close()


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Make each read slow, and count them."""
    made: list[int] = []
    fast: Callable[..., Any] = direct.direct_get

    async def slow(*request: object) -> DirectAnswer[LogMessage]:
        made.append(len(made))
        await asyncio.sleep(_READ)
        answer: DirectAnswer[LogMessage] = await fast(*request)
        await asyncio.sleep(_READ)
        return answer

    monkeypatch.setattr(read, "direct_get", slow)
    return made


async def growing(log: TaskLog) -> None:
    while True:
        await log.grow(log.writer.generation + 1)
        await asyncio.sleep(_READ / 10)


async def test_a_follower_that_had_to_read_goes_on_live(
    bus: Bus, rule: TailRule, reads: list[int]
) -> None:
    log = TaskLog(bus)
    await log.begin()
    await log.grow(20)
    writing = asyncio.create_task(growing(log))
    async with following(bus, rule, log.key) as reading:
        seen = await reading.until(60)
        # A busy machine may have it read once more: each read lasts for 20 of them.
        async with asyncio.timeout(60):
            made = -1
            while made != len(reads):
                made = len(reads)
                seen = await reading.until(len(seen) + 90)
        writing.cancel()
    assert seen == list(range(1, len(seen) + 1))


async def test_a_follower_that_keeps_little_reads_the_rest(
    bus: Bus, rule: TailRule, reads: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headrace.log.follow.ReorderBuffer", lambda: ReorderBuffer(limit=700))
    log = TaskLog(bus)
    await log.begin()
    await log.grow(20)
    writing = asyncio.create_task(growing(log))
    async with following(bus, rule, log.key) as reading:
        await reading.until(60)
        writing.cancel()
        await asyncio.gather(writing, return_exceptions=True)
        seen = await reading.until(generations(await log.read())[-1])
    assert seen == list(range(1, len(seen) + 1))
    assert len(reads) > 1


async def test_what_live_copies_followed_on_may_be_trimmed_while_it_is_read(
    bus: Bus, rule: TailRule, reads: list[int]
) -> None:
    log = TaskLog(bus)
    await log.begin()
    await log.grow(20)
    async with following(bus, rule, log.key) as reading:
        await log.append("the last")
        await log.purge(keep=1)
        assert "gone" in str(await reading.until_lost())
    assert reads
