"""Common times for the periodic work of a process.

An idle process costs what its wake-ups cost, of itself and of the servers that it asks. So what is
done every second, or twice a second, is done at the same time: one wake-up, one write to NATS, one
answer.
"""

import asyncio
import random

_OFFSET = random.randrange(3_600_000) / 1000  # noqa: S311 - no secret
"""Seconds from the zero of the loop's clock to one of the process's times: processes must not all
ask at the same time, also not once a minute. A whole number of milliseconds, as uvloop's timers
are, so that those of different intervals fall due together."""

_NEAR = 0.01
"""Seconds by which another process' timer may be early."""


async def tick(interval: float) -> None:
    """Sleep until the next of the process's times that are `interval` seconds apart.

    It is `interval` away on average. After work that took longer than half of it, one is left out.
    """
    await asyncio.sleep(until_tick(interval))


def until_tick(interval: float) -> float:
    """Return the seconds until that time: between half and one and a half of `interval`."""
    if interval <= 0:
        return 0.0
    left = interval - _now() % interval
    return left if left >= interval / 2 else left + interval


def last_tick_within(seconds: float, interval: float) -> float:
    """Return the seconds until the last of those times that is at most `seconds` away.

    `interval` is at most `seconds`. A time that is nearly reached counts as reached.
    """
    return seconds + _NEAR - (_now() + _NEAR) % interval


def _now() -> float:
    """Return the seconds since one of the process's times."""
    return asyncio.get_running_loop().time() - _OFFSET
