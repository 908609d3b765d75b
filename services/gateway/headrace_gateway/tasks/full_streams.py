"""Whether an event stream is at its limit, which delays tasks that were just accepted."""

import asyncio
from dataclasses import dataclass

from headrace.jetstream.api import Json, stream_info
from headrace.jetstream.connection import Bus
from headrace.model.errors import BusUnavailable
from headrace.model.task import TaskKey

_EVERY = 1.0
"""Seconds between reads of one stream, while callers request it."""

_VALID = 5.0
"""Seconds for which a read stays valid."""

_TIMEOUT = 2.0
_LEAST = 4096
"""Free bytes below which a stream counts as full; for a large stream, a hundredth of it."""


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
        return look is not None and look.is_full and now - look.started < _VALID

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
