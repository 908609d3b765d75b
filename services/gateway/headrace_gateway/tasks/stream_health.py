"""Whether the event streams store messages, by what became of this gateway's appends.

A stream whose server has met a full disk answers no append at all, until the server is restarted. A
message sent meanwhile would be in doubt like the first one. So it is refused before it is sent, and
its client may repeat it.
"""

import asyncio
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from headrace.jetstream.connection import Bus
from headrace.model.errors import BusUnavailable
from headrace.model.task import TaskKey

_VALID = 10.0
"""Seconds for which a stream that refused an append for lack of room counts as full."""


class LogSilent(BusUnavailable):
    """The log's stream answers no append. Nothing was sent."""

    @property
    def public(self) -> str:
        """The message for clients, without the stream's name."""
        return "the log stores nothing at the moment; try again later"


class StreamHealth:
    """The event streams that do not store messages."""

    def __init__(self, bus: Bus) -> None:
        """Know of no trouble."""
        self._bus = bus
        self._silent = Counter[str]()
        """Appends without an answer, by stream."""
        self._full = dict[str, float]()
        """When a stream last refused an append for lack of room; loop time."""

    def check(self, key: TaskKey) -> None:
        """Return unless the stream of the task's log answers no append.

        Raises:
            LogSilent: It answers none. Repeating the request is safe.
        """
        if self._silent and (stream := self._stream(key)) in self._silent:
            raise LogSilent(f"{stream} answers no append")

    @contextmanager
    def awaiting(self, key: TaskKey) -> Iterator[None]:
        """Count an append without an answer while the block waits for one."""
        stream = self._stream(key)
        self._silent[stream] += 1
        try:
            yield
        finally:
            self._silent -= Counter([stream])

    def note_full(self, key: TaskKey) -> None:
        """Note that the stream refused an append for lack of room."""
        self._full[self._stream(key)] = asyncio.get_running_loop().time()

    def note_stored(self, key: TaskKey) -> None:
        """Note that the stream stored an append."""
        if self._full:
            self._full.pop(self._stream(key), None)

    def trouble(self) -> str:
        """What keeps messages from being stored; empty: nothing that is known."""
        now = asyncio.get_running_loop().time()
        found = [f"{stream} answers no append; see its nats-server" for stream in self._silent]
        found += [f"{name} is full" for name, then in self._full.items() if now - then < _VALID]
        return "; ".join(sorted(found))

    def _stream(self, key: TaskKey) -> str:
        return self._bus.streams.of_shard(key.shard)
