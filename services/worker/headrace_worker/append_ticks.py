"""Ticks of a worker, at which the appends of many runs start together.

Each append alone costs a write to the socket, a wake-up of NATS, and one each of the worker for the
acknowledgement and of every gateway with a client. Appends that start in one turn of the event loop
share these. The rate of appends decides: where few would share a tick, none waits.
"""

import math
from collections.abc import Callable
from typing import Protocol

LEAST = 5.0
"""Appends per tick from which waiting for it pays off."""

ENOUGH = 20.0
"""Appends per tick from which more of them would save little: ticks come as often as each has that
many."""

MOST_OFTEN = 3
"""Ticks in the longest time that text waits, where they come most often."""

MERGING = 0.1
"""Two tokens of a run at a model's pace. From this linger on, several of them are to share an
append, so ticks never come more often."""

MEMORY = 0.5
"""Seconds after which an append counts a third (1/e) in the rate."""

SILENCE = 0.14
"""What is left of the average after twice `MEMORY` without appends: a load that follows is new."""

LEAST_SEEN = 0.3
"""Share of an average over `MEMORY` that 0.18 s of appends make up. What has been seen since a
silence counts as at least that, so that a few appends at the same moment are no high rate."""

type Start = Callable[[], None]
"""Starts a run's append."""


class TickTimers(Protocol):
    """The parts of an event loop that ticks use."""

    def time(self) -> float:
        """Return the time in seconds."""

    def call_at(self, when: float, callback: Callable[[], None], /) -> object:
        """Call `callback` at the time `when`."""


class AppendTicks:
    """Starts appends at the next tick, if enough runs append."""

    def __init__(self, linger: float, clock: TickTimers, least: float = LEAST) -> None:
        """Tick every `linger` seconds of `clock`, an event loop; 0: never.

        Many appends tick up to `MOST_OFTEN` times as often, if it is below `MERGING`. From `least`
        appends per tick on, an append waits for the next one.
        """
        self._least = least
        self._linger, self._clock = linger, clock
        self._waiting: list[Start] = []
        self._average = self._seen = 0.0
        """Appends per second, averaged over about the last `MEMORY` seconds from zero on, and the
        share of that average that appends since the last silence make up."""
        self._counted = 0.0
        """When an append was last counted, in loop time."""
        self._last: Start | None = None

    def join(self, start: Start) -> bool:
        """Call `start` at the next tick, or return False: the append should start at once.

        Several appends of one run in a row count as one, so a single run never waits.
        """
        if not self._linger:
            return False
        rate = self._rate_with(start)
        if rate * self._linger < self._least:
            return False
        if not self._waiting:
            # Multiples of the interval are the same moments for all workers of a machine.
            interval = self._interval(rate)
            ticks = self._clock.time() // interval + 1
            self._clock.call_at(ticks * interval, self._tick)
        self._waiting.append(start)
        return True

    def _interval(self, rate: float) -> float:
        if self._linger >= MERGING:
            return self._linger
        often = int(rate * self._linger / ENOUGH)
        return self._linger / min(max(often, 1), MOST_OFTEN)

    def _rate_with(self, start: Start) -> float:
        """Count an append; return the appends per second: of a new load, those since it began."""
        now = self._clock.time()
        left = math.exp((self._counted - now) / MEMORY)
        self._counted = now
        self._average *= left
        self._seen = 1 - (1 - self._seen) * left if left > SILENCE else 0.0
        if start != self._last:
            self._last = start
            self._average += 1 / MEMORY
        return self._average / max(self._seen, LEAST_SEEN)

    def _tick(self) -> None:
        starting, self._waiting = self._waiting, []
        for start in starting:
            start()
