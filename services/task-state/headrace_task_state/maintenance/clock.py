"""The current time by NATS' clock, which may differ from this machine's.

Due times derive from times that NATS has stamped on messages. So they are compared with NATS' time,
and a wrong local clock ends nothing early. A wrong clock is reported nevertheless: gateways and
workers compute deadlines with their own.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable

from headrace import metrics
from headrace.jetstream.api import server_time
from headrace.jetstream.connection import Bus
from headrace.model.errors import BusUnavailable, StateUnavailable
from headrace_task_state.store import Store

_log = logging.getLogger(__name__)

EVERY = 10.0
"""Seconds between comparisons."""

NATS, REDIS = "NATS", "Redis"


class Clock:
    """NATS' time, and the offsets of its clock and Redis' from this machine's."""

    def __init__(self, bus: Bus, store: Store) -> None:
        """Compare with the servers of `bus` and `store`; until then they count as in step."""
        self._bus, self._store = bus, store
        self._offsets: dict[str, float] = {}

    def now(self) -> float:
        """Return NATS' time, seconds since 1970."""
        return time.time() + self._offsets.get(NATS, 0.0)

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
            await asyncio.sleep(EVERY)

    async def compare(self) -> None:
        """Compare once; the offset of a server that does not answer stays unchanged."""
        before = self.deviation
        await self._compare(NATS, lambda: server_time(self._bus, self._bus.streams.events(0)))
        await self._compare(REDIS, self._store.time)
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
        metrics.CLOCK_OFFSET.labels(server.lower()).set(self._offsets[server])
