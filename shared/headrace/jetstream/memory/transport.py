"""nats-py's transport to the server in memory."""

import asyncio
import ssl
from collections.abc import Callable
from urllib.parse import ParseResult

from nats.aio.transport import Transport

from headrace.jetstream.memory.server import MemoryServer, MemorySession


class MemoryTransport(Transport):
    """A connection to a `MemoryServer`, on the loop that opens it."""

    def __init__(self, server: MemoryServer) -> None:
        """Connect to `server` when nats-py calls `connect`."""
        self._server = server
        self._session: MemorySession | None = None
        self._reader = asyncio.StreamReader()
        self._is_cut = False

    def cut(self) -> None:
        """End the connection immediately and permanently, as if the process had died."""
        self._is_cut = True
        if self._session is not None:
            self._session.end()

    async def connect(self, uri: ParseResult, buffer_size: int, connect_timeout: int) -> None:  # noqa: ARG002 - nats-py's
        """Open a session.

        Raises:
            ConnectionRefusedError: the server is closed, or the connection was cut.
        """
        if self._is_cut:
            raise ConnectionRefusedError("the connection was cut")
        self._reader = asyncio.StreamReader()
        self._session = self._server.connect(_feeding(self._reader))

    async def connect_tls(
        self,
        uri: str | ParseResult,
        ssl_context: ssl.SSLContext,
        buffer_size: int,
        connect_timeout: int,
    ) -> None:
        """Refuse: connections within a process need no encryption."""
        raise NotImplementedError

    def write(self, payload: bytes) -> None:
        """Send bytes."""
        if self._session is not None:
            self._session.receive(payload)

    def writelines(self, payload: list[bytes]) -> None:
        """Send bytes."""
        self.write(b"".join(payload))

    async def read(self, buffer_size: int) -> bytes:
        """Return the next bytes."""
        return await self._reader.read(buffer_size)

    async def readline(self) -> bytes:
        """Return the next line."""
        return await self._reader.readline()

    async def drain(self) -> None:
        """Return at once: written data has already arrived."""

    async def wait_closed(self) -> None:
        """Return at once: closing is immediate."""

    def close(self) -> None:
        """End the session."""
        if self._session is not None:
            self._session.end()

    def at_eof(self) -> bool:
        """Return whether the session has ended and all data has been read."""
        return self._reader.at_eof()

    def __bool__(self) -> bool:
        return True


def _feeding(reader: asyncio.StreamReader) -> Callable[[bytes | None], None]:
    """Return a function that feeds `reader` on this loop and can be called from any thread."""
    loop = asyncio.get_running_loop()

    def feed(data: bytes | None) -> None:
        if data is None:
            reader.feed_eof()
        else:
            reader.feed_data(data)

    def deliver(data: bytes | None) -> None:
        if not loop.is_closed():
            loop.call_soon_threadsafe(feed, data)

    return deliver
