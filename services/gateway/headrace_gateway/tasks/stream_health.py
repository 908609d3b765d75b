"""Whether the event streams store messages: by what became of this gateway's appends, or by asking.

A stream whose server has met a full disk answers no append at all, until the server is restarted. A
message sent meanwhile would be in doubt like the first one. So it is refused before it is sent, and
its client may repeat it. A stream at its limit delays tasks that were just accepted.
"""

import asyncio
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from headrace.jetstream.api import Json, stream_info
from headrace.jetstream.connection import Bus
from headrace.model.errors import BusUnavailable
from headrace.model.task import TaskKey

_REFUSAL_VALID = 10.0
"""Seconds for which a stream that refused an append for lack of room counts as full."""

_EVERY = 1.0
"""Seconds between reads of one stream, while callers request it."""

_READ_VALID = 5.0
"""Seconds for which a read stays valid."""

_TIMEOUT = 2.0
_LEAST = 4096
"""Free bytes below which a stream counts as full; for a large stream, a hundredth of it."""


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
        self.full = dict[str, float]()
        """When a stream last refused an append for lack of room; loop time."""

    def check(self, key: TaskKey) -> None:
        """Return unless the stream of the task's log answers no append.

        Raises:
            LogSilent: It answers none. Repeating the request is safe.
        """
        if (stream := self._stream(key)) in self._silent:
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
        self.full[self._stream(key)] = asyncio.get_running_loop().time()

    def note_stored(self, key: TaskKey) -> None:
        """Note that the stream stored an append."""
        self.full.pop(self._stream(key), None)

    def trouble(self) -> str:
        """What keeps messages from being stored; empty: nothing that is known."""
        now = asyncio.get_running_loop().time()
        found = [f"{stream} answers no append; see its nats-server" for stream in self._silent]
        found += [
            f"{name} is full" for name, then in self.full.items() if now - then < _REFUSAL_VALID
        ]
        return "; ".join(sorted(found))

    def _stream(self, key: TaskKey) -> str:
        return self._bus.streams.of_shard(key.shard)


@dataclass(slots=True)
class _StreamLook:
    started: float
    is_full: bool = False


class FullStreams:
    """Reads whether streams are full, for callers whose log is silent; at most once a second."""

    def __init__(self, bus: Bus) -> None:
        """Read streams over `bus`."""
        self._bus = bus
        self._looks: dict[str, _StreamLook] = {}
        self._looking: dict[str, asyncio.Task[None]] = {}

    def has(self, key: TaskKey, now: float) -> bool:
        """Return whether the task's stream was full at the last read; never waits.

        If a read is due, start one. `now` is loop time.
        """
        stream = self._bus.streams.of_shard(key.shard)
        look = self._looks.get(stream)
        if stream not in self._looking and (look is None or now - look.started > _EVERY):
            task = asyncio.create_task(self._look(stream, now), name=f"room in {stream}")
            self._looking[stream] = task
            task.add_done_callback(lambda _: self._looking.pop(stream))
        return look is not None and look.is_full and now - look.started < _READ_VALID

    async def _look(self, stream: str, now: float) -> None:
        look = _StreamLook(now)
        try:
            info = await stream_info(self._bus, stream, timeout=_TIMEOUT)
        except BusUnavailable:
            pass  # Other code reports that JetStream does not answer.
        else:
            look.is_full = _is_full(info)
        self._looks[stream] = look


def _is_full(info: Json) -> bool:
    limit = info["config"].get("max_bytes", -1)
    return bool(limit >= 0 and info["state"]["bytes"] > limit - max(_LEAST, limit // 100))
