"""All open streams of a gateway: kept alive, cut off when they stall, told when it stops."""

import asyncio
from contextlib import suppress
from typing import Protocol

from headrace.background import keep_running

_TICK = 1.0
FAREWELL = 2.0
"""Seconds that streams have to say why they end, before connections are closed under them."""


class Stream(Protocol):
    """What the registry needs of a stream."""

    def tick(self, now: float) -> None:
        """Be told the time (loop time, seconds), about once a second."""

    def close(self, reason: str) -> None:
        """End soon, telling the client why and that it may reconnect."""


class OpenStreams:
    """The open streams."""

    def __init__(self) -> None:
        """Hold none."""
        self._open: set[Stream] = set()
        self._task: asyncio.Task[None] | None = None
        self._closing = ""
        self._empty = asyncio.Event()

    def __len__(self) -> int:
        """Return how many are open."""
        return len(self._open)

    def start(self) -> None:
        """Begin to tell the time."""
        self._task = keep_running(self._run, "streams")

    async def stop(self, reason: str = "the gateway is restarting; reconnect") -> None:
        """Close every stream, and those that are still to open; let them say so."""
        if self._closing:
            return
        self._closing = reason
        for stream in list(self._open):
            stream.close(reason)
        await self._gone(FAREWELL)
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _gone(self, seconds: float) -> None:
        """Return when no stream is left, or after so long."""
        self._empty.clear()
        if self._open:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._empty.wait(), seconds)

    def add(self, stream: Stream) -> None:
        """Take a stream that has begun."""
        self._open.add(stream)
        if self._closing:
            stream.close(self._closing)

    def remove(self, stream: Stream) -> None:
        """Forget a stream that has ended."""
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
