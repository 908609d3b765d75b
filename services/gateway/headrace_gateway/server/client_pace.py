"""The pace of a client: the time in which it must send what is awaited, and receive what is left.

One `ReceiveTime` for each connection of the HTTP server owns that time, over HTTP and WebSockets.
When it is up the connection ends, whatever the protocol or a library makes of what has arrived.
`SlowClient` tells a client that reads nothing at all from one that reads slowly.
"""

import asyncio
import fcntl
import logging
import struct
import sys
import termios
from collections.abc import Awaitable, Callable
from enum import StrEnum
from typing import Protocol

from starlette.types import Scope

from headrace.metrics import CONNECTIONS_TIMED_OUT
from headrace_gateway.timing import GatewayTiming

EXTENSION = "headrace.backlog"
"""Key in the scopes of a connection's requests: its backlog."""


_LOOK = 0.05
"""Seconds between two checks of what a client has read."""


class Backlog:
    """Bytes written to one connection that its client has not received yet."""

    __slots__ = ("_drained", "_socket", "_transport", "buffered")

    def __init__(
        self, transport: asyncio.Transport, drained: Callable[[], Awaitable[object]]
    ) -> None:
        """Measure `transport`; `drained` returns when more may be written to it."""
        self._transport, self._drained = transport, drained
        self._socket = transport.get_extra_info("socket")
        # The transport's own, without a call of ours for each token.
        self.buffered = transport.get_write_buffer_size
        """Returns the bytes that wait in this process."""

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

    async def drain(self) -> None:
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

    __slots__ = ("_backlog", "_since", "_taken", "written")

    def __init__(self, backlog: Backlog | None) -> None:
        """Use `backlog`; if None, measure how long a write takes."""
        self._backlog = backlog
        self.written = 0
        """Bytes that have been written. The transport counts them."""
        self._taken = -1
        self._since: float | None = None

    @property
    def is_visible(self) -> bool:
        """Whether the bytes that wait for the client can be measured."""
        return self._backlog is not None

    @property
    def buffered(self) -> int:
        """Bytes that this process holds for the client; 0 if that can't be measured."""
        return self._backlog.buffered() if self._backlog is not None else 0

    def seconds(self, now: float, *, writing: bool) -> float:
        """Return for how long the client has received nothing; `now` is loop time in seconds."""
        if self._taken == self.written and not writing:
            return 0.0  # All had been received, and nothing was written since: most streams wait.
        waiting = self._backlog.size() if self._backlog is not None else int(writing)
        # Framing bytes around each write are counted as not received; they are few.
        taken = self.written - waiting
        if not waiting or taken > self._taken or self._since is None:
            self._since = now if waiting else None
        self._taken = taken
        return now - self._since if self._since is not None else 0.0

    async def drain(self) -> None:
        """Return when the client has received most bytes, if that can be measured."""
        if self._backlog is not None:
            await self._backlog.drain()

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


_log = logging.getLogger(__name__)


class Awaited(StrEnum):
    """What a connection waits for; a client that stops in the middle of it is disconnected."""

    NOTHING = "nothing"
    """The client has sent all of it, or need not send more."""
    REQUEST = "request"
    """The first byte of a request, on a connection without one."""
    HEAD = "head"
    BODY = "body"
    HANDSHAKE = "handshake"
    """The answer to a WebSocket's handshake."""
    MESSAGE = "message"
    """The rest of a WebSocket message."""
    RECEIVED = "received"
    """That the client receives the rest of the last answer."""


for _awaited in Awaited:
    if _awaited is not Awaited.NOTHING:
        CONNECTIONS_TIMED_OUT.labels(_awaited.value)


class TimedConnection(Protocol):
    """The protocol of a connection."""

    def delays_client(self) -> bool:
        """Return whether the server itself delays what is awaited."""

    def refuse_late(self, awaited: Awaited) -> None:
        """Tell the client that its time is up; the connection is closed after that."""


class ReceiveTime:
    """The time of one connection. A request that arrives in one piece starts no timer."""

    __slots__ = ("_backlog", "_deadline", "_handle", "_last", "_loop", "_timing", "awaited", "of")

    def __init__(
        self,
        of: TimedConnection,
        backlog: Backlog,
        loop: asyncio.AbstractEventLoop,
        timing: GatewayTiming,
    ) -> None:
        """Await nothing yet, on the connection with `backlog`."""
        self.of = of
        """The protocol that the connection has at the moment."""
        self.awaited = Awaited.NOTHING
        self._backlog, self._loop, self._timing = backlog, loop, timing
        self._deadline = self._last = 0.0
        self._handle: asyncio.TimerHandle | None = None

    def expect(self, awaited: Awaited) -> None:
        """Await something from now on. Call `watch` if it has not arrived when the data ends."""
        now = self._loop.time()
        self.awaited = awaited
        self._deadline, self._last = now + self._timing.silence, now + self._timing.body

    def arrived(self) -> None:
        """Allow another pause, because a part has arrived, within the time for the whole."""
        self._deadline = min(self._loop.time() + self._timing.silence, self._last)

    def begin_again(self) -> None:
        """Give what is awaited the time for the whole from now on."""
        self._last = self._loop.time() + self._timing.body

    def watch(self) -> None:
        """End the connection if its time is up before `stop`."""
        if self._handle is None:
            self._handle = self._loop.call_at(self._deadline, self._on_time)

    def stop(self) -> None:
        """Await nothing."""
        self.awaited = Awaited.NOTHING
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None

    def close_by_force(self, before: int = sys.maxsize) -> None:
        """Disconnect a client that receives nothing of what is left for it, its last answer.

        Otherwise its connection would never end. `before`: the bytes that were left before.
        """
        if not self._backlog.buffered():
            return
        left = self._backlog.size()
        if left >= before:
            CONNECTIONS_TIMED_OUT.labels(Awaited.RECEIVED.value).inc()
            self._backlog.drop()
            return
        self._loop.call_later(self._timing.silence, self.close_by_force, left)

    def _on_time(self) -> None:
        now = self._loop.time()
        if self.of.delays_client():
            self._deadline = now + self._timing.silence
            self._last = self._last + self._timing.silence
        if self._deadline > now:
            self._handle = self._loop.call_at(self._deadline, self._on_time)
            return
        self._handle = None
        CONNECTIONS_TIMED_OUT.labels(self.awaited.value).inc()
        try:
            self.of.refuse_late(self.awaited)
        except Exception:  # noqa: BLE001 - whatever it is, the connection ends
            _log.exception("a client that is late could not be told so")
        self._backlog.close()
        self.close_by_force()
