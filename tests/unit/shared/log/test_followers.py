"""What a follower learns from live messages, without waiting for a check."""

import asyncio
from collections.abc import AsyncIterator

import pytest
from nats.aio.msg import Msg

from headrace.jetstream.connection import Bus
from headrace.jetstream.headers import EXPECTED
from headrace.log import Follower, TailRule, follow
from headrace.log.read import LogMessage, from_message, replay_stored
from headrace.log.tombstone import put_tombstone
from headrace.model.entry import Entry
from headrace.model.errors import LogLost, LogTooNew, TaskForgotten
from headrace.model.events import TextChunks
from headrace.model.task import COMPLETED, TaskKey
from tests.support.memory_bus import memory_bus
from tests.support.task_log import TaskLog, following
from tests.support.waiting import eventually


async def test_a_deletion_that_is_seen_live_is_told_at_once_and_once() -> None:
    entries, losses, told = list[Entry](), list[LogLost | LogTooNew](), asyncio.Event()

    def lose(loss: LogLost | LogTooNew) -> None:
        losses.append(loss)
        told.set()

    async with memory_bus() as bus:
        log = TaskLog(bus)
        await log.begin()
        rule = TailRule(bus)  # It is not started, so nothing is checked.
        follower = Follower(bus, rule, log.key, entries.append, lose)
        await follower.subscribe()
        follower.begin(log.writer.sequence)
        await log.append("text")
        await put_tombstone(bus, log.key, "owner", "deleted", 60.0, log.writer.sequence)
        await asyncio.wait_for(told.wait(), 60)
        assert follower not in rule._watched
        follower.stop()
        await rule.stop()
    assert [entry.generation for entry in entries] == [2]
    assert [type(loss) for loss in losses] == [TaskForgotten]


async def test_what_comes_before_a_follower_begins_is_delivered_then_and_without_a_check() -> None:
    entries, came = list[Entry](), asyncio.Event()

    def deliver(entry: Entry) -> None:
        entries.append(entry)
        came.set()

    async with memory_bus() as bus:
        log = TaskLog(bus)
        await log.begin()
        begin, rule = (
            log.writer.sequence,
            TailRule(bus),
        )  # It is not started, so nothing is checked.
        follower = Follower(bus, rule, log.key, deliver, lambda _: None)
        await follower.subscribe()
        await log.append("text")
        for _ in range(100):
            await asyncio.sleep(0)
        assert entries == []
        follower.begin(begin)
        await asyncio.wait_for(came.wait(), 60)
        follower.stop()
        await rule.stop()
    assert [entry.generation for entry in entries] == [2]


async def test_a_live_message_that_comes_while_it_is_read_is_delivered_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    entries, losses, live = list[Entry](), list[Exception](), list[Msg]()
    has_read, goes_on = asyncio.Event(), asyncio.Event()

    async def replay(
        bus: Bus, key: TaskKey, after: int, head: int
    ) -> AsyncIterator[list[LogMessage]]:
        async for batch in replay_stored(bus, key, after, head):
            has_read.set()
            await goes_on.wait()
            yield batch

    async with memory_bus() as bus:
        log, rule = TaskLog(bus), TailRule(bus)
        await bus.listen(bus.subjects.live(log.key), live.append)
        await log.begin()
        begin = log.writer.sequence
        await log.append("text")
        monkeypatch.setattr(follow, "replay_stored", replay)
        follower = Follower(bus, rule, log.key, entries.append, losses.append)
        await follower.subscribe()
        follower.begin(begin)
        follower.tail_is(log.writer.sequence)
        await asyncio.wait_for(has_read.wait(), 60)
        assert len(live) == 2
        follower._on_live(live[1])
        goes_on.set()
        await log.append("more")
        await eventually(lambda: asyncio.sleep(0, len(entries) == 2), "both are delivered")
        follower.stop()
        await rule.stop()
    assert [entry.generation for entry in entries] == [2, 3]
    assert losses == []


@pytest.mark.parametrize(
    ("text", "is_entry", "wholly_read"),
    [
        (b"good", True, 1),
        (b'bad"', False, 3),
        (b"bad\\", False, 3),
        (b"bad\nline", False, 3),
        (b"bad\r", False, 3),
        (b"bad\xff", False, 3),
        (b"mended \\ud800", True, 2),
    ],
)
async def test_between_tokens_only_entries_are_delivered(
    text: bytes, wholly_read: int, *, is_entry: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    entries, losses = list[Entry](), list[LogLost | LogTooNew]()
    read_wholly = list[Msg]()

    def read(msg: Msg, event: str) -> LogMessage:
        read_wholly.append(msg)
        return from_message(msg, event)

    async with memory_bus() as bus:
        log = TaskLog(bus)
        chunks = TextChunks(log.key.task, "context", "answer", {})
        await log.begin()
        monkeypatch.setattr(follow, "from_message", read)
        follower = Follower(bus, TailRule(bus), log.key, entries.append, losses.append)
        await follower.subscribe()
        follower.begin(log.writer.sequence)

        async def append_tokens() -> None:
            for _ in range(3):
                stamp = log.stamp()._replace(attempt=1)
                await log.writer.append([chunks.draft("token")], stamp)

        await append_tokens()
        stamp, expected = log.stamp()._replace(attempt=1), str(log.writer.sequence)
        line = chunks.draft("token").line(stamp.generation).replace(b"token", text)
        await log.junk(stamp.headers() | {EXPECTED: expected}, line)
        if is_entry:
            log.writer.generation += 1
            log.writer.sequence += 1
        await append_tokens()
        follower.stop()
        stored = await log.read()
    assert (entries, losses) == (stored[1:], [])
    assert len(entries) == 6 + is_entry
    assert len(read_wholly) == wholly_read


async def test_tokens_behind_the_end_are_not_delivered() -> None:
    async with memory_bus() as bus:
        log, rule = TaskLog(bus), TailRule(bus)
        await log.begin()
        async with following(bus, rule, log.key, log.writer.sequence) as reading:
            await log.append("done", state=COMPLETED)
            chunks = TextChunks(log.key.task, "context", "answer", {})
            stamp = log.stamp()._replace(attempt=1)
            for _ in range(3):
                expected = str(log.writer.sequence)
                line = chunks.draft("token").line(stamp.generation)
                log.writer.sequence = await log.junk(stamp.headers() | {EXPECTED: expected}, line)
            await eventually(
                lambda: asyncio.sleep(0, reading.follower.sequence == log.writer.sequence),
                "all have been read",
            )
        assert reading.generations == [2]
        assert reading.losses == []
        await rule.stop()


async def test_a_follower_that_rests_forgets_only_what_made_tokens_cheap() -> None:
    async with memory_bus() as bus:
        log, rule = TaskLog(bus), TailRule(bus)
        await log.begin()
        chunks = TextChunks(log.key.task, "context", "answer", {})

        async def token() -> None:
            stamp = log.stamp()._replace(attempt=1)
            await log.writer.append([chunks.draft("token")], stamp)

        async with following(bus, rule, log.key, log.writer.sequence) as reading:
            await token()
            assert await reading.until(2) == [2]
            remembered = list[bool]()
            for silence in (60.0, 0.0):
                reading.follower.rest(silence)
                remembered.append(reading.follower._tokens is not None)
            assert remembered == [True, False]
            await token()
            await token()
            assert await reading.until(4) == [2, 3, 4]
        await rule.stop()
