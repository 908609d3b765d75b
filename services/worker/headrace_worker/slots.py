"""How many more runs there is room for: places are waited for in turn, and given back."""

import asyncio
import heapq
import itertools


class Turn:
    """The standing of one who takes places again and again: turns come by weight.

    Whoever waits has a mark, and the lowest is next. Each place that was waited for moves the mark
    on, the less the more weight there is; who did not wait begins at the mark of the last served.
    """

    __slots__ = ("mark", "weight")

    def __init__(self, weight: float = 1.0) -> None:
        """Get turns in proportion to `weight`."""
        self.weight, self.mark = weight, 0.0


class Slots:
    """A number of places."""

    def __init__(self, total: int) -> None:
        """Begin with `total` free places."""
        self.users = 0
        """Those who take places again and again, and keep one while they wait for a run."""
        self._free = total
        self._queue: list[tuple[float, int, asyncio.Future[None], Turn]] = []
        self._order = itertools.count()
        self._mark = 0.0

    @property
    def contended(self) -> bool:
        """Whether somebody waits for a place."""
        return bool(self._queue)

    @property
    def scarce(self) -> bool:
        """Whether somebody waits for a place, or would have to."""
        return self.contended or (self.users > 1 and self._free <= 0)

    async def take(self, turn: Turn | None = None) -> None:
        """Take one place, when it is one's turn."""
        if self.take_more(1):
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

    def take_more(self, wanted: int) -> int:
        """Take up to `wanted` places that are free and nobody waits for; return how many."""
        taken = 0 if self._queue else max(0, min(wanted, self._free))
        self._free -= taken
        return taken

    def give_back(self, count: int) -> None:
        """Free `count` places, first for those who wait."""
        self._free += count
        while self._free > 0 and self._queue:
            mark, _, granted, turn = heapq.heappop(self._queue)
            if not granted.done():
                self._free -= 1
                self._mark = mark
                turn.mark = mark + 1 / turn.weight
                granted.set_result(None)
