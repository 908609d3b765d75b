"""Detection of clients that read nothing at all, as opposed to slowly."""

import asyncio
import fcntl
import struct
import termios
from collections.abc import Awaitable, Callable

from starlette.types import Scope

EXTENSION = "headrace.backlog"
"""Key in the scopes of a connection's requests: its backlog."""


_LOOK = 0.05
"""Seconds between two checks of what a client has read."""


class Backlog:
    """Bytes written to one connection that its client has not received yet."""

    __slots__ = ("_drained", "_socket", "_transport")

    def __init__(
        self, transport: asyncio.Transport, drained: Callable[[], Awaitable[object]]
    ) -> None:
        """Measure `transport`; `drained` returns when more may be written to it."""
        self._transport, self._drained = transport, drained
        self._socket = transport.get_extra_info("socket")

    def buffered(self) -> int:
        """Return the bytes that wait in this process."""
        return self._transport.get_write_buffer_size()

    def size(self) -> int:
        """Return the bytes that wait in this process and in the kernel's send queue."""
        return self.buffered() + self._queued()

    def _queued(self) -> int:
        try:
            # For a socket, Linux returns the bytes that the other end has not acknowledged.
            answer = fcntl.ioctl(self._socket.fileno(), termios.TIOCOUTQ, bytes(4))
        except (OSError, ValueError, AttributeError):
            return 0
        waiting: int = struct.unpack("i", answer)[0]
        return waiting

    async def room(self) -> None:
        """Return when more may be written."""
        await self._drained()

    def close(self) -> None:
        """Disconnect when the client has received everything."""
        self._transport.close()

    def drop(self) -> None:
        """Disconnect without waiting for the client to receive anything."""
        self._transport.abort()


def backlog_of(scope: Scope) -> Backlog | None:
    """Return the backlog of the request's connection, or None if it can't be measured."""
    found: Backlog | None = scope.get("extensions", {}).get(EXTENSION)
    return found


class SlowClient:
    """Measures for how long a client has received none of the bytes that wait for it.

    A slow client may need minutes for one write, so the progress of received bytes counts, not that
    of writes.
    """

    __slots__ = ("_backlog", "_since", "_taken", "_written")

    def __init__(self, backlog: Backlog | None) -> None:
        """Use `backlog`; if None, measure how long a write takes."""
        self._backlog = backlog
        self._written, self._taken = 0, -1
        self._since: float | None = None

    @property
    def is_visible(self) -> bool:
        """Whether the bytes that wait for the client can be measured."""
        return self._backlog is not None

    @property
    def buffered(self) -> int:
        """Bytes that this process holds for the client; 0 if that can't be measured."""
        return self._backlog.buffered() if self._backlog is not None else 0

    def wrote(self, size: int) -> None:
        """Count `size` bytes that have been written."""
        self._written += size

    def seconds(self, now: float, *, writing: bool) -> float:
        """Return for how long the client has received nothing; `now` is loop time in seconds."""
        if self._taken == self._written and not writing:
            return 0.0  # All had been received, and nothing was written since: most streams wait.
        waiting = self._backlog.size() if self._backlog is not None else int(writing)
        # Framing bytes around each write are counted as not received; they are few.
        taken = self._written - waiting
        if not waiting or taken > self._taken or self._since is None:
            self._since = now if waiting else None
        self._taken = taken
        return now - self._since if self._since is not None else 0.0

    async def room(self) -> None:
        """Return when the client has received most bytes, if that can be measured."""
        if self._backlog is not None:
            await self._backlog.room()

    async def taken(self) -> None:
        """Return when this process holds nothing more for the client."""
        while self.buffered:  # noqa: ASYNC110 - no event reports it
            await asyncio.sleep(_LOOK)

    def drop(self) -> bool:
        """Disconnect the client if possible, and return whether it was; a pending write returns."""
        if self._backlog is None:
            return False
        self._backlog.drop()
        return True
