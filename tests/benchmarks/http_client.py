"""An HTTP/1.1 client that costs next to nothing: it keeps what arrives and judges it later.

Client and servers share the cores, so whatever the client did per event would be measured as the
servers' work. It stores the pieces of a body with their times; who wants frames parses them when
the clock has stopped.
"""

import asyncio
import time
from dataclasses import dataclass, field
from typing import Self, cast

import httptools

_OK = 200


class ServerFailed(Exception):
    """The server hung up, or did not answer as it should."""


@dataclass(slots=True)
class Exchange:
    """One request and what came back; times are seconds of `time.perf_counter`."""

    sent: float
    status: int = 0
    pieces: list[bytes] = field(default_factory=list)
    arrivals: list[float] = field(default_factory=list)
    """When each piece arrived."""
    ended: float = 0.0
    """When the body was complete."""

    @property
    def body(self) -> bytes:
        """The whole body."""
        return b"".join(self.pieces)

    @property
    def seconds(self) -> float:
        """From the request to the last byte."""
        return self.ended - self.sent


class Connection(asyncio.Protocol):
    """One kept-alive connection; one request at a time."""

    def __init__(self, host: str, port: int) -> None:
        """Connect with `open`, or with the first request."""
        self._host, self._port = host, port
        self._transport: asyncio.Transport | None = None
        self._parser = httptools.HttpResponseParser(self)
        self._exchange = Exchange(0.0)
        self._done: asyncio.Future[None] | None = None

    async def open(self) -> Self:
        """Connect unless connected."""
        if self._transport is None:
            loop = asyncio.get_running_loop()
            self._parser = httptools.HttpResponseParser(self)
            await loop.create_connection(lambda: self, self._host, self._port)
        return self

    def close(self) -> None:
        """Hang up; nobody waits for an answer any more."""
        if self._done is not None:
            self._done.cancel()
        if self._transport is not None:
            self._transport.close()

    async def ask(self, request: bytes, timeout: float = 120.0) -> Exchange:
        """Send `request`, head and body, and return when the answer is complete.

        Raises:
            ServerFailed: the server hung up, or answered with another status than 200.
            TimeoutError: the answer was not complete after `timeout` seconds.
        """
        await self.begin(request)
        return await self.end(timeout)

    async def begin(self, request: bytes) -> Exchange:
        """Send `request`, and return what its answer is to be added to as it comes."""
        await self.open()
        assert self._transport is not None
        self._done = asyncio.get_running_loop().create_future()
        exchange = self._exchange = Exchange(time.perf_counter())
        self._transport.write(request)
        return exchange

    async def end(self, timeout: float = 120.0) -> Exchange:
        """Return when the answer to what was begun is complete; raises as `ask`."""
        assert self._done is not None
        exchange = self._exchange
        async with asyncio.timeout(timeout):
            await self._done
        if exchange.status != _OK:
            raise ServerFailed(f"status {exchange.status}: {exchange.body[:300]!r}")
        return exchange

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """asyncio: the connection is there."""
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        """asyncio: bytes came."""
        self._parser.feed_data(data)

    def connection_lost(self, exc: Exception | None) -> None:
        """asyncio: the connection is gone."""
        self._transport = None
        if self._done is not None and not self._done.done():
            self._done.set_exception(ServerFailed(f"the server hung up: {exc}"))

    def on_headers_complete(self) -> None:
        """httptools: the head is complete."""
        self._exchange.status = self._parser.get_status_code()

    def on_body(self, piece: bytes) -> None:
        """httptools: a piece of the body."""
        self._exchange.pieces.append(piece)
        self._exchange.arrivals.append(time.perf_counter())

    def on_message_complete(self) -> None:
        """httptools: the answer is complete."""
        self._exchange.ended = time.perf_counter()
        if self._done is not None and not self._done.done():
            self._done.set_result(None)
