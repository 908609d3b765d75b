"""What was written to a client and not taken yet: by its kernel, not only by ours."""

import asyncio
import fcntl
import struct
import termios

from starlette.types import Scope

EXTENSION = "headrace.backlog"
"""Where a connection's backlog is found in the scopes of its requests."""


class Backlog:
    """One connection's unread bytes."""

    __slots__ = ("_socket", "_transport")

    def __init__(self, transport: asyncio.Transport) -> None:
        """Look at `transport`."""
        self._transport = transport
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

    def drop(self) -> None:
        """Disconnect without waiting for anything to be taken."""
        self._transport.abort()


def backlog_of(scope: Scope) -> Backlog | None:
    """Return the backlog of the connection that a request came by; None: it can't be seen."""
    found: Backlog | None = scope.get("extensions", {}).get(EXTENSION)
    return found
