"""Wait for something to become true, never longer than a bound."""

import asyncio
import time
from collections.abc import Awaitable, Callable

TIMEOUT = 60.0
"""Bound on hangs, seconds: it costs nothing where nothing hangs."""

_PAUSE, _LONGEST_PAUSE = 0.02, 0.25
_PART = 0.05


def _pause(deadline: float, timeout: float) -> float:
    """Return for how long to look away: a twentieth of the wait so far, within bounds.

    Looking may cost a request, or more, and what takes long need not be seen at once.
    """
    waited = time.monotonic() - (deadline - timeout)
    return min(max(_PAUSE, waited * _PART), _LONGEST_PAUSE)


def until(holds: Callable[[], object], what: str, timeout: float = TIMEOUT) -> None:
    """Return as soon as `holds()` does.

    Raises:
        AssertionError: `timeout` seconds were not enough for `what`.
    """
    deadline = time.monotonic() + timeout
    while not holds():
        if time.monotonic() > deadline:
            raise AssertionError(f"after {timeout:.0f} s still not: {what}")
        time.sleep(_pause(deadline, timeout))


async def eventually[T](
    look: Callable[[], Awaitable[T | None]], what: str = "", timeout: float = TIMEOUT
) -> T:
    """Return what `await look()` finds, as soon as that is something.

    Raises:
        AssertionError: `timeout` seconds were not enough for `what`.
    """
    bound, deadline = asyncio.timeout(timeout), time.monotonic() + timeout
    try:
        async with bound:
            while not (found := await look()):  # noqa: ASYNC110  # what changes is elsewhere
                await asyncio.sleep(_pause(deadline, timeout))
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
