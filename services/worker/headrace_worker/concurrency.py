"""How many runs are worked on side by side: limits, and the permits that runs hold."""

import asyncio
import heapq
import itertools
from dataclasses import dataclass


class Turn:
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
        self._queue: list[tuple[float, int, asyncio.Future[None], Turn]] = []
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

    async def take(self, turn: Turn | None = None) -> None:
        """Acquire one permit, in turn."""
        if self.acquire_free(1):
            return
        granted: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        turn = turn or Turn()
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

    slots: ConcurrencyLimit
    """The worker's limit, shared with its other agents."""
    own: ConcurrencyLimit
    """The agent's."""

    @property
    def scarce(self) -> bool:
        """Whether a free permit is one that another queue waits for."""
        return self.slots.scarce or self.own.scarce

    async def take(self, turn: Turn, own_turn: Turn) -> None:
        """Acquire a permit of both, in turn."""
        await self.own.take(own_turn)
        try:
            await self.slots.take(turn)
        except BaseException:
            self.own.give_back(1)
            raise

    def acquire_free(self, wanted: int) -> int:
        """Acquire up to `wanted` permits that are free and not waited for; return how many."""
        own = self.own.acquire_free(wanted)
        granted = self.slots.acquire_free(own)
        self.own.give_back(own - granted)
        return granted

    def give_back(self, count: int) -> None:
        """Release `count` permits of both."""
        self.own.give_back(count)
        self.slots.give_back(count)

    def enter(self) -> None:
        """Count one queue more."""
        self.own.users += 1
        self.slots.users += 1

    def leave(self) -> None:
        """Count one queue less."""
        self.own.users -= 1
        self.slots.users -= 1


class Permit:
    """A run's permit: released while it waits for others, acquired again, given back once."""

    def __init__(self, room: AgentConcurrency) -> None:
        """Hold a permit of `room` that was acquired before."""
        self._room = room
        self._is_held, self._is_vacated = True, False
        self._waits = 0
        self._acquiring = asyncio.Lock()

    def leave(self) -> None:
        """Wait for something: while anybody who shares the permit waits, others may have it."""
        self._waits += 1
        if self._is_held:
            self._is_held = False
            # Who pulls runs must not keep a permit for a run that may never come.
            self._room.enter()
            self._room.give_back(1)

    def stop_waiting(self) -> None:
        """Wait no more, without the permit: the run is being ended."""
        self._waits -= 1

    async def come_back(self) -> None:
        """Wait no more; return when there is a permit again, if nobody else still waits."""
        self._waits -= 1
        async with self._acquiring:
            if self._is_held or self._is_away():
                return
            await self._room.take(Turn(), Turn())
            if self._is_away():
                self._room.give_back(1)
            else:
                self._is_held = True
                self._room.leave()

    def _is_away(self) -> bool:
        return self._waits > 0 or self._is_vacated

    def vacate(self) -> None:
        """Give the permit back for good."""
        self._is_vacated = True
        if self._is_held:
            self._is_held = False
            self._room.give_back(1)
        else:
            self._room.leave()
