"""All open streams of a gateway: their limits, keep-alives, stalls, and their end on shutdown."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Protocol

from starlette.types import ASGIApp, Receive, Scope, Send

from headrace.background import keep_running
from headrace.ticks import tick
from headrace_gateway.refusals import TooManyStreams, TooManyStreamsOfOwner
from headrace_gateway.server.auth.caller import Caller
from headrace_gateway.server.long_responses import deferred_of


class StreamPermit:
    """The permit of one open stream."""

    __slots__ = ("_held", "_limits", "_owner")

    def __init__(self, limits: "StreamLimits", owner: tuple[str, str]) -> None:
        """Hold a permit that `limits` has counted for `owner`."""
        self._limits, self._owner = limits, owner
        self._held = True

    def release(self) -> None:
        """Release the permit; a second call does nothing."""
        if self._held:
            self._held = False
            self._limits.release(self._owner)


class StreamLimits:
    """Counts open streams."""

    def __init__(self, most: int, most_per_owner: int, what: str = "streams") -> None:
        """Allow `most` streams in total, and `most_per_owner` per owner; -1 is unlimited.

        Refusals call them `what`.
        """
        self._most, self._most_per_owner, self._what = most, most_per_owner, what
        self._taken = Counter[tuple[str, str]]()
        """By tenant and owner."""
        self._count = 0

    def __len__(self) -> int:
        """Return the number of open streams."""
        return self._count

    def acquire(self, caller: Caller) -> StreamPermit:
        """Return a permit for one more stream of the caller.

        Raises:
            TooManyStreams: the gateway has reached its limit.
            TooManyStreamsOfOwner: the caller has reached its limit.
        """
        if 0 <= self._most <= self._count:
            raise TooManyStreams(
                f"this gateway has {self._most} open {self._what}, its limit; try another gateway"
            )
        owner = caller.tenant, caller.owner
        if 0 <= self._most_per_owner <= self._taken[owner]:
            raise TooManyStreamsOfOwner(
                f"you have {self._most_per_owner} open {self._what} on this gateway, the limit"
            )
        self._taken[owner] += 1
        self._count += 1
        return StreamPermit(self, owner)

    def release(self, owner: tuple[str, str]) -> None:
        """Count one stream less for the tenant and owner."""
        self._count -= 1
        self._taken[owner] -= 1
        if not self._taken[owner]:
            del self._taken[owner]

    async def with_permit(
        self, caller: Caller, opening: Callable[[], Awaitable[ASGIApp]]
    ) -> ASGIApp:
        """Return the response of `opening`, which holds a permit until it has been served.

        Raises:
            TooManyStreams, TooManyStreamsOfOwner: as `acquire`; nothing is opened.
        """
        permit = self.acquire(caller)
        try:
            response = await opening()
        except BaseException:
            permit.release()
            raise

        async def serve(scope: Scope, receive: Receive, send: Send) -> None:
            deferred = deferred_of(scope)
            if deferred is not None:
                deferred.at_end(permit.release)
                await response(scope, receive, send)
                return
            try:
                await response(scope, receive, send)
            finally:
                permit.release()

        return serve


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
            await tick(_TICK)
            now = loop.time()
            for stream in list(self._open):
                stream.tick(now)
