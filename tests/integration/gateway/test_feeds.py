"""Feeds and event streams on a real nats-server: many clients, one subscription, no loss."""

import asyncio
import secrets
from collections.abc import AsyncIterator, MutableMapping
from dataclasses import dataclass, field
from typing import Any

import pytest
import pytest_asyncio

from headrace.jetstream.connection import Bus
from headrace.log import LogWriter, TailRule, last_entry
from headrace.log.tombstone import put_tombstone
from headrace.model import events
from headrace.model.entry import Stamp
from headrace.model.errors import BusUnavailable, LogLost, TaskForgotten, TaskUnknown
from headrace.model.task import (
    COMPLETED,
    INPUT_REQUIRED,
    SUBMITTED,
    WORKING,
    TaskKey,
    mint_log_id,
    mint_task_id,
)
from headrace.settings import BusSettings
from headrace_gateway.background_work import BackgroundWork
from headrace_gateway.feeds import Feed, FeedHolder, Feeds, HeldFeed
from headrace_gateway.server.open_requests import OpenRequests
from headrace_gateway.settings import GatewaySettings
from headrace_gateway.streaming.open_streams import OpenStreams
from headrace_gateway.streaming.renderer import SharedRenderer
from headrace_gateway.streaming.sse import LOG_LINES, HttpStream
from headrace_gateway.streaming.subscription import Subscriptions
from tests.support.servers import NatsProcess
from tests.support.waiting import eventually


@pytest_asyncio.fixture(loop_scope="module")
async def bus(nats_server: NatsProcess) -> AsyncIterator[Bus]:
    name = f"feeds{secrets.token_hex(4)}"
    bus = Bus(BusSettings(nats_url=nats_server.url, prefix=name, stream_prefix=name))
    await bus.connect("test")
    yield bus
    await bus.close()


@pytest_asyncio.fixture(loop_scope="module")
async def feeds(bus: Bus) -> AsyncIterator[Feeds]:
    rule = TailRule(bus)
    await rule.start()
    yield Feeds(bus, rule, 20_000, BackgroundWork())
    await rule.stop()


@dataclass
class Log:
    """Plays gateway and worker: writes a task's log."""

    bus: Bus
    key: TaskKey = field(default_factory=lambda: TaskKey("default", "a", mint_task_id(2)))
    id: str = field(default_factory=mint_log_id)

    def __post_init__(self) -> None:
        self.writer = LogWriter(self.bus, self.key)

    async def begin(self) -> None:
        message = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "hi"}]}
        await self.append([events.task_submitted(self.key.task, "c", message)], SUBMITTED)

    async def append(self, drafts: list[events.Draft], state: str = WORKING) -> None:
        stamp = Stamp(self.id, self.writer.generation + 1, "w", state, 1, 1, owner="anonymous")
        await self.writer.append(drafts, stamp)

    async def status(self, state: str) -> None:
        await self.append([events.status_update(self.key.task, "c", state)], state)

    async def chunks(self, batches: int, batch: int = 3) -> None:
        chunks = events.TextChunks(self.key.task, "c", "block", {})
        for _ in range(batches):
            await self.append([chunks.draft("some text ") for _ in range(batch)])


async def drain(feed: Feed, after: int) -> None:
    async for _ in feed.entries(after):
        pass


async def generations(feeds: Feeds, log: Log, after: int) -> list[int]:
    """Read a feed to its end as a client would; return the generations it saw."""
    seen: list[int] = []
    async with await feeds.open(log.key) as feed, asyncio.timeout(60):
        async for entries in feed.entries(after):
            for entry in entries:
                seen += range(max(entry.generation, after + 1), entry.last_generation + 1)
    return seen


