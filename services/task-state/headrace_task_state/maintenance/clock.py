"""What time it is by the log: NATS stamps what it stores, and this machine's clock may differ.

What falls due is due by times that NATS has stamped. So it is compared with NATS' time, and a
clock that is wrong here ends nothing early. It is told all the same: deadlines that gateways and
workers reckon with go by theirs.
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

LIMIT = 1.0
"""Seconds by which clocks may differ before it is told."""

NATS, REDIS = "NATS", "Redis"


class Clock:
    """Tells NATS' time, and how far that and the clock of Redis are from this machine's."""

    def __init__(self, bus: Bus, store: Store) -> None:
        """Compare with the servers behind `bus` and `store`; they count as in step until then."""
        self._bus, self._store = bus, store
        self._offsets: dict[str, float] = {}

    def now(self) -> float:
        """Return NATS' time, seconds since 1970."""
        return time.time() + self._offsets.get(NATS, 0.0)

    @property
    def trouble(self) -> str:
        """Which servers' clocks differ by how much; empty: none's by more than `LIMIT`."""
        apart = {name: by for name, by in self._offsets.items() if abs(by) > LIMIT}
        return ", ".join(f"{name} is {by:+.1f} s from this clock" for name, by in apart.items())

    async def run(self) -> None:
        """Compare for ever."""
        while True:
            await self.compare()
            await asyncio.sleep(EVERY)

    async def compare(self) -> None:
        """Compare once; a server that does not answer stays as it was."""
        before = self.trouble
        await self._compare(NATS, lambda: server_time(self._bus, self._bus.streams.events(0)))
        await self._compare(REDIS, self._store.time)
        if (now := self.trouble) and not before:
            _log.error("clocks are not synchronized: %s; deadlines are off by as much", now)
        elif before and not now:
            _log.info("clocks are synchronized again")

    async def _compare(self, server: str, ask: Callable[[], Awaitable[float]]) -> None:
        begun, asked = time.monotonic(), time.time()
        try:
            there = await ask()
        except (BusUnavailable, StateUnavailable) as trouble:
            _log.debug("the clock of %s: %s", server, trouble)
            return
        doubt = (time.monotonic() - begun) / 2
        offset = there - asked - doubt
        # Within the doubt it may well be none.
        self._offsets[server] = offset if abs(offset) > doubt else 0.0
        metrics.CLOCK_OFFSET.labels(server.lower()).set(self._offsets[server])
