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


async def eventually[T](
    look: Callable[[], Awaitable[T | None]], what: str = "", timeout: float = TIMEOUT
) -> T:
    """Return what `await look()` finds, as soon as that is something.

    Raises:
        AssertionError: `timeout` seconds were not enough for `what`.
    """
    bound = asyncio.timeout(timeout)
    try:
        async with bound:
            while not (found := await look()):  # noqa: ASYNC110  # what changes is elsewhere
                await asyncio.sleep(_PAUSE)
    except TimeoutError as error:
        if not bound.expired():
            raise
        name = what or getattr(look, "__qualname__", "it")
        raise AssertionError(f"after {timeout:.0f} s still not: {name}") from error
    return found


async def soon(holds: Callable[[], object], what: str, timeout: float = TIMEOUT) -> None:
    """Return as soon as `holds()` does, which need not be awaited.

    Raises:
        AssertionError: `timeout` seconds were not enough for `what`.
    """

    async def held() -> bool:
        return bool(holds())

    await eventually(held, what, timeout)