async def test_a_fresh_feed_sees_the_log_from_its_first_event(bus: Bus, feeds: Feeds) -> None:
    log = Log(bus)
    async with await feeds.open_new(log.key) as feed:
        reading = asyncio.create_task(feed.reader(0).read())
        await log.begin()
        blocks = await asyncio.wait_for(reading, 60)
        assert [block.entry.generation for block in blocks] == [1]
    assert len(feeds) == 0


@dataclass
class Opened(FeedHolder):
    """A result with a feed."""

    held: HeldFeed


async def test_a_feed_is_open_as_long_as_one_of_its_holders(bus: Bus, feeds: Feeds) -> None:
    log = Log(bus)
    await log.begin()
    async with Opened(await feeds.open(log.key)) as opened:
        async with Opened(await feeds.open(log.key)) as other:
            assert other.feed is opened.feed
        assert len(feeds) == 1
        async with opened:  # Its end is the end of the same use.
            pass
        assert len(feeds) == 0
    assert not opened.feed.users


async def test_a_feed_that_is_handed_over_is_its_next_holders(bus: Bus, feeds: Feeds) -> None:
    log = Log(bus)
    await log.begin()
    async with Opened(await feeds.open(log.key)) as opened:
        following = Opened(opened.held.hand_over())
        with pytest.raises(RuntimeError, match="is over"):
            opened.held.hand_over()
    assert len(feeds) == 1
    async with following:
        assert following.feed is opened.feed
    assert len(feeds) == 0
    with pytest.raises(RuntimeError, match="is over"):
        following.held.hand_over()


