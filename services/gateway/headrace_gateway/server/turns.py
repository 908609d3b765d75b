"""A bounded number of turns at receiving, which connections get in rotation."""

import asyncio
from collections import deque


class Turns:
    """Turns that wait in one line for each connection.

    A connection on which many wait, perhaps for nothing, delays the first of another one by no more
    than one turn of each connection.
    """

    def __init__(self, most: int) -> None:
        """Give out `most` turns at a time."""
        self._free = most
        self._lines: dict[str, deque[asyncio.Future[None]]] = {}
        """By connection, the one that is next first."""

    async def take(self, connection: str) -> None:
        """Return once the caller has a turn, which it must give back."""
        if self._free:
            self._free -= 1
            return
        turn = asyncio.get_running_loop().create_future()
        self._lines.setdefault(connection, deque()).append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if not turn.cancelled():
                self.give_back()
            raise

    def give_back(self) -> None:
        """Give a turn to the next that waits."""
        while self._lines:
            connection = next(iter(self._lines))
            line = self._lines.pop(connection)
            turn = line.popleft()
            if line:
                self._lines[connection] = line
            if not turn.done():
                turn.set_result(None)
                return
        self._free += 1
