"""The time in which a client must send what its connection awaits, and receive what is left for it.

One `ReceiveTime` for each connection of the HTTP server owns it, over HTTP and WebSockets. When the
time is up the connection ends, whatever the protocol or a library makes of what has arrived.
"""

import asyncio
import logging
import sys
from enum import StrEnum
from typing import Protocol

from headrace.metrics import CONNECTIONS_TIMED_OUT
from headrace_gateway.server.slow_client import Backlog
from headrace_gateway.timing import GatewayTiming

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
