"""Wait for something to become true, never longer than a bound."""

import asyncio
import time
from collections.abc import Awaitable, Callable

TIMEOUT = 60.0
"""Bound on hangs, seconds: it costs nothing where nothing hangs."""

_PAUSE = 0.02


def until(holds: Callable[[], object], what: str, timeout: float = TIMEOUT) -> None:
    """Return as soon as `holds()` does.

    Raises:
        AssertionError: `timeout` seconds were not enough for `what`.
    """
    deadline = time.monotonic() + timeout
    while not holds():
        if time.monotonic() > deadline:
            raise AssertionError(f"after {timeout:.0f} s still not: {what}")
        time.sleep(_PAUSE)


async def eventually(
    holds: Callable[[], Awaitable[object]], what: str, timeout: float = TIMEOUT
) -> None:
    """Return as soon as `await holds()` does.

    Raises:
        AssertionError: `timeout` seconds were not enough for `what`.
    """
    deadline = time.monotonic() + timeout
    while not await holds():
        if time.monotonic() > deadline:
            raise AssertionError(f"after {timeout:.0f} s still not: {what}")
        await asyncio.sleep(_PAUSE)