async def test_a_feed_whose_last_entry_is_known_reads_nothing(
    bus: Bus, feeds: Feeds, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = Log(bus)
    await log.begin()
    last = await last_entry(bus, log.key)
    assert last is not None
    monkeypatch.delattr("headrace_gateway.feeds.last_entry")
    held = await feeds.open_after(log.key, [last])
    async with held as feed:
        reading = asyncio.create_task(feed.reader(1).read())
        await log.chunks(1)
        assert len(feeds) == 0
        following = held.hand_over()
    async with following, await feeds.open(log.key) as shared:
        assert shared is feed
        blocks = await asyncio.wait_for(reading, 60)
        assert [block.entry.generation for block in blocks] == [2]
    assert len(feeds) == 0


async def test_nobody_else_gets_a_feed_that_was_opened_behind_an_old_entry(
    bus: Bus, feeds: Feeds
) -> None:
    log = Log(bus)
    await log.begin()
    last = await last_entry(bus, log.key)
    assert last is not None
    await log.chunks(1)
    await log.status(COMPLETED)
    async with await feeds.open_after(log.key, [last]) as behind, await feeds.open(log.key) as feed:
        assert feed is not behind
        assert feed.ended
        async with await feeds.open_after(log.key, [last]) as other:
            assert other is feed, "who appends takes the feed that there is"
    assert len(feeds) == 0


async def test_many_clients_with_different_cursors_share_one_feed(bus: Bus, feeds: Feeds) -> None:
    log = Log(bus)
    await log.begin()
    await log.chunks(20)
    readers = [asyncio.create_task(generations(feeds, log, after)) for after in range(0, 61, 7)]

    async def all_read() -> bool:
        return len(feeds) == 1

    await eventually(all_read, "they share a feed")
    await log.chunks(200)
    await log.status(COMPLETED)
    for after, seen in zip(range(0, 61, 7), await asyncio.gather(*readers), strict=True):
        assert seen == list(range(after + 1, 1 + 660 + 1 + 1))
    assert len(feeds) == 0, "the last client's leaving closes the feed"


async def test_a_client_that_fell_out_of_the_ring_reads_the_log_and_rejoins(
    bus: Bus, feeds: Feeds
) -> None:
    log = Log(bus)
    await log.begin()
    async with await feeds.open(log.key) as feed:
        reader = feed.reader(0)
        seen = [block.entry.generation for block in await reader.read()]
        await log.chunks(400)  # far more than the ring of 20,000 bytes holds
        await log.status(COMPLETED)
        async with asyncio.timeout(60):
            while blocks := await reader.read():
                seen += [block.entry.generation for block in blocks]
    assert seen == [1, *range(2, 1202, 3), 1202]


async def test_many_large_watched_tasks_never_take_more_than_the_limit_of_all(bus: Bus) -> None:
    rule = TailRule(bus)
    await rule.start()
    feeds = Feeds(bus, rule, 1_000_000, BackgroundWork(), total_bytes=100_000)
    logs = [Log(bus) for _ in range(12)]
    await asyncio.gather(*(log.begin() for log in logs))
    readers = [asyncio.create_task(generations(feeds, log, 0)) for log in logs]
    taken = list[int]()

    async def write(log: Log) -> None:
        for _ in range(10):
            await log.chunks(1, batch=40)  # 8 KB
            taken.append(feeds.memory)
        await log.status(COMPLETED)

    await asyncio.gather(*map(write, logs))
    seen = await asyncio.wait_for(asyncio.gather(*readers), 60)
    await rule.stop()
    assert seen == [list(range(1, 403))] * len(logs)
    assert 50_000 < max(taken) <= 100_000, "of more than a million that were watched"
    assert feeds.memory == 0


async def test_a_feed_of_no_task_is_refused_for_all_who_wait(feeds: Feeds) -> None:
    key = TaskKey("default", "a", mint_task_id(0))
    waiting = [asyncio.create_task(feeds.open(key)) for _ in range(3)]
    results = await asyncio.gather(*waiting, return_exceptions=True)
    assert all(isinstance(result, TaskUnknown) for result in results)
    assert len(feeds) == 0


async def test_who_comes_just_as_a_feed_fails_to_open_is_not_left_with_it(feeds: Feeds) -> None:
    key, late = TaskKey("default", "a", mint_task_id(0)), list[asyncio.Task[HeldFeed]]()
    loop = asyncio.get_running_loop()
    first, waiting = (loop.create_task(feeds.open(key)) for _ in range(2))
    # Called before the one that waits hears that there is no such feed.
    first.add_done_callback(
        lambda _: late.append(asyncio.Task(feeds.open(key), loop=loop, eager_start=True))
    )
    await asyncio.wait([first, waiting])
    results = await asyncio.gather(first, waiting, *late, return_exceptions=True)
    assert [type(result) for result in results] == [TaskUnknown] * 3
    assert len(feeds) == 0


async def test_a_feed_that_cannot_begin_is_not_kept(bus: Bus, feeds: Feeds) -> None:
    await bus.close()
    with pytest.raises(BusUnavailable):
        await feeds.open_new(TaskKey("default", "a", mint_task_id(0)))
    assert len(feeds) == 0


async def test_a_log_purged_under_a_reader_is_lost_not_silent(bus: Bus, feeds: Feeds) -> None:
    log = Log(bus)
    await log.begin()
    await log.chunks(5)
    async with await feeds.open(log.key) as feed:
        await bus.js.purge_stream(bus.streams.events(0), subject=bus.subjects.event(log.key))
        with pytest.raises(LogLost):
            await asyncio.wait_for(drain(feed, feed.head), 60)


async def test_a_head_trimmed_by_retention_is_lost_not_a_hole(bus: Bus, feeds: Feeds) -> None:
    log = Log(bus)
    await log.begin()
    await log.chunks(5)
    await log.status(COMPLETED)
    await bus.js.purge_stream(bus.streams.events(0), subject=bus.subjects.event(log.key), keep=1)
    async with await feeds.open(log.key) as feed:
        with pytest.raises(LogLost):
            await asyncio.wait_for(drain(feed, 3), 60)


async def test_an_end_repeated_behind_a_hostile_entry_is_no_loss_for_who_reads_from_the_start(
    bus: Bus, feeds: Feeds
) -> None:
    log = Log(bus)
    await log.begin()
    await log.status(COMPLETED)
    end = await last_entry(bus, log.key)
    assert end is not None
    await log.status(WORKING)
    async with await feeds.open(log.key) as feed:
        assert feed.head == end.last_generation + 1
        await log.writer.repeat(end)

        async def is_delivered() -> bool:
            return feed.loss is not None

        await eventually(is_delivered, "the feed has received the repeated end")
        async with asyncio.timeout(60):
            seen = [each.generation async for entries in feed.entries(0) for each in entries]
        # A client that is slow to take its loss keeps the feed open; others are not left with it.
        async with await feeds.open(log.key) as other:
            assert (other.ended, other.head) == (True, end.last_generation)
    assert seen == [1, end.generation]
    assert len(feeds) == 0


async def test_a_deleted_task_is_reported_as_such_to_a_reader_that_is_behind(
    bus: Bus, feeds: Feeds
) -> None:
    log = Log(bus)
    await log.begin()
    await log.chunks(5)
    await log.status(COMPLETED)
    async with await feeds.open(log.key) as feed:
        await put_tombstone(bus, log.key, "anonymous", "deleted", 60, log.writer.sequence)
        await bus.js.purge_stream(
            bus.streams.events(0), subject=bus.subjects.event(log.key), keep=1
        )

        async def is_deleted() -> bool:
            return feed.loss is not None

        await eventually(is_deleted, "the feed has received the tombstone")
        with pytest.raises(TaskForgotten, match="has been deleted"):
            await asyncio.wait_for(drain(feed, 3), 60)


class Client:
    """An ASGI client that can stop reading."""

    def __init__(self) -> None:
        self.body = b""
        self.headers: dict[bytes, bytes] = {}
        self.done = False
        self.reads = asyncio.Event()
        self.reads.set()
        self.gone = asyncio.Event()
        self.commented = asyncio.Event()

    async def receive(self) -> dict[str, Any]:
        await self.gone.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: MutableMapping[str, Any]) -> None:
        await self.reads.wait()
        if message["type"] == "http.response.start":
            self.headers = dict(message["headers"])
        else:
            self.body += message["body"]
            if message["body"].startswith(b": keep-alive"):
                self.commented.set()
            self.done = not message["more_body"]

    def cursors(self) -> list[int]:
        lines = self.body.decode().split("\n")
        return [int(line.rpartition(":")[2]) for line in lines if line.startswith("id: ")]


