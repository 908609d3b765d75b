"""The cursor of a stream of server-sent events, which the official client does not expose.

A server that gives its events an `id` can resume after the last one received. Another Headrace does
so without gaps or duplicates.
"""

from collections.abc import AsyncIterator
from contextvars import ContextVar
from typing import cast, override

import httpx

from headrace.adapters.a2a.limited_transport import LimitedTransport, is_event_stream
from headrace.adapters.event_stream import Frames, field, plain

LAST_EVENT_ID = "Last-Event-ID"


class EventIds:
    """The ids of a stream's events."""

    def __init__(self) -> None:
        """Start before the first event."""
        self.last = ""
        """Id of the last event that was emitted; empty: there is none."""
        self.came = ""
        """Id of the last event that the client received."""

    def emitted(self) -> None:
        """Record that the last event received has been emitted."""
        self.last = self.came


FOLLOWED: ContextVar[EventIds | None] = ContextVar("followed", default=None)
"""Records the ids of the streams that the current asyncio task opens."""


class NotingTransport(LimitedTransport):
    """A transport that records the ids of event streams in `FOLLOWED`."""

    @override
    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send the request; the ids of an event stream are recorded while it is read.

        Raises:
            MalformedOutput: As `LimitedTransport`. While it is read: an event is too large.
        """
        response = await super().handle_async_request(request)
        if is_event_stream(request, response):
            stream = cast("httpx.AsyncByteStream", response.stream)
            response.stream = _FrameStream(stream, FOLLOWED.get() or EventIds())
        return response


class _FrameStream(httpx.AsyncByteStream):
    """Yields one frame at a time: the client requests the next after it has emitted the last."""

    def __init__(self, stream: httpx.AsyncByteStream, cursor: EventIds) -> None:
        self._stream, self._cursor = stream, cursor

    async def __aiter__(self) -> AsyncIterator[bytes]:
        frames = Frames()
        async for chunk in self._stream:
            for frame in frames.split(chunk):
                if name := field(frame, b"id"):
                    self._cursor.came = name.strip().decode(errors="replace")
                yield plain(frame) + b"\n\n"

    async def aclose(self) -> None:
        await self._stream.aclose()
