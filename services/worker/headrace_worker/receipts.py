"""Waiting until an event that was offered is stored."""

import asyncio

from headrace_worker.errors import LegOver


class Receipts:
    """Who waits for which generation of one log."""

    def __init__(self, stored: int) -> None:
        """Begin with a log whose last event has the generation `stored`."""
        self._stored = stored
        self._waiting: list[tuple[int, asyncio.Future[None]]] = []

    async def of(self, generation: int) -> None:
        """Return when the event with `generation` is stored.

        Raises:
            LegOver: it will never be.
        """
        if generation <= self._stored:
            return
        receipt: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((generation, receipt))
        await receipt

    def stored(self, generation: int) -> None:
        """Let those go whose events are stored: all up to `generation` are."""
        self._stored = generation
        if not self._waiting:
            return
        waiting, self._waiting = self._waiting, []
        for each, receipt in waiting:
            if each > generation:
                self._waiting.append((each, receipt))
            elif not receipt.done():
                receipt.set_result(None)

    def lost(self) -> None:
        """Tell everybody who still waits that nothing more is stored."""
        waiting, self._waiting = self._waiting, []
        for _, receipt in waiting:
            if not receipt.done():
                receipt.set_exception(LegOver("the leg is over"))
                receipt.exception()  # asked for, so that nobody waiting is no complaint