@dataclass
class Streaming:
    """Event streams with a registry and short times."""

    feeds: Feeds
    bus: Bus

    def __post_init__(self) -> None:
        self.streams = OpenStreams()
        self.settings = GatewaySettings(keepalive=1.0, stall_timeout=2.0)

    async def stream(self, log: Log, client: Client, after: int = 0) -> None:
        held = await self.feeds.open(log.key)
        shared = Subscriptions(self.streams, OpenRequests(), self.settings)
        stream = HttpStream(shared, held, after, SharedRenderer(LOG_LINES))
        await stream({"type": "http"}, client.receive, client.send)


@pytest_asyncio.fixture(loop_scope="module")
async def streaming(bus: Bus, feeds: Feeds) -> AsyncIterator[Streaming]:
    streaming = Streaming(feeds, bus)
    streaming.streams.start()
    yield streaming
    await streaming.streams.stop()
    assert len(streaming.streams) == 0
    assert len(feeds) == 0


async def test_a_stream_ends_with_its_task(bus: Bus, streaming: Streaming) -> None:
    log, client = Log(bus), Client()
    await log.begin()
    serving = asyncio.create_task(streaming.stream(log, client))
    await log.chunks(10)
    await log.status(COMPLETED)
    await asyncio.wait_for(serving, 60)
    assert client.done
    assert client.cursors() == list(range(1, 33))
    assert client.headers[b"x-accel-buffering"] == b"no"


