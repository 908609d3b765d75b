"""How late the event loop is: what blocks it delays every stream and run of the process."""

import asyncio

from headrace.metrics import LOOP_LAG_SECONDS

EVERY = 0.5
"""Seconds between measurements."""


async def measure() -> None:
    """Record periodically, until cancelled, by how much a timer fires too late."""
    loop = asyncio.get_running_loop()
    while True:
        due = loop.time() + EVERY
        await asyncio.sleep(EVERY)
        LOOP_LAG_SECONDS.observe(max(loop.time() - due, 0.0))
