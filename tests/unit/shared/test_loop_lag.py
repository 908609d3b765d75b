"""The lag of the event loop, as it is exported."""

import asyncio
import time

import pytest
from prometheus_client import REGISTRY

from headrace import loop_lag


def total() -> float:
    return REGISTRY.get_sample_value("headrace_loop_lag_seconds_sum") or 0.0


async def test_what_blocks_the_loop_is_lag(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop_lag, "EVERY", 0.01)
    before = total()
    measuring = asyncio.create_task(loop_lag.measure())
    await asyncio.sleep(0)
    time.sleep(0.2)  # noqa: ASYNC251 - blocks the loop, as an agent might
    await asyncio.sleep(0.02)
    measuring.cancel()
    # The timer was due 0.19 s earlier, however slow the machine is.
    assert total() - before > 0.15