async def test_a_stream_ends_where_input_is_requested_and_another_goes_on(
    bus: Bus, streaming: Streaming
) -> None:
    log, first, second = Log(bus), Client(), Client()
    await log.begin()
    serving = asyncio.create_task(streaming.stream(log, first))
    await log.status(INPUT_REQUIRED)
    await asyncio.wait_for(serving, 60)
    assert first.cursors() == [1, 2]
    waiting = asyncio.create_task(streaming.stream(log, second, after=2))
    await asyncio.sleep(0.2)
    assert not waiting.done(), "at an interrupted task's end a stream waits"
    await log.status(COMPLETED)
    await asyncio.wait_for(waiting, 60)
    assert second.cursors() == [3]


async def test_a_silent_stream_carries_comments(bus: Bus, streaming: Streaming) -> None:
    log, client = Log(bus), Client()
    await log.begin()
    serving = asyncio.create_task(streaming.stream(log, client))
    await asyncio.wait_for(client.commented.wait(), 60)
    await log.status(COMPLETED)
    await asyncio.wait_for(serving, 60)
    assert client.cursors() == [1, 2]


async def test_a_client_that_takes_nothing_is_cut_off(bus: Bus, streaming: Streaming) -> None:
    log, client = Log(bus), Client()
    await log.begin()
    client.reads.clear()
    await asyncio.wait_for(streaming.stream(log, client), 60)
    assert not client.done


async def test_a_client_that_goes_away_ends_its_stream_only(bus: Bus, streaming: Streaming) -> None:
    log, leaving, staying = Log(bus), Client(), Client()
    await log.begin()
    serving = [asyncio.create_task(streaming.stream(log, c)) for c in (leaving, staying)]
    await asyncio.sleep(0.1)
    leaving.gone.set()
    await asyncio.wait_for(serving[0], 60)
    await log.status(COMPLETED)
    await asyncio.wait_for(serving[1], 60)
    assert staying.cursors() == [1, 2]


async def test_a_gateway_that_stops_has_its_streams_reconnect(
    bus: Bus, streaming: Streaming
) -> None:
    log, client = Log(bus), Client()
    await log.begin()
    serving = asyncio.create_task(streaming.stream(log, client))

    async def is_open() -> bool:
        return client.cursors() == [1]

    await eventually(is_open, "the stream is open")
    await streaming.streams.stop("restarting")
    await asyncio.wait_for(serving, 60)
    assert client.done
    assert client.body.endswith(b": restarting\nretry: 500\n\n")


async def test_a_reader_that_leaves_while_a_feed_opens_does_not_affect_others(
    bus: Bus, feeds: Feeds
) -> None:
    log = Log(bus)
    await log.begin()
    opening = asyncio.create_task(feeds.open(log.key))
    waiting = [asyncio.create_task(feeds.open(log.key)) for _ in range(3)]
    await asyncio.sleep(0)
    opening.cancel()
    holders = await asyncio.gather(*waiting)
    [feed] = {one.feed for one in holders}
    with pytest.raises(asyncio.CancelledError):
        await opening
    for one in holders:
        async with one:
            assert feed.users
    assert len(feeds) == 0
    assert not feed.users


async def test_a_feed_without_readers_once_opened_leaves_no_subscription(
    bus: Bus, feeds: Feeds
) -> None:
    log = Log(bus)
    await log.begin()
    before = set(bus.connection._subs)
    opening = asyncio.create_task(feeds.open(log.key))
    await asyncio.sleep(0)
    opening.cancel()
    await asyncio.gather(opening, return_exceptions=True)

    async def is_closed() -> bool:
        return not len(feeds) and set(bus.connection._subs) <= before | _inbox(bus)

    await eventually(is_closed, "the feed is closed")


def _inbox(bus: Bus) -> set[int]:
    """Return the subscriptions on which answers come."""
    subscriptions = bus.connection._subs.items()
    return {sid for sid, one in subscriptions if one.subject.startswith("_INBOX")}
