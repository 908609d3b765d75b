"""All open streams of a gateway: keep-alives, stall detection, and closing on shutdown."""

import asyncio
from contextlib import suppress
from typing import Protocol

from headrace.background import keep_running

_TICK = 1.0
CLOSE_TIMEOUT = 2.0
"""Seconds that streams have to send why they end, before their connections are closed."""


class Stream(Protocol):
    """The registry's interface to a stream."""

    def tick(self, now: float) -> None:
        """Handle the time `now` (loop time, seconds); called about once a second."""

    def close(self, reason: str) -> None:
        """End soon, and send the reason to the client, which may reconnect."""


class OpenStreams:
    """The registry of open streams."""

    def __init__(self) -> None:
        """Begin without streams."""
        self._open: set[Stream] = set()
        self._task: asyncio.Task[None] | None = None
        self._closing = ""
        self._empty = asyncio.Event()

    def __len__(self) -> int:
        """Return the number of open streams."""
        return len(self._open)

    def start(self) -> None:
        """Begin to call each stream's `tick` about once a second."""
        self._task = keep_running(self._run, "streams")

    async def stop(self, reason: str = "the gateway is restarting; reconnect") -> None:
        """Close all streams with `reason`, also later ones; wait while they send it."""
        if self._closing:
            return
        self._closing = reason
        for stream in list(self._open):
            stream.close(reason)
        await self._gone(CLOSE_TIMEOUT)
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _gone(self, seconds: float) -> None:
        """Return when no stream is open, or after `seconds`."""
        self._empty.clear()
        if self._open:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._empty.wait(), seconds)

    def add(self, stream: Stream) -> None:
        """Add a stream that has begun."""
        self._open.add(stream)
        if self._closing:
            stream.close(self._closing)

    def remove(self, stream: Stream) -> None:
        """Remove a stream that has ended."""
        self._open.discard(stream)
        if not self._open:
            self._empty.set()

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(_TICK)
            now = loop.time()
            for stream in list(self._open):
                stream.tick(now)
