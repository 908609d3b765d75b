"""The worker's concurrency limit, adapted to its load.

Hundreds of agents that wait for a model fit in one worker, but only a few that compute. So a worker
starts with a limit that suits either, and raises it while the runs leave it processor time. While
it is overloaded, it requests no more runs, so that less busy workers get them.
"""

import asyncio
import logging
import time

from headrace import metrics
from headrace_worker.concurrency import ConcurrencyLimit

_log = logging.getLogger(__name__)

LEAST = 64
"""Concurrent runs that are allowed at any load, up to the configured maximum."""

LAG = 0.1
"""Seconds by which the event loop runs a timer late when it is overloaded."""

BUSY = 0.9
"""Processor time per second, in seconds, of a worker that is overloaded."""

_LOOK_EVERY = 0.1
_LOOK_EVERY_AT_REST = 0.5


def adapted(total: int, in_use: int, most: int, *, overloaded: bool) -> int:
    """Return the limit after `total`, with `in_use` permits acquired and `most` as the maximum."""
    least = min(LEAST, most)
    if overloaded:
        return max(least, min(total, in_use))
    if in_use >= total // 2:
        return min(most, 2 * total)
    if in_use < total // 4:
        # A later burst starts with few runs again, before its load is known.
        return max(least, total // 2)
    return total


class AdaptiveLimit:
    """Adapts a limit to the load of this process."""

    def __init__(self, most: int) -> None:
        """Allow up to `most` permits."""
        self.limit = ConcurrencyLimit(min(LEAST, most))
        """The adapted limit."""
        self._most = most
        metrics.RUNS_LIMIT.set(self.limit.total)

    async def run(self) -> None:
        """Adapt the limit until cancelled."""
        loop, was_overloaded = asyncio.get_running_loop(), False
        while True:
            pause = _LOOK_EVERY if self._is_near else _LOOK_EVERY_AT_REST
            began, spent = loop.time(), time.process_time()
            await asyncio.sleep(pause)
            took = loop.time() - began
            is_busy = time.process_time() - spent > BUSY * took
            overloaded = is_busy or took - pause > LAG
            self.adapt(overloaded=overloaded)
            if overloaded and not was_overloaded and self._is_near:
                _log.info("overloaded: at most %d concurrent runs for now", self.limit.total)
            was_overloaded = overloaded

    def adapt(self, *, overloaded: bool) -> None:
        """Set the limit that follows from the load and the permits in use."""
        limit = self.limit
        limit.resize(adapted(limit.total, limit.in_use, self._most, overloaded=overloaded))
        metrics.RUNS_LIMIT.set(limit.total)

    @property
    def _is_near(self) -> bool:
        """Whether the limit is raised, or may soon be needed."""
        return self.limit.total > LEAST or self.limit.in_use >= self.limit.total // 2
