"""A stream of events across any number of connections, as A2A's and AG-UI's are."""

from collections.abc import AsyncGenerator, Mapping
from typing import Self

from headrace.client.errors import Unreachable
from headrace.client.gateways import Gateways, Request, StreamOver
from headrace.client.sse import SseDecoder, SseFrame
from headrace.model.cursor import RECOVERED_HEADER

_LAST_EVENT_ID = "Last-Event-ID"


class ResumableStream[Event]:
    """Yields events in order, each once, and resumes after the last one on any gateway.

        async with client.stream("shop", "nails") as stream:
            async for event in stream: ...

    Leaving the block ends the stream, never the agent's work. A stream that is read to its end
    needs no block. A read that is cancelled, by a timeout for example, or that fails closes the
    connection; the next one resumes after the last event.
    """

    def __init__(self, gateways: Gateways, cursor: str = "") -> None:
        """Begin after `cursor`; empty: at the beginning."""
        self._gateways = gateways
        self._cursor = self._resumed_after = cursor
        """`_resumed_after` is the cursor that the open connection began after."""
        self._reading: AsyncGenerator[Event] | None = None
        """None: there is no connection; the next read makes one."""
        self._has_ended = False

    @property
    def cursor(self) -> str:
        """The cursor of the last event; empty before the first. Store it to resume later."""
        return self._cursor

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Event:
        if self._has_ended:
            raise StopAsyncIteration
        if self._reading is None:
            self._reading = self._read()
        try:
            return await anext(self._reading)
        except StopAsyncIteration:
            self._has_ended = True
            raise

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close the connection. The stream has ended then."""
        self._has_ended = True
        if self._reading is not None:
            await self._reading.aclose()

    async def _request(self) -> Request:
        """Return the request that opens, or continues, the stream; the cursor is added to it."""
        raise NotImplementedError

    def _connected(self, headers: Mapping[str, str]) -> None:
        """Take note of a response's headers."""

    def _kept(self, frames: list[SseFrame], *, recovered: bool) -> list[SseFrame]:  # noqa: ARG002 - for subclasses
        """Return those of `frames`, which came together, that are part of the stream.

        `recovered`: false if events after the cursor are lost, and a snapshot replaces them.
        """
        return frames

    def _event(self, frame: SseFrame) -> Event | None:
        """Take note of a frame and return the caller's event; None: it is none for the caller."""
        raise NotImplementedError

    def _is_over(self) -> bool:
        """Return whether the last event was the last one of all."""
        raise NotImplementedError

    async def _is_over_after_all(self) -> bool:
        """Return whether a connection broke after the end; ask a gateway if necessary."""
        return self._is_over()

    async def _read(self) -> AsyncGenerator[Event]:
        retries = self._gateways.retries()
        try:
            if await self._is_over_after_all():
                return  # A read that was cancelled waited for the connection's end only.
            while True:
                error = Unreachable("the stream closed before the run ended")
                try:
                    request = await self._continued()
                    async with self._gateways.response(request, retries) as response:
                        decoder = SseDecoder()
                        recovered = response.headers.get(RECOVERED_HEADER) != "false"
                        self._connected(response.headers)
                        async for piece in response.aiter_bytes():
                            for frame in self._kept(decoder.feed(piece), recovered=recovered):
                                retries.succeeded()
                                event = self._event(frame)
                                self._cursor = frame.cursor or self._cursor
                                if event is not None:
                                    yield event
                        if self._is_over() and not decoder.is_interrupted:
                            return
                except StreamOver:
                    return
                except Unreachable as broken:
                    error = broken
                if await self._is_over_after_all():
                    return
                await self._gateways.failed(retries, error)
        finally:
            self._reading = None

    async def _continued(self) -> Request:
        request = await self._request()
        self._resumed_after = self._cursor
        if not self._cursor:
            return request
        headers = {**request.headers, _LAST_EVENT_ID: self._cursor}
        return Request(request.method, request.path, request.body, headers, request.query)
