"""What a live token costs its gateway, in numbers that are the same in every run.

See `tests/unit/worker/test_append_costs.py` for what it costs its worker.
"""

import asyncio
import logging
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast, override

import nats
import uvicorn
from nats.aio.client import Client
from nats.aio.msg import Msg
from starlette.types import Receive, Send
from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import RequestResponseCycle

import headrace
import headrace_gateway
from headrace.jetstream.client import FastParser, Listener
from headrace.jetstream.connection import Bus
from headrace.log import TailRule
from headrace.model import events
from headrace.model.entry import Stamp
from headrace.model.events import Draft
from headrace.model.subjects import Subjects
from headrace.model.task import SUBMITTED, WORKING, TaskKey, mint_log_id, mint_task_id
from headrace_gateway.background_work import BackgroundWork
from headrace_gateway.feeds import Feeds
from headrace_gateway.protocols.a2a.versions import JSON_RPC
from headrace_gateway.server.client_pace import EXTENSION, Backlog, ReceiveTime
from headrace_gateway.server.http_protocol import HeadBuffer
from headrace_gateway.server.open_requests import OpenRequests
from headrace_gateway.settings import GatewaySettings
from headrace_gateway.streaming.open_streams import OpenStreams
from headrace_gateway.streaming.renderer import SharedRenderer
from headrace_gateway.streaming.sse import HttpStream
from headrace_gateway.streaming.subscription import Subscriptions
from tests.support.call_counter import CallCounter

STREAMS, TOKENS = 20, 10

CALLS = 27
"""Python functions called per token, from the bytes that NATS sends to the write to the client: the
fewest of several reads. It was 26.2."""


class LiveBus:
    """A bus on which only live messages arrive, which the test makes."""

    def __init__(self) -> None:
        self.subjects, self._listeners = Subjects(), dict[int, Listener]()
        client = SimpleNamespace(_subs=self._listeners, stats={"in_msgs": 0, "in_bytes": 0})
        self.parser = FastParser(cast("Client", client), self._listeners)

    async def listen(self, _: str, receive: Callable[[Msg], None]) -> SimpleNamespace:
        self._listeners[number := len(self._listeners) + 1] = receive
        return SimpleNamespace(number=number, end=lambda: None)

    def on_disturbance(self, _: Callable[[], None]) -> Callable[[], None]:
        return lambda: None


class Wire(asyncio.Transport):
    """A client's connection, on which each write is kept."""

    def __init__(self) -> None:
        super().__init__()
        self.writes: list[bytes] = []

    @override
    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.writes.append(bytes(data))

    @override
    def get_write_buffer_size(self) -> int:
        return 0

    @override
    def is_closing(self) -> bool:
        return False

    @override
    def close(self) -> None: ...

    @override
    def pause_reading(self) -> None: ...

    @override
    def resume_reading(self) -> None: ...


class Stream:
    """A log on the bus, and its only client."""

    def __init__(self, number: int) -> None:
        self.key = TaskKey("default", "agent", mint_task_id(3))
        self.text = events.TextChunks(self.key.task, "context", "text-1", {"agui_event_type": "b"})
        self.wire = Wire()
        self._number, self._log, self._generation, self._sequence = number, mint_log_id(), 0, 0

    def message(self, draft: Draft, state: str = WORKING) -> bytes:
        """Return what NATS sends of the next entry."""
        self._generation += 1
        before, self._sequence = self._sequence, self._sequence + 17
        stamp = Stamp(self._log, self._generation, "writer", state, 1, int(state == WORKING))
        headers = stamp.headers() | {
            "Nats-Expected-Last-Subject-Sequence": str(before),
            "Nats-Stream": "EVENTS",
            "Nats-Subject": Subjects().event(self.key),
            "Nats-Sequence": str(self._sequence),
            "Nats-Time-Stamp": "2026-01-02T03:04:05.123456789Z",
            "Nats-Last-Sequence": str(before),
        }
        lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        block, line = f"NATS/1.0\r\n{lines}\r\n".encode(), draft.line(self._generation)
        control = f"HMSG {Subjects().live(self.key)} {self._number} {len(block)} "
        return b"%b%d\r\n%b%b\r\n" % (control.encode(), len(block + line), block, line)

    def first(self) -> bytes:
        """Return what NATS sends of generation 1."""
        message = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "hello"}]}
        return self.message(events.task_submitted(self.key.task, "context", message), SUBMITTED)

    async def serve(self, feeds: Feeds) -> None:
        """Serve the client."""
        flow, log = FlowControl(self.wire), logging.getLogger("test")
        time = cast("ReceiveTime", None)  # Only the end needs it.
        buffer = HeadBuffer(self.wire, asyncio.get_running_loop(), time)
        scope: dict[str, Any] = {"type": "http", "method": "GET"}
        cycle = RequestResponseCycle(
            scope=cast("Any", scope),
            transport=cast("asyncio.Transport", buffer),
            flow=flow,
            logger=log,
            access_logger=log,
            access_log=False,
            default_headers=[],
            message_event=asyncio.Event(),
            expect_100_continue=False,
            keep_alive=True,
            on_response=lambda: None,
        )
        shared = Subscriptions(OpenStreams(), OpenRequests(), GatewaySettings())
        held = await feeds.open_new(self.key)
        http = HttpStream(shared, held, 0, SharedRenderer(JSON_RPC, b"1"))
        scope |= {"extensions": {EXTENSION: Backlog(self.wire, flow.drain)}}
        await http(scope, cast("Receive", cycle.receive), cast("Send", cycle.send))


async def _turns(count: int) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


async def _calls_of_tick(bus: LiveBus, streams: list[Stream]) -> int:
    """Return how many functions are called for a token of each stream, in one read of NATS's."""
    data = b"".join([stream.message(stream.text.draft("token")) for stream in streams])
    with CallCounter((headrace, headrace_gateway, nats, uvicorn)) as counter:
        await bus.parser.parse(data)
        await _turns(2)
    return counter.calls


async def test_a_token_costs_one_write_and_few_calls() -> None:
    bus = LiveBus()
    feeds = Feeds(cast("Bus", bus), TailRule(cast("Bus", bus)), 1_000_000, BackgroundWork())
    streams, serving = [Stream(number + 1) for number in range(STREAMS)], []
    for stream in streams:
        serving.append(asyncio.create_task(stream.serve(feeds)))
        await _turns(5)
    await bus.parser.parse(b"".join([stream.first() for stream in streams]))
    await _turns(5)
    calls = [await _calls_of_tick(bus, streams) for _ in range(TOKENS)]
    for task in serving:
        task.cancel()
    await asyncio.gather(*serving, return_exceptions=True)
    for stream in streams:
        assert [piece.count(b"artifactUpdate") for piece in stream.wire.writes[-TOKENS:]] == (
            [1] * TOKENS
        )
    assert min(calls) / STREAMS <= CALLS
