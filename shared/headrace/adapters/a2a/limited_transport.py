"""The HTTP transport to outside agents, which limits their answers."""

from collections.abc import AsyncIterator
from typing import cast, override

import httpx

from headrace.adapters.event_stream import (
    EVENT_STREAM,
    check_encoding,
    check_size,
    has_events,
)
from headrace.sdk.errors import MalformedOutput

_OK = 200


class LimitedTransport(httpx.AsyncHTTPTransport):
    """A transport that limits answers. Who reads a stream of events limits each event."""

    @override
    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send the request.

        Raises:
            MalformedOutput: The answer is compressed. While it is read: it is too large.
        """
        request.headers["Accept-Encoding"] = "identity"
        response = await super().handle_async_request(request)
        try:
            check_encoding(response.headers)
        except MalformedOutput:
            await response.aclose()
            raise
        if not is_event_stream(request, response):
            response.stream = _LimitedStream(cast("httpx.AsyncByteStream", response.stream))
        return response


def is_event_stream(request: httpx.Request, response: httpx.Response) -> bool:
    """Return whether the client asked for a stream of events and gets one."""
    return (
        response.status_code == _OK
        and EVENT_STREAM in request.headers.get("Accept", "")
        and has_events(response.headers)
    )


class _LimitedStream(httpx.AsyncByteStream):
    def __init__(self, stream: httpx.AsyncByteStream) -> None:
        self._stream = stream

    async def __aiter__(self) -> AsyncIterator[bytes]:
        size = 0
        async for chunk in self._stream:
            size += len(chunk)
            check_size(size)
            yield chunk

    async def aclose(self) -> None:
        await self._stream.aclose()
