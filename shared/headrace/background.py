"""Work that goes on beside everything else for as long as its service does."""

import asyncio
import logging
from collections.abc import Awaitable, Callable

_log = logging.getLogger(__name__)

_PAUSE = 1.0
"""Seconds before what broke begins anew."""


def keep_running(run: Callable[[], Awaitable[None]], name: str) -> asyncio.Task[None]:
    """Begin `run`, and begin it anew whenever it breaks, until it returns.

    Each such task handles the trouble that it knows. What nobody foresaw would end it in silence,
    since nobody awaits it, and the service would go on without it: so it is logged, as `name`.
    """
    return asyncio.create_task(until_done(run, name), name=name)


async def until_done(run: Callable[[], Awaitable[None]], name: str) -> None:
    """As `keep_running`, for whoever has a task for it."""
    while True:
        try:
            await run()
        except Exception:  # noqa: BLE001 - that is what this is for
            _log.exception("%s failed; restarting it", name)
        else:
            return
        await asyncio.sleep(_PAUSE)
