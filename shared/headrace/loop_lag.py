"""How late the event loop is: what blocks it delays every stream and run of the process."""

import asyncio

from headrace.metrics import LOOP_LAG_SECONDS


async def measure(interval: float = 0.5) -> None:
    """Record every `interval` seconds, until cancelled, by how much a timer fires too late."""
    loop = asyncio.get_running_loop()
    while True:
        due = loop.time() + interval
        await asyncio.sleep(interval)
        LOOP_LAG_SECONDS.observe(max(loop.time() - due, 0.0))
