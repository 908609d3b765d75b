"""Entries for a client that keeps up are written without waking the task of its stream."""

import asyncio
import logging
from collections.abc import AsyncIterator
from typing import Any, cast

import pytest
from starlette.types import Receive, Send
from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import RequestResponseCycle

from headrace.jetstream.connection import Bus
from headrace.log import LogWriter, TailRule
from headrace.model import events
from headrace.model.entry import Stamp
from headrace.model.task import COMPLETED, SUBMITTED, WORKING, TaskKey, mint_log_id, mint_task_id
from headrace_gateway.background_work import BackgroundWork
from headrace_gateway.feeds import ChangedFeed, FeedNotifier, Feeds
from headrace_gateway.server.open_requests import OpenRequests
from headrace_gateway.settings import GatewaySettings
from headrace_gateway.streaming.open_streams import OpenStreams
from headrace_gateway.streaming.renderer import SharedRenderer
from headrace_gateway.streaming.sse import LOG_LINES, HttpStream
from headrace_gateway.streaming.subscription import Subscriptions
from tests.support.memory_bus import memory_bus

TOKENS = 20


class Wire(asyncio.Transport):
    """A client's connection, on which each write is kept."""

    def __init__(self) -> None:
        super().__init__()
        self.writes: list[bytes] = []
        self.writers: list[asyncio.Task[Any] | None] = []
        """The task in which each write was made; None: in a callback."""

    def write(self, data: bytes) -> None:  # type: ignore[override]
        self.writes.append(data)
        self.writers.append(asyncio.current_task())

    def is_closing(self) -> bool:
        return False

    def close(self) -> None: ...

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...


class RecordingFeed:
    """A feed that only notes that it was told."""

    def __init__(self, output: list[str], name: str) -> None:
        self._told, self._name = output, name

    def notify(self) -> None:
        self._told.append(self._name)


class Log:
    """A task's log, which the test writes."""

    def __init__(self, bus: Bus) -> None:
        self.key = TaskKey("default", "a", mint_task_id(2))
        self.text = events.TextChunks(self.key.task, "c", "block", {})
        self._id, self._writer = mint_log_id(), LogWriter(bus, self.key)

    async def append(self, draft: events.Draft, state: str = WORKING) -> None:
        stamp = Stamp(self._id, self._writer.generation + 1, "w", state, 1, 1, owner="anonymous")
        await self._writer.append([draft], stamp)

    async def begin(self) -> None:
        message = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "hi"}]}
        await self.append(events.task_submitted(self.key.task, "c", message), SUBMITTED)

    async def end(self) -> None:
        await self.append(events.status_update(self.key.task, "c", COMPLETED), COMPLETED)


@pytest.fixture
async def bus() -> AsyncIterator[Bus]:
    async with memory_bus() as bus:
        yield bus


@pytest.fixture
async def feeds(bus: Bus) -> AsyncIterator[Feeds]:
    rule = TailRule(bus)
    await rule.start()
    yield Feeds(bus, rule, 1_000_000, BackgroundWork())
    await rule.stop()


def cycle_on(wire: Wire, scope: dict[str, Any]) -> RequestResponseCycle:
    """Return uvicorn's part of a request that is answered on `wire`."""
    log = logging.getLogger("test")
    return RequestResponseCycle(
        scope=cast("Any", scope),
        transport=wire,
        flow=FlowControl(wire),
        logger=log,
        access_logger=log,
        access_log=False,
        default_headers=[],
        message_event=asyncio.Event(),
        expect_100_continue=False,
        keep_alive=True,
        on_response=lambda: None,
    )


class Stream:
    """A client's stream of a log."""

    def __init__(self, feeds: Feeds, log: Log) -> None:
        self._feeds, self._log = feeds, log
        self.wire, self.scope = Wire(), {"type": "http", "method": "GET"}
        self.cycle = cycle_on(self.wire, self.scope)

    async def _send(self, message: Any) -> None:  # noqa: ANN401 - ASGI's
        await self.cycle.send(message)

    async def serve(self, *, at_once: bool = True) -> None:
        """Serve until the task is over; `at_once`: uvicorn itself sends."""
        shared = Subscriptions(OpenStreams(), OpenRequests(), GatewaySettings())
        held = await self._feeds.open(self._log.key)
        http = HttpStream(shared, held, 0, SharedRenderer(LOG_LINES))
        send = cast("Send", self.cycle.send) if at_once else self._send
        await http(self.scope, cast("Receive", self.cycle.receive), send)

    @property
    def body(self) -> bytes:
        """What the client has received of the body, without the chunks' sizes."""
        _, _, chunks = b"".join(self.wire.writes).partition(b"\r\n\r\n")
        body = b""
        while chunks:
            size, _, rest = chunks.partition(b"\r\n")
            body, chunks = body + rest[: int(size, 16)], rest[int(size, 16) + 2 :]
        return body

    @property
    def numbers(self) -> list[int]:
        """Generations of the events that the client has received."""
        lines = self.body.split(b"\n")
        return [int(line.rpartition(b":")[2]) for line in lines if line.startswith(b"id: ")]


