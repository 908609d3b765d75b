"""Work that continues when its client disconnects.

A change of a task must not stop halfway because a connection closed. Work that several clients wait
for must not fail because one of them disconnected. Such work runs as an asyncio task of the
gateway. Requests wait for it, and it ends before the gateway closes its connections.
"""

import asyncio
import logging
from collections.abc import Coroutine
from contextlib import AbstractAsyncContextManager
from typing import Any

from headrace_gateway.timing import TIMING

_log = logging.getLogger(__name__)


class BackgroundWork:
    """The detached work of one gateway."""

    def __init__(self, drain: float = TIMING.drain) -> None:
        """Begin without work; when the gateway stops, work has `drain` seconds to end."""
        self._drain = drain
        self._tasks = set[asyncio.Task[Any]]()

    def start[Result](self, work: Coroutine[Any, Any, Result]) -> asyncio.Task[Result]:
        """Begin `work` at once, and keep a reference to it until it ends."""
        loop = asyncio.get_running_loop()
        task = asyncio.Task(work, loop=loop, eager_start=True)
        if not task.done():
            self._tasks.add(task)  # The event loop holds only weak references.
            task.add_done_callback(self._over)
        return task

    async def run[Result](self, work: Coroutine[Any, Any, Result]) -> Result:
        """Return the result of `work`.

        If the caller is cancelled, the work continues. A result that is an async context manager,
        as one that holds a feed, is then entered and left, so that it holds nothing.
        """
        # The work ends this wait itself: `asyncio.shield` would take another iteration of the loop.
        is_over: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        task = self.start(_until_over(work, is_over))
        try:
            await is_over
        except asyncio.CancelledError:
            self.start(_let_go(task))
            raise
        return task.result()

    async def drain(self) -> None:
        """Wait for all work to end; cancel what takes longer than allowed."""
        deadline = asyncio.get_running_loop().time() + self._drain
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
            # Callers that still wait get the exception.
            _log.debug("a detached operation failed: %r", error)


async def _until_over[Result](
    work: Coroutine[Any, Any, Result], is_over: asyncio.Future[None]
) -> Result:
    """Return the result of `work`, and set `is_over` unless its waiter has been cancelled."""
    try:
        return await work
    finally:
        if not is_over.done():
            is_over.set_result(None)


async def _let_go(task: asyncio.Task[Any]) -> None:
    """Wait for a result that nobody wants, and free what it holds."""
    try:
        result = await task
    except Exception as error:  # noqa: BLE001 - no caller is left to get it
        _log.info("an operation failed after its client disconnected: %s", error)
        return
    if isinstance(result, AbstractAsyncContextManager):
        async with result:
            pass
