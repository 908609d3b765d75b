"""Periodic work of a process falls due at the same times."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace import ticks

MOMENTS = st.floats(0, 1e6)
INTERVALS = st.sampled_from([0.001, 0.1, 0.5, 1.0, 3.0, 30.0])


def off(time: float, interval: float) -> float:
    """Return how far `time` is from a multiple of `interval`, seconds."""
    return abs(time - round(time / interval) * interval)


@given(MOMENTS, INTERVALS)
def test_the_next_time_is_a_multiple_about_an_interval_away(now: float, interval: float) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ticks, "_now", lambda: now)
        left = ticks.until_tick(interval)
    assert 0.49 * interval <= left <= 1.51 * interval
    assert off(now + left, interval) < 1e-6


@given(MOMENTS)
def test_the_last_time_within_some_seconds_is_nearly_as_far_away(now: float) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ticks, "_now", lambda: now)
        left = ticks.last_tick_within(2.0, 1.0)
    assert 1.0 <= left <= 2.011
    assert off(now + left, 1.0) < 1e-6


async def test_without_an_interval_nobody_waits() -> None:
    async with asyncio.timeout(60):
        await ticks.tick(0.0)
