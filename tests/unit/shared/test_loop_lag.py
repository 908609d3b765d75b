"""The lag of the event loop, as it is exported."""

import asyncio
import time

from prometheus_client import REGISTRY

from headrace import loop_lag


def total() -> float:
    return REGISTRY.get_sample_value("headrace_loop_lag_seconds_sum") or 0.0


async def test_what_blocks_the_loop_is_lag() -> None:
    before = total()
    measuring = asyncio.create_task(loop_lag.measure(interval=0.01))
    await asyncio.sleep(0)
    time.sleep(0.2)  # noqa: ASYNC251 - blocks the loop, as an agent might
    await asyncio.sleep(0.02)
    measuring.cancel()
    # The timer was due 0.19 s earlier, however slow the machine is.
    assert total() - before > 0.15
