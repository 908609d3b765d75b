"""Background work that runs as long as its service."""

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable
from typing import Any

from headrace.model.errors import BusUnavailable
from headrace.ticks import tick

_log = logging.getLogger(__name__)

_PAUSE = 1.0


def keep_running(
    run: Callable[[], Awaitable[None]], name: str, pause: float = _PAUSE
) -> asyncio.Task[None]:
    """Start `run` in a task; restart it `pause` seconds after it fails, until it returns.

    `run` handles the errors that it expects. The task is not awaited, so any other error would end
    it silently. Such errors are logged under `name`.
    """
    return asyncio.create_task(until_done(run, name, pause), name=name)


async def until_done(run: Callable[[], Awaitable[None]], name: str, pause: float = _PAUSE) -> None:
    """Like `keep_running`, in the caller's own task."""
    while True:
        try:
            await run()
        except Exception:  # noqa: BLE001 - that is what this is for
            _log.exception("%s failed; restarting it", name)
        else:
            return
        await asyncio.sleep(pause)


async def check_regularly(check: Callable[[], Awaitable[None]], interval: float, what: str) -> None:
    """Call `check` every `interval` seconds until cancelled, also if NATS does not answer.

    `what` is checked; it is named in the log.
    """
    # Replicas should not all check at the same time.
    await asyncio.sleep(random.uniform(0, interval))  # noqa: S311
    while True:
        try:
            await check()
        except BusUnavailable as error:
            _log.info("%s will be checked later: %s", what, error)
        await tick(interval)


async def cancelled(task: asyncio.Task[Any]) -> None:
    """Cancel `task` and return when it has ended, whatever comes of it.

    A cancellation of the caller meanwhile is raised. Suppressing `CancelledError` around an await
    of the task would swallow it, and the caller would go on.
    """
    task.cancel()
    await asyncio.wait([task])
    if not task.cancelled():
        task.exception()  # Retrieved, or asyncio would warn about it.
