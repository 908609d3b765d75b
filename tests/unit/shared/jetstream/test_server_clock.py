"""How far clocks are apart, and what of that is told."""

import logging
import time

import pytest

from headrace.jetstream.server_clock import ServerClock
from tests.support.memory_bus import memory_bus


async def test_clocks_that_differ_are_told_once_until_they_agree_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, "headrace.jetstream.server_clock")
    ahead = 0.0

    async def redis_time() -> float:
        return time.time() + ahead

    async with memory_bus() as bus:
        clock = ServerClock(bus, {"Redis": redis_time})
        for ahead in (0.0, 0.0, 60.0, 60.0, 0.0, 0.0):
            await clock.compare()
            assert bool(clock.deviation) is bool(ahead)
    assert [(record.levelname, record.getMessage()[:27]) for record in caplog.records] == [
        ("ERROR", "clocks are not synchronized"),
        ("INFO", "clocks are synchronized aga"),
    ]
