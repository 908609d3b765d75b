"""Limits on concurrent runs, and the permits that runs hold.

Hundreds of agents that wait for a model fit in one worker, but only a few that compute. So a worker
starts with a limit that suits either, and raises it while the runs leave it processor time. While
it is overloaded, it requests no more runs, so that less busy workers get them.
"""

import asyncio
import heapq
import itertools
import logging
import time
from dataclasses import dataclass

from prometheus_client import Gauge

from headrace.ticks import until_tick

# Here, because a gauge without labels is exported, as 0, by each process that imports it.
RUNS_LIMIT = Gauge("headrace_runs_limit", "Concurrent runs that this worker allows at its load.")


class PermitTurn:
    """Weighted turn of a user that acquires permits repeatedly.

    Every waiting user has a mark, and the lowest mark is next. Each permit that a user waited for
    raises its mark, by less the greater its weight. A user that did not wait starts at the mark of
    the last user served.
    """

    __slots__ = ("mark", "weight")

    def __init__(self, weight: float = 1.0) -> None:
        """Get turns in proportion to `weight`."""
        self.weight, self.mark = weight, 0.0


class ConcurrencyLimit:
    """A number of permits, granted in turn."""

    def __init__(self, total: int) -> None:
        """Start with `total` free permits."""
        self.users = 0
        """Users that acquire permits repeatedly, and keep one while they wait for a run."""
        self.total = total
        """Permits in all; more may be in use after `resize`."""
        self._free = total
        self._queue: list[tuple[float, int, asyncio.Future[None], PermitTurn]] = []
        self._order = itertools.count()
        self._mark = 0.0

    @property
    def scarce(self) -> bool:
        """Whether a user waits for a permit, or would have to."""
        return bool(self._queue) or (self.users > 1 and self._free <= 0)

    @property
    def is_ample(self) -> bool:
        """Whether at least half of the permits are left if each user keeps one."""
        return 2 * self.users <= self.total

    @property
    def in_use(self) -> int:
        """Permits that are not free."""
        return self.total - self._free

    def resize(self, total: int) -> None:
        """Change the number of permits; those in use beyond it are not replaced when released."""
        more, self.total = total - self.total, total
        self.give_back(more)

    async def acquire(self, turn: PermitTurn | None = None) -> None:
        """Acquire one permit, in turn."""
        if self.acquire_free(1):
            return
        granted: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        turn = turn or PermitTurn()
        turn.mark = max(turn.mark, self._mark)
        heapq.heappush(self._queue, (turn.mark, next(self._order), granted, turn))
        try:
            await granted
        except asyncio.CancelledError:
            if granted.done() and not granted.cancelled():
                self.give_back(1)
            raise

    def acquire_free(self, wanted: int) -> int:
        """Acquire up to `wanted` permits that are free with no user waiting; return how many."""
        taken = 0 if self._queue else max(0, min(wanted, self._free))
        self._free -= taken
        return taken

    def give_back(self, count: int) -> None:
        """Release `count` permits; waiting users get them first."""
        self._free += count
        while self._free > 0 and self._queue:
            mark, _, granted, turn = heapq.heappop(self._queue)
            if not granted.done():
                self._free -= 1
                self._mark = mark
                turn.mark = mark + 1 / turn.weight
                granted.set_result(None)


@dataclass(frozen=True, slots=True)
class AgentConcurrency:
    """The limits of one agent and of its worker, shared by all queues of the agent."""

    of_worker: ConcurrencyLimit
    """The worker's limit, shared with its other agents."""
    of_agent: ConcurrencyLimit
    """The agent's limit."""

    @property
    def scarce(self) -> bool:
        """Whether another queue waits for a permit, or would have to."""
        return self.of_worker.scarce or self.of_agent.scarce

    @property
    def is_ample(self) -> bool:
        """Whether queues may keep permits for long without runs."""
        return self.of_worker.is_ample and self.of_agent.is_ample

    async def acquire(self, turn: PermitTurn, own_turn: PermitTurn) -> None:
        """Acquire a permit of both limits, in turn."""
        await self.of_agent.acquire(own_turn)
        try:
            await self.of_worker.acquire(turn)
        except BaseException:
            self.of_agent.give_back(1)
            raise

    def acquire_free(self, wanted: int) -> int:
        """Acquire up to `wanted` permits that are free with no user waiting; return how many."""
        if wanted <= 0:
            return 0
        of_agent = self.of_agent.acquire_free(wanted)
        granted = self.of_worker.acquire_free(of_agent)
        if granted < of_agent:
            self.of_agent.give_back(of_agent - granted)
        return granted

    def give_back(self, count: int) -> None:
        """Release `count` permits of both limits."""
        self.of_agent.give_back(count)
        self.of_worker.give_back(count)

    def enter(self) -> None:
        """Count one more queue."""
        self.of_agent.users += 1
        self.of_worker.users += 1

    def leave(self) -> None:
        """Count one queue less."""
        self.of_agent.users -= 1
        self.of_worker.users -= 1


class Permit:
    """A run's permit: released while the run waits for others, then acquired again."""

    __slots__ = ("_acquiring", "_concurrency", "_is_held", "_is_released", "_waits")

    def __init__(self, concurrency: AgentConcurrency) -> None:
        """Hold a permit of `concurrency` that is already acquired."""
        self._concurrency = concurrency
        self._is_held, self._is_released = True, False
        self._waits = 0
        self._acquiring: asyncio.Lock | None = None  # Most runs wait for no others.

    def begin_wait(self) -> None:
        """Start a wait; the permit is released until all waits of the run are over."""
        self._waits += 1
        if self._is_held:
            self._is_held = False
            # A queue must not keep a permit for a run that may never come.
            self._concurrency.enter()
            self._concurrency.give_back(1)

    def stop_waiting(self) -> None:
        """End a wait without acquiring the permit: the run is ending."""
        self._waits -= 1

    async def end_wait(self) -> None:
        """End a wait; if it was the run's last, wait until the permit is acquired again."""
        self._waits -= 1
        if self._acquiring is None:
            self._acquiring = asyncio.Lock()
        async with self._acquiring:
            if self._is_held or self._is_away():
                return
            await self._concurrency.acquire(PermitTurn(), PermitTurn())
            if self._is_away():
                self._concurrency.give_back(1)
            else:
                self._is_held = True
                self._concurrency.leave()

    def _is_away(self) -> bool:
        return self._waits > 0 or self._is_released

    def release(self) -> None:
        """Release the permit permanently."""
        self._is_released = True
        if self._is_held:
            self._is_held = False
            self._concurrency.give_back(1)
        else:
            self._concurrency.leave()


_log = logging.getLogger(__name__)

LEAST = 64
"""Concurrent runs that are allowed at any load, up to the configured maximum."""

LAG = 0.1
"""Seconds by which the event loop runs a timer late when it is overloaded."""

BUSY = 0.9
"""Processor time per second, in seconds, of a worker that is overloaded."""

_LOOK_EVERY = 0.1
_LOOK_EVERY_AT_REST = 1.0


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
        RUNS_LIMIT.set(self.limit.total)

    async def run(self) -> None:
        """Adapt the limit until cancelled."""
        loop, was_overloaded = asyncio.get_running_loop(), False
        while True:
            pause = until_tick(_LOOK_EVERY if self._is_near else _LOOK_EVERY_AT_REST)
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
        RUNS_LIMIT.set(limit.total)

    @property
    def _is_near(self) -> bool:
        """Whether the limit is raised, or may soon be needed."""
        return self.limit.total > LEAST or self.limit.in_use >= self.limit.total // 2
