"""HTTP over a raw socket that the client can cut at any byte and read slowly."""

import asyncio
import json
import socket
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Self
from urllib.parse import urlsplit

import httptools

_MOST = 64 * 1024
_RESET = struct.pack("ii", 1, 0)
_HANDSHAKE = 30.0
_PACING = 0.1


class ConnectionCut(Exception):
    """The connection ended before the answer did, whoever ended it."""


class NotListening(ConnectionCut):
    """There was no connection: nobody listens at the other end, so nothing was sent."""


@dataclass(frozen=True, slots=True)
class Cut:
    """Where a client tears its connection."""

    after: int
    """Bytes of the answer, its head included."""
    by_reset: bool = False
    """With a reset; else as one that closes its end."""


@dataclass(frozen=True, slots=True)
class Request:
    """What a client asks."""

    method: str
    path: str
    headers: dict[str, str] = field(default_factory=dict)
    body: Any = None

    def encode(self, host: str) -> bytes:
        """Return it as it goes over the wire."""
        body = b"" if self.body is None else json.dumps(self.body).encode()
        headers = {"Host": host, "Accept": "text/event-stream", **self.headers}
        if self.body is not None:
            headers |= {"Content-Type": "application/json", "Content-Length": str(len(body))}
        lines = [f"{self.method} {self.path} HTTP/1.1", *(f"{k}: {v}" for k, v in headers.items())]
        return "\r\n".join([*lines, "", ""]).encode() + body


class Wire:
    """One connection to a gateway."""

    def __init__(self, connection: socket.socket, cut: Cut | None) -> None:
        """Read from `connection` up to `cut`."""
        self._socket, self._cut = connection, cut
        self._left = None if cut is None else cut.after
        self._loop = asyncio.get_running_loop()

    @classmethod
    async def open(cls, url: str, cut: Cut | None = None, *, window: int = 0) -> Self:
        """Connect; `window` bounds what the kernel takes for this end, bytes.

        Raises:
            NotListening: nobody listens.
            ConnectionCut: it was not connected for another reason.
        """
        place = urlsplit(url)
        connection = socket.socket()
        connection.settimeout(0)
        if window:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, window)
        try:
            async with asyncio.timeout(_HANDSHAKE):
                address = (place.hostname, place.port)
                await asyncio.get_running_loop().sock_connect(connection, address)
        except BaseException as refused:
            connection.close()
            if isinstance(refused, ConnectionRefusedError):
                raise NotListening(str(refused)) from None
            if isinstance(refused, OSError):
                raise ConnectionCut(str(refused)) from None
            raise
        return cls(connection, cut)

    async def send(self, data: bytes) -> None:
        """Send everything.

        Raises:
            ConnectionCut: the other end has gone.
        """
        try:
            await self._loop.sock_sendall(self._socket, data)
        except OSError as error:
            raise ConnectionCut(str(error)) from None

    async def read(self, most: int = _MOST) -> bytes:
        """Return what comes next, at most `most` bytes; nothing: the other end has ended.

        Raises:
            ConnectionCut: this is where it was to be cut, or the other end has gone.
        """
        if self._left is not None:
            most = min(most, self._left)
        if most == 0:
            self.tear()
            raise ConnectionCut("cut by the client")
        try:
            data = await self._loop.sock_recv(self._socket, most)
        except OSError as error:
            raise ConnectionCut(str(error)) from None
        if self._left is not None:
            self._left -= len(data)
        return data

    def tear(self) -> None:
        """End it now, as `cut` says."""
        if self._cut is not None and self._cut.by_reset:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        self._socket.close()

    def close(self) -> None:
        """End it."""
        self._socket.close()


class ResponseReader:
    """An HTTP answer as it comes in."""

    def __init__(self, wire: Wire) -> None:
        """Read from `wire`."""
        self.status = 0
        self.headers: dict[str, str] = {}
        self.pace: float = 0
        """Bytes per second at which the body is read; 0: as it comes."""
        self._wire = wire
        self._parser = httptools.HttpResponseParser(self)
        self._paced = 0.0
        """When it was last read at a pace, loop time in seconds; 0: never."""
        self._pieces: list[bytes] = []
        self._complete = False

    async def head(self) -> Self:
        """Return once status and headers are there.

        Raises:
            ConnectionCut: the connection ended before.
        """
        while not self.status:
            await self._take()
        return self

    async def body(self) -> AsyncIterator[bytes]:
        """Yield the body as it comes, to its end.

        Raises:
            ConnectionCut: the connection ended before.
        """
        while True:
            pieces, self._pieces = self._pieces, []
            for piece in pieces:
                yield piece
            if self._complete:
                return
            if not self._pieces:
                await self._take()

    async def whole(self) -> bytes:
        """Return all of the body."""
        return b"".join([piece async for piece in self.body()])

    async def _take(self) -> None:
        data = await self._wire.read(await self._due() if self.pace else _MOST)
        if not data:
            raise ConnectionCut("the gateway ended the connection within its answer")
        self._parser.feed_data(data)

    async def _due(self) -> int:
        """Return how much is to be read now, bytes: what a busy loop has put off is made up for."""
        loop = asyncio.get_running_loop()
        begun = self._paced or loop.time()
        await asyncio.sleep(max(_PACING, 1 / self.pace))
        self._paced = loop.time()
        return max(int(self.pace * (self._paced - begun)), 1)

    def on_header(self, name: bytes, value: bytes) -> None:
        """Be told a header by the parser."""
        self.headers[name.decode().lower()] = value.decode()

    def on_headers_complete(self) -> None:
        """Be told that the head is there."""
        self.status = self._parser.get_status_code()

    def on_body(self, piece: bytes) -> None:
        """Be told a piece of the body."""
        self._pieces.append(piece)

    def on_message_complete(self) -> None:
        """Be told that it is all there."""
        self._complete = True


@asynccontextmanager
async def answered(
    gateway: str, request: Request, cut: Cut | None = None, *, window: int = 0
) -> AsyncIterator[ResponseReader]:
    """Ask `gateway`, a URL, and yield the answer once its head is there.

    Raises:
        ConnectionCut: the connection ended before, or nobody listens.
    """
    wire = await Wire.open(gateway, cut, window=window)
    try:
        await wire.send(request.encode(urlsplit(gateway).netloc))
        yield await ResponseReader(wire).head()
    finally:
        wire.close()
