"""Waiting until the view has caught up with the log as it was when a question came."""

import asyncio
import operator
from collections.abc import Iterable

from headrace.jetstream.api import stream_state
from headrace.jetstream.connection import Bus
from headrace.model.errors import StateUnavailable
from headrace_task_state.ranges import Range
from headrace_task_state.store import Heads, Reader

_ELECTION = 2.0
PATIENCE = 3.0
"""Seconds that a question waits for the view."""

_PAUSE = 0.015


class Frontier:
    """Knows whether the view reflects all that the leaders had at some moment.

    Questions that come while others are being looked after wait for the next look, which begins
    after they came; so any number of them costs one look at a time.
    """

    def __init__(self, bus: Bus, reader: Reader, ranges: Iterable[Range]) -> None:
        """Look at all of `ranges`."""
        self._bus, self._reader = bus, reader
        self._ranges = list(ranges)
        self._running: asyncio.Task[Heads] | None = None
        self._next: asyncio.Task[Heads] | None = None

    async def reached(self) -> Heads:
        """Return when the view reflects all that was in the log when this was called: up to there.

        The view may be lost right after, so whoever reads it names these heads with the question.

        Raises:
            StateUnavailable: it did not catch up in time, or the store does not answer.
            BusUnavailable: NATS does not answer.
        """
        if self._next is None:
            self._next = asyncio.create_task(self._look(self._running), name="frontier")
            self._next.add_done_callback(_heard)
        return await asyncio.shield(self._next)

    async def _look(self, former: asyncio.Task[Heads] | None) -> Heads:
        if former is not None:
            await asyncio.wait([former])
        self._running, self._next = self._next, None
        try:
            async with asyncio.timeout(PATIENCE):
                return await self._catch_up()
        except TimeoutError:
            raise StateUnavailable("the view is behind the log; try again") from None

    async def _catch_up(self) -> Heads:
        names = [self._bus.streams.events(place.stream) for place in self._ranges]
        states = await asyncio.gather(*(stream_state(self._bus, name, _ELECTION) for name in names))
        heads = {place: state.last for place, state in zip(self._ranges, states, strict=True)}
        while True:
            positions = await self._reader.positions(self._ranges)
            if all(map(operator.ge, positions, heads.values())):
                return heads
            await asyncio.sleep(_PAUSE)


def _heard(look: asyncio.Task[Heads]) -> None:
    # Whoever waits is told of a failure; asyncio complains where nobody does any more.
    if not look.cancelled():
        look.exception()
