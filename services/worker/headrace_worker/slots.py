"""How many more runs there is room for: places are waited for in turn, and given back."""

import asyncio
from collections import deque


class Slots:
    """A number of places."""

    def __init__(self, total: int) -> None:
        """Begin with `total` free places."""
        self._free = total
        self._queue: deque[asyncio.Future[None]] = deque()

    @property
    def contended(self) -> bool:
        """Whether somebody waits for a place."""
        return bool(self._queue)

    async def take(self) -> None:
        """Take one place, when it is one's turn."""
        if self.take_more(1):
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._queue.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
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
        while self._free and self._queue:
            turn = self._queue.popleft()
            if not turn.done():
                self._free -= 1
                turn.set_result(None)
