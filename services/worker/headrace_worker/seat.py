"""The place that one run takes, and gives back while it only waits for others."""

import asyncio

from headrace_worker.room import Room
from headrace_worker.slots import Turn


class Seat:
    """A place in a room: begun with, left and come back to any number of times, vacated once."""

    def __init__(self, room: Room) -> None:
        """Sit on a place of `room` that is taken already."""
        self._room = room
        self._is_seated, self._is_vacated = True, False
        self._waits = 0
        self._coming = asyncio.Lock()

    def leave(self) -> None:
        """Wait for something: while anybody who shares the seat does, others may have it."""
        self._waits += 1
        if self._is_seated:
            self._is_seated = False
            # Who pulls runs must not keep a place for a run that may never come.
            self._room.enter()
            self._room.give_back(1)

    def stop_waiting(self) -> None:
        """Wait no more, without sitting down again: the run is being ended."""
        self._waits -= 1

    async def come_back(self) -> None:
        """Wait no more; return when there is a place again, if nobody else still waits."""
        self._waits -= 1
        async with self._coming:
            if self._is_seated or self._is_away():
                return
            await self._room.take(Turn(), Turn())
            if self._is_away():
                self._room.give_back(1)
            else:
                self._is_seated = True
                self._room.leave()

    def _is_away(self) -> bool:
        return self._waits > 0 or self._is_vacated

    def vacate(self) -> None:
        """Give the place back for good."""
        self._is_vacated = True
        if self._is_seated:
            self._is_seated = False
            self._room.give_back(1)
        else:
            self._room.leave()
