"""The cursor of a stream of server-sent events, which the official client does not tell.

A server that gives its events an `id` goes on behind the last one it is told. Another Headrace
does, without a gap or a duplicate.
"""

from collections.abc import AsyncIterator
from contextvars import ContextVar
from typing import cast, override

from headrace_worker.adapters.extras import needs

with needs("a2a"):
    import httpx

LAST_EVENT_ID = "Last-Event-ID"


class Cursor:
    """The id of the last event that has come whole."""

    def __init__(self, last: str = "") -> None:
        """Begin behind `last`; empty: at no event."""
        self.last = last
        self._rest = b""

    def begin(self) -> None:
        """A stream begins: what was cut off in the one before is gone."""
        self._rest = b""

    def note(self, chunk: bytes) -> None:
        """Take the next bytes of the stream."""
        whole, mark, rest = (self._rest + chunk).replace(b"\r\n", b"\n").rpartition(b"\n\n")
        self._rest = rest
        if not mark:
            return
        for line in reversed(whole.split(b"\n")):
            if line.startswith(b"id:"):
                self.last = line[3:].strip().decode(errors="replace")
                return


FOLLOWED: ContextVar[Cursor | None] = ContextVar("followed", default=None)
"""Who notes the ids of the streams that the task at hand opens."""


class NotingTransport(httpx.AsyncHTTPTransport):
    """A transport that lets `FOLLOWED` see the event streams."""

    @override
    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send the request; an event stream is noted while it is read."""
        response = await super().handle_async_request(request)
        cursor = FOLLOWED.get()
        kind = response.headers.get("content-type", "")
        if cursor is not None and kind.startswith("text/event-stream"):
            cursor.begin()
            response.stream = _Noted(cast("httpx.AsyncByteStream", response.stream), cursor)
        return response


class _Noted(httpx.AsyncByteStream):
    def __init__(self, stream: httpx.AsyncByteStream, cursor: Cursor) -> None:
        self._stream, self._cursor = stream, cursor

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for chunk in self._stream:
            self._cursor.note(chunk)
            yield chunk

    async def aclose(self) -> None:
        await self._stream.aclose()
