"""Wait until the view has caught up with the log as it was when a request arrived."""

import asyncio
from collections.abc import Iterable

from headrace.jetstream.api import stream_state
from headrace.jetstream.connection import Bus
from headrace.model.errors import StateUnavailable
from headrace_task_state.projector.applied import wait_until_applied
from headrace_task_state.store import Heads, Range, Reader

_ELECTION = 2.0
TIMEOUT = 3.0
"""Seconds that a request waits for the view."""

STORE_TIMEOUT = 1.5
"""Seconds that the store may take to say how far the view is, which takes it a millisecond."""

_WITH_FORMER = 3.5
"""Seconds that it waits if an earlier check must end first: less than an answer may take."""

_PAUSE = 0.015
"""Seconds until the view is looked at again that is behind although a replica was asked: nobody
applies a range, or the replica that answered writes another version's view."""

_BEHIND = "the view is behind the log; try again"


class ViewBehind(StateUnavailable):
    """The view has not caught up in time, for instance after an election; it soon will."""


class Frontier:
    """Checks whether the view reflects all that the leaders had at some moment.

    Requests that arrive during a check wait for the next check, which starts after they arrived. So
    any number of requests costs one check at a time.
    """

    def __init__(
        self,
        bus: Bus,
        reader: Reader,
        ranges: Iterable[Range],
        store_timeout: float = STORE_TIMEOUT,
    ) -> None:
        """Check all of `ranges`. The store must answer in `store_timeout` seconds."""
        self._bus, self._reader, self._store_timeout = bus, reader, store_timeout
        self.ranges = list(ranges)
        self._running: asyncio.Task[Heads] | None = None
        self._next: asyncio.Task[Heads] | None = None

    async def reached(self) -> Heads:
        """Wait until the view reflects all that was in the log at the call; return those heads.

        The view may be lost right after, so its readers pass these heads with the query.

        Raises:
            ViewBehind: it did not catch up in time.
            StateUnavailable: the store does not answer.
            BusUnavailable: NATS does not answer.
        """
        if self._next is None:
            self._next = asyncio.create_task(self._look(self._running), name="frontier")
            self._next.add_done_callback(_retrieve_exception)
        try:
            async with asyncio.timeout(_WITH_FORMER):
                return await asyncio.shield(self._next)
        except TimeoutError:
            raise ViewBehind(_BEHIND) from None

    async def _look(self, former: asyncio.Task[Heads] | None) -> Heads:
        if former is not None:
            await asyncio.wait([former])
        self._running, self._next = self._next, None
        try:
            async with asyncio.timeout(TIMEOUT):
                # What the view reflects before the heads are known, it also does afterwards.
                heads, positions = await asyncio.gather(self._heads(), self._positions())
                pause = 0.0
                while behind := _behind(heads, positions):
                    await asyncio.sleep(pause)
                    waits = (wait_until_applied(self._bus, *one) for one in behind.items())
                    await asyncio.gather(*waits)
                    positions, pause = await self._positions(), _PAUSE
                return heads
        except TimeoutError:
            raise ViewBehind(_BEHIND) from None

    async def _heads(self) -> Heads:
        names = [self._bus.streams.events(place.stream) for place in self.ranges]
        states = await asyncio.gather(*(stream_state(self._bus, name, _ELECTION) for name in names))
        return {place: state.last for place, state in zip(self.ranges, states, strict=True)}

    async def _positions(self) -> list[int]:
        """Return how far the view is.

        A store that does not answer is no view that is late: callers repeat what was late for as
        long as an election takes.
        """
        try:
            async with asyncio.timeout(self._store_timeout):
                return await self._reader.positions(self.ranges)
        except TimeoutError:
            raise StateUnavailable("the store does not answer") from None


def _behind(heads: Heads, positions: Iterable[int]) -> Heads:
    """Return the heads that the view has not reached."""
    at = zip(heads.items(), positions, strict=True)
    return {place: head for (place, head), position in at if position < head}


def _retrieve_exception(look: asyncio.Task[Heads]) -> None:
    # Waiters receive the exception; without waiters, asyncio must not log it.
    if not look.cancelled():
        look.exception()
