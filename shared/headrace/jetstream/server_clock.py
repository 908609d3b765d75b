"""The current time by NATS' clock, which may differ from this machine's.

Due times derive from times that NATS has stamped on messages. So task state compares them with
NATS' time, and a wrong clock of its own ends nothing early. Workers tell agents NATS' time, too,
and measure sleeps and deadlines by it. Every service reports a wrong clock: gateways compute
deadlines, and all state times of statuses, with their own.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime
from typing import override

from headrace import metrics
from headrace.clock import TaskClock, task_clock
from headrace.jetstream.api import server_time
from headrace.jetstream.connection import Bus
from headrace.model.errors import BusUnavailable, StateUnavailable

_log = logging.getLogger(__name__)

EVERY = 30.0
"""Seconds between comparisons."""

_SOON = 1.0
"""The same until NATS has answered once."""

_NATS = "NATS"


class ServerClock:
    """NATS' time, and the offsets of its clock and others' from this machine's."""

    def __init__(
        self, bus: Bus, others: Mapping[str, Callable[[], Awaitable[float]]] | None = None
    ) -> None:
        """Compare with the server of `bus` and `others`; until then they count as in step.

        Those return the time of a server in seconds since 1970, or raise StateUnavailable.
        Between two comparisons time passes as by this machine's monotonic clock: its time of day
        may be set meanwhile. On Linux that clock stands still while a machine is suspended, so
        after that the time is behind until the next comparison: what is due happens later, by up to
        `EVERY` seconds.
        """
        self._ask = {_NATS: lambda: server_time(bus, bus.streams.events(0)), **(others or {})}
        self._offsets: dict[str, float] = {}
        self.known: tuple[float, float] | None = None
        """NATS' time when it was last compared, and the monotonic time of that moment."""

    def now(self) -> float:
        """Return NATS' time, seconds since 1970."""
        if self.known is None:
            return time.time()
        there, then = self.known
        return there + time.monotonic() - then

    @property
    def deviation(self) -> str:
        """Servers whose clocks differ too much, and by how much; empty: none."""
        apart = {
            name: by for name, by in self._offsets.items() if abs(by) > metrics.MAX_CLOCK_OFFSET
        }
        return ", ".join(f"{name} is {by:+.1f} s from this clock" for name, by in apart.items())

    async def run(self) -> None:
        """Compare periodically until cancelled."""
        while True:
            await self.compare()
            await asyncio.sleep(EVERY if self.known else _SOON)

    async def compare(self) -> None:
        """Compare once; the offset of a server that does not answer stays unchanged."""
        before = self.deviation
        for server, ask in self._ask.items():
            await self._compare(server, ask)
        if (now := self.deviation) and not before:
            _log.error(
                "clocks are not synchronized: %s; deadlines are wrong by the same amount", now
            )
        elif before and not now:
            _log.info("clocks are synchronized again")

    async def _compare(self, server: str, ask: Callable[[], Awaitable[float]]) -> None:
        started, own_time = time.monotonic(), time.time()
        try:
            there = await ask()
        except (BusUnavailable, StateUnavailable) as error:
            _log.debug("the clock of %s: %s", server, error)
            return
        doubt = (time.monotonic() - started) / 2
        offset = there - own_time - doubt
        # Within the uncertainty the offset may be zero.
        self._offsets[server] = offset if abs(offset) > doubt else 0.0
        if server == _NATS:
            self.known = own_time + self._offsets[server], started
        metrics.CLOCK_OFFSET.labels(server.lower()).set(self._offsets[server])


class ServerTaskClock(TaskClock):
    """NATS' time, for agents and their tasks: a machine's clock may be wrong, or be set."""

    def __init__(self, server: ServerClock) -> None:
        """Tell the time that `server` knows."""
        self._server = server

    @override
    def now(self) -> datetime:
        known = self._server.known
        if known is None:
            return super().now()
        # As the server's `now`, without a call of it: each run asks for the time.
        return datetime.fromtimestamp(known[0] + time.monotonic() - known[1], UTC)


def tasks_clock(server: ServerClock) -> TaskClock:
    """Return NATS' time for tasks, or the current context's clock if that is not the machine's."""
    current = task_clock()
    return ServerTaskClock(server) if type(current) is TaskClock else current
