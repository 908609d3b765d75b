"""Starting the appends of a worker's runs together, where there are many of them.

Each append alone costs a write to the socket, a wake-up of nats-server, and one each of the worker
for the acknowledgement and of every gateway with a client. Appends that start in one turn of the
loop share these. A worker whose appends are few and far between never waits.
"""

import asyncio
from collections.abc import Callable

INTERVAL = 0.02
"""Seconds from one burst to the next. Readers don't notice 10 ms on average."""


class AppendBursts:
    """Calls what is to be started at most once per interval: at once, or with all others."""

    def __init__(self, interval: float = INTERVAL) -> None:
        """Create it for one worker, with `interval` seconds between bursts."""
        self._interval = interval
        self._loop = asyncio.get_running_loop()
        self._waiting: list[Callable[[], None]] = []
        self._timer: asyncio.TimerHandle | None = None

    def join(self, start: Callable[[], None]) -> bool:
        """Return whether `start` will be called with the next burst.

        If False, nothing was started within the interval: the caller may start at once.
        """
        if self._timer is None:
            self._timer = self._loop.call_later(self._interval, self._burst)
            return False
        self._waiting.append(start)
        return True

    def _burst(self) -> None:
        starting, self._waiting = self._waiting, []
        again = self._loop.call_later(self._interval, self._burst) if starting else None
        self._timer = again
        for start in starting:
            start()
