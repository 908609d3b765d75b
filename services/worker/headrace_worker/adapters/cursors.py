"""The cursor of a stream of server-sent events, which the official client does not tell.

A server that gives its events an `id` goes on behind the last one it is told. Another Headrace
does, without a gap or a duplicate.
"""

from collections.abc import AsyncIterator
from contextvars import ContextVar
from typing import cast, override

from headrace_worker.adapters.event_stream import Frames, field, plain
from headrace_worker.adapters.extras import needs

with needs("a2a"):
    import httpx

LAST_EVENT_ID = "Last-Event-ID"


class EventIds:
    """The ids of a stream's events."""

    def __init__(self, last: str = "") -> None:
        """Begin behind `last`; empty: at no event."""
        self.last = last
        """Of the last event that was told."""
        self.came = last
        """Of the last event that the client was given."""

    def told(self) -> None:
        """Take note that what came has been told."""
        self.last = self.came


FOLLOWED: ContextVar[EventIds | None] = ContextVar("followed", default=None)
"""Who notes the ids of the streams that the task at hand opens."""


class NotingTransport(httpx.AsyncHTTPTransport):
    """A transport that lets `FOLLOWED` see the event streams."""

    @override
    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send the request; an event stream is noted while it is read."""
        response = await super().handle_async_request(request)
        cursor = FOLLOWED.get()
        kind = response.headers.get("content-type", "")
        is_plain = response.headers.get("content-encoding", "identity") == "identity"
        if cursor is not None and is_plain and kind.startswith("text/event-stream"):
            response.stream = _Noted(cast("httpx.AsyncByteStream", response.stream), cursor)
        return response


class _Noted(httpx.AsyncByteStream):
    """Hands on one frame at a time: the client asks for the next when it has told the last."""

    def __init__(self, stream: httpx.AsyncByteStream, cursor: EventIds) -> None:
        self._stream, self._cursor = stream, cursor

    async def __aiter__(self) -> AsyncIterator[bytes]:
        frames = Frames()
        async for chunk in self._stream:
            for frame in frames.take(chunk):
                if name := field(frame, b"id"):
                    self._cursor.came = name.strip().decode(errors="replace")
                yield plain(frame) + b"\n\n"

    async def aclose(self) -> None:
        await self._stream.aclose()
