"""Work that goes on when the client who asked for it leaves.

What changes a task must not stop halfway because a connection closed, and what several clients wait
for must not fail because one of them left. Such work runs as a task of the gateway. Requests wait
for it, and it is ended before the gateway hangs up.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

_log = logging.getLogger(__name__)

TIMEOUT = 5.0
"""Seconds that work has to end when the gateway stops."""


class Detached:
    """The work of one gateway that belongs to no client."""

    def __init__(self) -> None:
        """Have none yet."""
        self._tasks = set[asyncio.Task[Any]]()

    def start[Result](self, work: Coroutine[Any, Any, Result]) -> asyncio.Task[Result]:
        """Begin `work` at once, and keep it until it is over."""
        loop = asyncio.get_running_loop()
        task = asyncio.Task(work, loop=loop, eager_start=True)
        if not task.done():
            self._tasks.add(task)  # The loop itself holds tasks but weakly.
            task.add_done_callback(self._over)
        return task

    async def run[Result](
        self,
        work: Coroutine[Any, Any, Result],
        unwanted: Callable[[Result], Awaitable[None]] | None = None,
    ) -> Result:
        """Return what `work` does.

        If whoever waits is cancelled, the work goes on, and its result is given to `unwanted`.
        """
        task = self.start(work)
        if task.done():
            return task.result()
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            self.start(_give_back(task, unwanted))
            raise

    async def drain(self) -> None:
        """Return when all work is over; what takes too long is cancelled."""
        deadline = asyncio.get_running_loop().time() + TIMEOUT
        while self._tasks:
            left = deadline - asyncio.get_running_loop().time()
            if left <= 0:
                break
            await asyncio.wait(set(self._tasks), timeout=left)
        unfinished = list(self._tasks)
        if unfinished:
            _log.warning(
                "%d operations did not end in time; their outcome is unknown", len(unfinished)
            )
        for task in unfinished:
            task.cancel()
        await asyncio.gather(*unfinished, return_exceptions=True)

    def _over(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            # Whoever still waits for it is told.
            _log.debug("detached work failed: %r", error)


async def _give_back[Result](
    task: asyncio.Task[Result], unwanted: Callable[[Result], Awaitable[None]] | None
) -> None:
    try:
        result = await task
    except Exception as error:  # noqa: BLE001 - nobody is left to be told
        _log.info("an operation failed after its client had left: %s", error)
        return
    if unwanted is not None:
        await unwanted(result)
