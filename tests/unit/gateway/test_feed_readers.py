"""What a reader of a feed gets at its end, after a loss, and when it leaves."""

import asyncio
from collections.abc import AsyncIterator
from typing import cast

import pytest

from headrace.jetstream.connection import Bus
from headrace.log import TailRule, find_generation, last_entry
from headrace.model.entry import Entry
from headrace.model.errors import BusUnavailable, LogLost
from headrace.model.task import COMPLETED, WORKING, TaskKey
from headrace_gateway import feeds as feeds_module
from headrace_gateway.background_work import BackgroundWork
from headrace_gateway.feeds import Feed, FeedReader, Feeds
from tests.support.memory_bus import memory_bus
from tests.support.task_log import TaskLog
from tests.support.waiting import eventually


@pytest.fixture
async def bus() -> AsyncIterator[Bus]:
    async with memory_bus() as bus:
        yield bus


@pytest.fixture
async def feeds(bus: Bus) -> AsyncIterator[Feeds]:
    rule = TailRule(bus)
    await rule.start()
    yield Feeds(bus, rule, 20_000, BackgroundWork())
    await rule.stop()


@pytest.mark.parametrize("state", [WORKING, COMPLETED])
async def test_a_log_that_is_lost_after_its_end_is_no_loss_for_who_has_read_it(
    bus: Bus, feeds: Feeds, state: str
) -> None:
    log = TaskLog(bus)
    await log.begin()
    await log.writer.append([log.text_event("text", state)], log.stamp(state))
    async with await feeds.open(log.key) as feed:
        reader, behind = feed.reader(1), feed.reader(1)
        assert len(reader.read_ring() or []) == 1
        feed.loss = LogLost("gone")
        assert len(behind.read_ring() or []) == 1
        if state == COMPLETED:
            assert reader.read_ring() == []
            assert reader.at_end
        else:
            with pytest.raises(LogLost, match="gone"):
                reader.read_ring()


class WatchedFeed:
    """A feed, as far as a waiting reader uses it."""

    def __init__(self) -> None:
        self.waiting: set[FeedReader] = set()

    def wake_on_change(self, reader: FeedReader) -> None:
        self.waiting.add(reader)

    def remove_waiter(self, reader: FeedReader) -> None:
        self.waiting.discard(reader)


@pytest.mark.parametrize("is_cancelled", [True, False])
async def test_a_feed_forgets_a_reader_that_waits_no_more(*, is_cancelled: bool) -> None:
    feed = WatchedFeed()
    reader = FeedReader(cast("Feed", feed), 1)
    waiting = asyncio.create_task(reader.wait())
    await asyncio.sleep(0)
    assert feed.waiting == {reader}
    if is_cancelled:
        waiting.cancel()
    else:
        reader.changed()
    await asyncio.gather(waiting, return_exceptions=True)
    assert feed.waiting == set()
    assert waiting.cancelled() is is_cancelled


async def test_a_log_that_goes_while_it_is_read_is_a_loss_and_no_hang(
    bus: Bus, feeds: Feeds, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def read_nothing(*_: object, **__: object) -> list[object]:
        await asyncio.sleep(0)
        return []

    log = TaskLog(bus)
    await log.begin()
    await log.append("kept")
    async with await feeds.open(log.key) as feed:
        feed.ring.clear()
        monkeypatch.setattr(feeds_module, "read_on", read_nothing)
        with pytest.raises(LogLost, match="gone after generation 1"):
            await asyncio.wait_for(feed.reader(1).read(), 60)


async def test_a_feed_that_is_silent_keeps_its_last_entry_and_reads_the_others_from_the_log(
    bus: Bus,
) -> None:
    feeds = Feeds(bus, TailRule(bus), 20_000, BackgroundWork(), silence=0.01)

    async def dropped() -> bool:
        return feeds.memory == 0

    log = TaskLog(bus)
    await log.begin()
    await log.append("kept")
    async with await feeds.open(log.key) as feed:
        await eventually(dropped, "its entries are dropped")
        assert feed.last is not None
        assert (feed.last.generation, feed.ring.after(1, 1000)) == (2, None)
        assert [block.entry.generation for block in await feed.reader(0).read()] == [1, 2]
        current = feed.reader(2)
        await log.append("more")
        assert [block.entry.generation for block in await current.read()] == [3]


async def test_a_change_wakes_only_readers_that_wait(bus: Bus, feeds: Feeds) -> None:
    log = TaskLog(bus)
    await log.begin()
    changes = 0

    def serve() -> bool:
        nonlocal changes
        changes += 1
        return True

    async with await feeds.open(log.key) as feed:
        reader = feed.reader(1)
        waiting = asyncio.create_task(reader.wait(serve))
        await asyncio.sleep(0)
        feed.notify()
        assert changes == 1
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        assert reader not in feed._waiting


@pytest.mark.parametrize(("after", "searches"), [(0, 0), (2, 1), (5, 1)])
async def test_a_reader_behind_the_ring_finds_its_place_in_the_log_once(
    bus: Bus, feeds: Feeds, monkeypatch: pytest.MonkeyPatch, after: int, searches: int
) -> None:
    searched = list[int]()

    async def find(bus: Bus, key: TaskKey, generation: int, last: Entry) -> int:
        searched.append(generation)
        return await find_generation(bus, key, generation, last)

    monkeypatch.setattr(feeds_module, "find_generation", find)
    log = TaskLog(bus)
    await log.begin()
    for number in range(5):
        await log.append(f"text {number}")
    async with await feeds.open(log.key) as feed:
        feed.ring.clear()
        reader, current = feed.reader(after), feed.reader(6)
        read = [block.entry.generation for block in await reader.read()]
        await log.append("more")
        await current.read()
        feed.ring.clear()
        read += [block.entry.generation for block in await reader.read()]
    assert read == [*range(after + 1, 8)]
    assert searched == [after + 1] * searches


@pytest.mark.parametrize("is_known", [True, False], ids=["its end is known", "it is read"])
async def test_a_feed_that_fails_to_open_behind_an_entry_follows_nothing(
    bus: Bus, feeds: Feeds, monkeypatch: pytest.MonkeyPatch, *, is_known: bool
) -> None:
    log, opened = TaskLog(bus), list[Feed]()
    await log.begin()
    last = await last_entry(bus, log.key)

    async def fail(feed: Feed, *_: object) -> None:
        opened.append(feed)
        raise BusUnavailable("no answer")

    monkeypatch.setattr(Feed, "open", fail)
    with pytest.raises(BusUnavailable, match="no answer"):
        await feeds.open_after(log.key, [last] if last and is_known else [])
    assert [feed.users for feed in opened] == [0]
    assert len(feeds) == 0
