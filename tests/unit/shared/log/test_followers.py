"""What a follower learns from live messages, without waiting for a check."""

import asyncio

from headrace.log import Follower, TailRule
from headrace.log.tombstone import put_tombstone
from headrace.model.entry import Entry
from headrace.model.errors import LogLost, LogTooNew, TaskForgotten
from tests.support.memory_bus import memory_bus
from tests.support.task_log import TaskLog


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
