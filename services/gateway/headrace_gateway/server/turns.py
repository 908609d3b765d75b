"""A bounded number of turns at receiving, which lines get in rotation."""

import asyncio


class Turns:
    """Turns that are waited for in several lines, one for each connection, for example.

    A line in which many wait, perhaps for nothing, delays the first of another one by no more than
    one turn of each line.
    """

    def __init__(self, most: int, *, latest_first: bool = False) -> None:
        """Give out `most` turns at a time; within a line to the first, or to the latest."""
        self._free, self._latest_first = most, latest_first
        self._lines: dict[str, dict[asyncio.Future[None], None]] = {}
        """Those that wait, in order of their arrival; the line that is next first."""

    @property
    def waiting(self) -> int:
        """How many wait for a turn."""
        return sum(map(len, self._lines.values()))

    async def acquire(self, line: str = "") -> None:
        """Return once the caller has a turn, which it must give back."""
        if self._free:
            self._free -= 1
            return
        turn = asyncio.get_running_loop().create_future()
        self._lines.setdefault(line, {})[turn] = None
        try:
            await turn
        except asyncio.CancelledError:
            if turn.cancelled():
                self._leave(line, turn)
            else:
                self.give_back()
            raise

    def give_back(self) -> None:
        """Give a turn to the next that waits."""
        while self._lines:
            name = next(iter(self._lines))
            line = self._lines.pop(name)
            turn = next(reversed(line) if self._latest_first else iter(line))
            del line[turn]
            if line:
                self._lines[name] = line
            if not turn.done():
                turn.set_result(None)
                return
        self._free += 1

    def _leave(self, name: str, turn: asyncio.Future[None]) -> None:
        line = self._lines.get(name, {})
        line.pop(turn, None)
        if not line:
            self._lines.pop(name, None)
