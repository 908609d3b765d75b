"""Waiting until an event that was offered is stored."""

import asyncio
from collections import deque

from headrace_worker.errors import LegOver


class Receipts:
    """Who waits for which generation of one log."""

    def __init__(self) -> None:
        """Nobody waits yet."""
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()

    async def of(self, generation: int) -> None:
        """Return when the event with `generation`, offered last, is stored.

        Raises:
            LegOver: it will never be.
        """
        receipt: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((generation, receipt))
        await receipt

    def stored(self, generation: int) -> None:
        """Let those go whose events are stored: all up to `generation` are."""
        while self._waiting and self._waiting[0][0] <= generation:
            _, receipt = self._waiting.popleft()
            if not receipt.done():
                receipt.set_result(None)

    def lost(self) -> None:
        """Tell everybody who still waits that nothing more is stored."""
        while self._waiting:
            _, receipt = self._waiting.popleft()
            if not receipt.done():
                receipt.set_exception(LegOver("the leg is over"))
                receipt.exception()  # asked for, so that nobody waiting is no complaint
