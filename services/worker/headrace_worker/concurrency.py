"""How many runs are worked on side by side: limits, and the permits that runs hold."""

import asyncio
import heapq
import itertools
from dataclasses import dataclass


class PermitTurn:
    """The turn of one who acquires permits again and again: turns come by weight.

    Whoever waits has a mark, and the lowest is next. Each permit that was waited for moves the mark
    on, the less the more weight there is; who did not wait begins at the mark of the last served.
    """

    __slots__ = ("mark", "weight")

    def __init__(self, weight: float = 1.0) -> None:
        """Get turns in proportion to `weight`."""
        self.weight, self.mark = weight, 0.0


class ConcurrencyLimit:
    """A number of permits, handed out in turn."""

    def __init__(self, total: int) -> None:
        """Begin with `total` free permits."""
        self.users = 0
        """Those who acquire permits again and again, and keep one while they wait for a run."""
        self._free = total
        self._queue: list[tuple[float, int, asyncio.Future[None], PermitTurn]] = []
        self._order = itertools.count()
        self._mark = 0.0

    @property
    def contended(self) -> bool:
        """Whether somebody waits for a permit."""
        return bool(self._queue)

    @property
    def scarce(self) -> bool:
        """Whether somebody waits for a place, or would have to."""
        return self.contended or (self.users > 1 and self._free <= 0)

    async def take(self, turn: PermitTurn | None = None) -> None:
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
        """Acquire up to `wanted` permits that are free and not waited for; return how many."""
        taken = 0 if self._queue else max(0, min(wanted, self._free))
        self._free -= taken
        return taken

    def give_back(self, count: int) -> None:
        """Release `count` permits, first for those who wait."""
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
    """The limit of one agent, and the worker's: what all queues of the agent share."""

    of_worker: ConcurrencyLimit
    """The worker's limit, shared with its other agents."""
    of_agent: ConcurrencyLimit
    """The agent's."""

    @property
    def scarce(self) -> bool:
        """Whether a free permit is one that another queue waits for."""
        return self.of_worker.scarce or self.of_agent.scarce

    async def take(self, turn: PermitTurn, own_turn: PermitTurn) -> None:
        """Acquire a permit of both, in turn."""
        await self.of_agent.take(own_turn)
        try:
            await self.of_worker.take(turn)
        except BaseException:
            self.of_agent.give_back(1)
            raise

    def acquire_free(self, wanted: int) -> int:
        """Acquire up to `wanted` permits that are free and not waited for; return how many."""
        of_agent = self.of_agent.acquire_free(wanted)
        granted = self.of_worker.acquire_free(of_agent)
        self.of_agent.give_back(of_agent - granted)
        return granted

    def give_back(self, count: int) -> None:
        """Release `count` permits of both."""
        self.of_agent.give_back(count)
        self.of_worker.give_back(count)

    def enter(self) -> None:
        """Count one queue more."""
        self.of_agent.users += 1
        self.of_worker.users += 1

    def leave(self) -> None:
        """Count one queue less."""
        self.of_agent.users -= 1
        self.of_worker.users -= 1


class Permit:
    """A run's permit: released while it waits for others, acquired again, given back once."""

    def __init__(self, concurrency: AgentConcurrency) -> None:
        """Hold a permit of `concurrency` that was acquired before."""
        self._concurrency = concurrency
        self._is_held, self._is_vacated = True, False
        self._waits = 0
        self._acquiring = asyncio.Lock()

    def leave(self) -> None:
        """Wait for something: while anybody who shares the permit waits, others may have it."""
        self._waits += 1
        if self._is_held:
            self._is_held = False
            # Who pulls runs must not keep a permit for a run that may never come.
            self._concurrency.enter()
            self._concurrency.give_back(1)

    def stop_waiting(self) -> None:
        """Wait no more, without the permit: the run is being ended."""
        self._waits -= 1

    async def come_back(self) -> None:
        """Wait no more; return when there is a permit again, if nobody else still waits."""
        self._waits -= 1
        async with self._acquiring:
            if self._is_held or self._is_away():
                return
            await self._concurrency.take(PermitTurn(), PermitTurn())
            if self._is_away():
                self._concurrency.give_back(1)
            else:
                self._is_held = True
                self._concurrency.leave()

    def _is_away(self) -> bool:
        return self._waits > 0 or self._is_vacated

    def vacate(self) -> None:
        """Give the permit back for good."""
        self._is_vacated = True
        if self._is_held:
            self._is_held = False
            self._concurrency.give_back(1)
        else:
            self._concurrency.leave()
