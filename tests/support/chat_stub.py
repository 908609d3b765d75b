"""A stub of a chat completions endpoint with scripted replies in the API's wire format."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import orjson

from headrace.model.events import Json

_TIMEOUT = 60.0


@dataclass(slots=True)
class Reply:
    """One answer: the deltas of a stream, or an error."""

    chunks: list[Json] = field(default_factory=list)
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    hangs: bool = False
    """Whether nothing follows the chunks, and the connection stays open."""
    breaks: bool = False
    """Whether the connection ends behind the chunks, without a word."""


def deltas(*output: Json, finish: str = "stop") -> list[Json]:
    """Return the chunks of a stream with these deltas."""
    return [*(chunk(delta) for delta in output), chunk({}, finish)]


def chunk(delta: Json, finish: str | None = None) -> Json:
    """Return one chunk."""
    choice = {"index": 0, "delta": delta, "finish_reason": finish, "logprobs": None}
    frame = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "small"}
    return {**frame, "choices": [choice]}


def usage(given: int, made: int) -> Json:
    """Return the last chunk of a stream that was asked for usage."""
    used = {"prompt_tokens": given, "completion_tokens": made, "total_tokens": given + made}
    return {**chunk({}), "choices": [], "usage": used}


def call(
    index: int,
    *,
    id: str | None = None,  # noqa: A002  # the API's name
    name: str | None = None,
    arguments: str = "",
) -> Json:
    """Return a delta with a piece of a tool call."""
    function = {"arguments": arguments, **({"name": name} if name else {})}
    named = {"id": id, "type": "function"} if id else {}
    return {"tool_calls": [{"index": index, **named, "function": function}]}


class ChatStub:
    """The endpoint: replies in the order in which requests come."""

    path = "/v1/chat/completions"
    last = b"data: [DONE]\n\n"
    """What ends a stream."""

    def __init__(self, replies: Iterable[Reply] | Callable[[Json], Reply]) -> None:
        """Reply with `replies`, or as they say to a request; more requests are refused with 400."""
        self._choose = replies if callable(replies) else None
        self._replies = deque(() if callable(replies) else replies)
        self.requests: list[Json] = []
        self.keys: list[str] = []
        self.left = asyncio.Event()
        """Set when a client has closed the connection of a reply that hangs."""
        self.url = ""
        self._came = asyncio.Event()

    async def until_left(self) -> None:
        """Return when a client has closed the connection of a reply that hangs."""
        async with asyncio.timeout(_TIMEOUT):
            await self.left.wait()

    async def until_received(self, requests: int) -> None:
        """Return when that many requests have come."""
        async with asyncio.timeout(_TIMEOUT):
            while len(self.requests) < requests:
                await self._came.wait()
                self._came.clear()

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one request, and close the connection."""
        head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        headers = {k.lower(): v for k, _, v in (line.partition(": ") for line in head[1:])}
        body = await reader.readexactly(int(headers["content-length"]))
        self._check(head[0])
        self.requests.append(orjson.loads(body))
        self._came.set()
        self.keys.append(headers.get("authorization", ""))
        reply = self._next()
        await self._send(reply, writer)
        if reply.hangs:
            await reader.read()
            self.left.set()
        writer.close()

    def _check(self, line: str) -> None:
        """Check the request line."""
        assert line.startswith(f"POST {self.path} ")

    def _next(self) -> Reply:
        if self._choose is not None:
            return self._choose(self.requests[-1])
        return self._replies.popleft() if self._replies else Reply(status=400)

    async def _send(self, reply: Reply, writer: asyncio.StreamWriter) -> None:
        kind = "text/event-stream" if reply.status == 200 else "application/json"
        more = {"content-type": kind, "connection": "close", **reply.headers}
        lines = [f"HTTP/1.1 {reply.status} x", *(f"{k}: {v}" for k, v in more.items())]
        if reply.status != 200:
            body = orjson.dumps({"error": {"message": "secret", "type": "x", "code": None}})
            writer.write("\r\n".join([*lines, f"content-length: {len(body)}", "", ""]).encode())
            writer.write(body)
            await writer.drain()
            return
        writer.write("\r\n".join([*lines, "transfer-encoding: chunked", "", ""]).encode())
        frames = [b"data: %b\n\n" % orjson.dumps(each) for each in reply.chunks]
        whole = not (reply.hangs or reply.breaks)
        for frame in [*frames, *([self.last] if whole and self.last else [])]:
            writer.write(b"%x\r\n%b\r\n" % (len(frame), frame))
            await writer.drain()
        if whole:
            writer.write(b"0\r\n\r\n")
            await writer.drain()


@asynccontextmanager
async def chat_stub(*replies: Reply) -> AsyncIterator[ChatStub]:
    """Serve an endpoint for the length of a block."""
    async with serving(ChatStub(replies)) as stub:
        stub.url += "/v1"
        yield stub


class AgUiStub(ChatStub):
    """An AG-UI agent: the chunks of its replies are events."""

    path = "/agent"
    last = b""


@asynccontextmanager
async def ag_ui_stub(*replies: Reply) -> AsyncIterator[AgUiStub]:
    """Serve an AG-UI agent for the length of a block."""
    async with serving(AgUiStub(replies)) as stub:
        stub.url += stub.path
        yield stub


@asynccontextmanager
async def serving[S: ChatStub](stub: S) -> AsyncIterator[S]:
    """Serve `stub` for the length of a block."""
    server = await asyncio.start_server(stub.answer, "127.0.0.1", 0)
    port: Any = server.sockets[0].getsockname()[1]
    stub.url = f"http://127.0.0.1:{port}"
    try:
        yield stub
    finally:
        server.close()