async def received(stream: Stream, count: int) -> None:
    """Wait until the client has received `count` events."""
    while len(stream.numbers) < count:  # noqa: ASYNC110 - no event
        await asyncio.sleep(0.002)


@pytest.fixture
async def log(bus: Bus) -> Log:
    log = Log(bus)
    await log.begin()
    return log


async def test_tokens_are_written_while_the_streams_task_waits(feeds: Feeds, log: Log) -> None:
    stream = Stream(feeds, log)
    serving = asyncio.create_task(stream.serve())
    await received(stream, 1)
    before = len(stream.wire.writers)
    for number in range(TOKENS):
        await log.append(log.text.draft("token"))
        await received(stream, number + 2)
    assert stream.wire.writers[before:] == [None] * TOKENS
    await log.end()
    await asyncio.wait_for(serving, 10)
    assert stream.wire.writers[-1] is serving, "the end needs the task"
    assert stream.numbers == list(range(1, TOKENS + 3))


async def test_what_one_read_does_not_hold_is_written_although_nothing_follows(
    feeds: Feeds, log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = Stream(feeds, log)
    serving = asyncio.create_task(stream.serve())
    await received(stream, 1)
    changed = list[ChangedFeed]()
    with monkeypatch.context() as held_back:
        held_back.setattr(FeedNotifier, "add", lambda _, feed: changed.append(feed))
        for _ in range(3):
            await log.append(log.text.draft("x" * 64 * 1024))
        await log.append(events.status_update(log.key.task, "c", WORKING))
        async with asyncio.timeout(10), await feeds.open(log.key) as feed:
            while feed.head < 5:  # noqa: ASYNC110 - no event
                await asyncio.sleep(0.002)
    assert len(changed) == 1
    changed[0].notify()
    async with asyncio.timeout(10):  # A keep-alive, after 15 s, would have the rest written.
        await received(stream, 5)
    await log.end()
    await asyncio.wait_for(serving, 10)
    assert stream.numbers == [1, 2, 3, 4, 5, 6]


async def test_a_client_that_does_not_keep_up_gets_each_token_once(feeds: Feeds, log: Log) -> None:
    stream = Stream(feeds, log)
    serving = asyncio.create_task(stream.serve())
    await received(stream, 1)
    stream.cycle.flow.pause_writing()
    before = len(stream.wire.writers)
    for _ in range(TOKENS):
        await log.append(log.text.draft("token"))
    await asyncio.sleep(0.02)
    assert len(stream.wire.writers) == before
    stream.cycle.flow.resume_writing()
    await received(stream, TOKENS + 1)
    await log.end()
    await asyncio.wait_for(serving, 10)
    assert stream.numbers == list(range(1, TOKENS + 3))


async def test_another_servers_response_is_written_by_the_task(feeds: Feeds, log: Log) -> None:
    stream = Stream(feeds, log)
    serving = asyncio.create_task(stream.serve(at_once=False))
    await received(stream, 1)
    before = len(stream.wire.writers)
    for number in range(TOKENS):
        await log.append(log.text.draft("token"))
        await received(stream, number + 2)
    assert stream.wire.writers[before:] == [serving] * TOKENS
    await log.end()
    await asyncio.wait_for(serving, 10)
    assert stream.numbers == list(range(1, TOKENS + 3))


async def test_a_client_that_has_left_gets_nothing_more(feeds: Feeds, log: Log) -> None:
    stream = Stream(feeds, log)
    serving = asyncio.create_task(stream.serve())
    await received(stream, 1)
    stream.cycle.disconnected = True
    before = len(stream.wire.writers)
    await log.append(log.text.draft("token"))
    await log.end()
    await asyncio.wait_for(serving, 10)
    assert len(stream.wire.writers) == before


async def test_changes_of_one_turn_are_sent_together() -> None:
    output = list[str]()
    notifier = FeedNotifier()
    one, two = RecordingFeed(output, "one"), RecordingFeed(output, "two")
    notifier.add(one)
    notifier.add(two)
    assert output == []
    await asyncio.sleep(0)
    assert output == ["one", "two"]
