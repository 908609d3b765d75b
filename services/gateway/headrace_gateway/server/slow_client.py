"""Clients that read slowly, told from those that take nothing at all."""

import asyncio
import fcntl
import struct
import termios
from collections.abc import Awaitable, Callable

from starlette.types import Scope

EXTENSION = "headrace.backlog"
"""Where a connection's backlog is found in the scopes of its requests."""


_LOOK = 0.05
"""Seconds between two looks at what a client has taken."""


class Backlog:
    """Bytes written to one connection that its client has not taken yet."""

    __slots__ = ("_drained", "_socket", "_transport")

    def __init__(
        self, transport: asyncio.Transport, drained: Callable[[], Awaitable[object]]
    ) -> None:
        """Look at `transport`; `drained` returns when more may be written to it."""
        self._transport, self._drained = transport, drained
        self._socket = transport.get_extra_info("socket")

    def buffered(self) -> int:
        """Return how many bytes wait in this process."""
        return self._transport.get_write_buffer_size()

    def size(self) -> int:
        """Return how many bytes wait, in this process and in the kernel's send queue."""
        return self.buffered() + self._queued()

    def _queued(self) -> int:
        try:
            # On a socket Linux answers with what the other end has not acknowledged.
            answer = fcntl.ioctl(self._socket.fileno(), termios.TIOCOUTQ, bytes(4))
        except (OSError, ValueError, AttributeError):
            return 0
        waiting: int = struct.unpack("i", answer)[0]
        return waiting

    async def room(self) -> None:
        """Return when more may be written."""
        await self._drained()

    def drop(self) -> None:
        """Disconnect without waiting for anything to be taken."""
        self._transport.abort()


def backlog_of(scope: Scope) -> Backlog | None:
    """Return the backlog of the connection that a request came by; None: it can't be seen."""
    found: Backlog | None = scope.get("extensions", {}).get(EXTENSION)
    return found


class SlowClient:
    """Measures how long a client has taken nothing of what waits for it.

    A slow one may take minutes over one write, so writes say nothing: bytes taken do.
    """

    __slots__ = ("_backlog", "_since", "_taken", "_written")

    def __init__(self, backlog: Backlog | None) -> None:
        """Judge by `backlog`; without one, by how long a write takes."""
        self._backlog = backlog
        self._written = self._taken = 0
        self._since: float | None = None

    @property
    def is_visible(self) -> bool:
        """Whether it can be seen how much waits for the client."""
        return self._backlog is not None

    @property
    def buffered(self) -> int:
        """Bytes that this process holds for the client; 0 if that can't be seen."""
        return self._backlog.buffered() if self._backlog is not None else 0

    def wrote(self, size: int) -> None:
        """Count `size` bytes that have been written."""
        self._written += size

    def seconds(self, now: float, *, writing: bool) -> float:
        """Return for how long the client has taken nothing; `now` is loop time in seconds."""
        waiting = self._backlog.size() if self._backlog is not None else int(writing)
        # The framing around what was written counts as not taken: a few bytes of each write.
        taken = self._written - waiting
        if not waiting or taken > self._taken or self._since is None:
            self._since = now if waiting else None
        self._taken = taken
        return now - self._since if self._since is not None else 0.0

    async def room(self) -> None:
        """Return when most of what was written has been taken, as far as that can be seen."""
        if self._backlog is not None:
            await self._backlog.room()

    async def taken(self) -> None:
        """Return when this process holds nothing for the client any more."""
        while self.buffered:  # noqa: ASYNC110 - nobody says when the rest has been taken
            await asyncio.sleep(_LOOK)

    def drop(self) -> bool:
        """Disconnect the client if that is possible; whatever is being written then returns."""
        if self._backlog is None:
            return False
        self._backlog.drop()
        return True
