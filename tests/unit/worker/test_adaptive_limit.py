"""A worker's concurrency limit grows with runs that wait, and not with runs that compute."""

import asyncio
import time
from collections.abc import Callable
from types import SimpleNamespace

import pytest

from headrace_worker import adaptive_limit
from headrace_worker.adaptive_limit import LEAST, AdaptiveLimit, adapted
from headrace_worker.concurrency import ConcurrencyLimit
from tests.support.waiting import eventually


@pytest.mark.parametrize(
    ("total", "in_use", "overloaded", "limit"),
    [
        (64, 10, False, 64),
        (64, 32, False, 128),
        (256, 200, False, 500),
        (500, 500, False, 500),
        (500, 200, False, 500),
        (500, 20, False, 250),
        (64, 0, False, 64),
        (500, 300, True, 300),
        (128, 20, True, 64),
        (64, 64, True, 64),
    ],
)
def test_the_limit_follows_the_load(
    total: int, in_use: int, limit: int, *, overloaded: bool
) -> None:
    assert adapted(total, in_use, 500, overloaded=overloaded) == limit


@pytest.mark.parametrize("overloaded", [True, False])
def test_a_configured_limit_below_the_least_stays(*, overloaded: bool) -> None:
    assert adapted(3, 3, 3, overloaded=overloaded) == 3
    assert AdaptiveLimit(3).limit.total == 3


async def test_a_raised_limit_lets_those_in_who_wait() -> None:
    limit = ConcurrencyLimit(1)
    await limit.take()
    waiting = asyncio.create_task(limit.take())
    await asyncio.sleep(0)
    limit.resize(2)
    await waiting
    assert (limit.in_use, limit.acquire_free(1)) == (2, 0)


def test_permits_beyond_a_lowered_limit_are_not_replaced() -> None:
    limit = ConcurrencyLimit(4)
    assert limit.acquire_free(4) == 4
    limit.resize(2)
    limit.give_back(2)
    assert (limit.in_use, limit.acquire_free(4)) == (2, 0)
    limit.give_back(1)
    assert limit.acquire_free(4) == 1


def spend(monkeypatch: pytest.MonkeyPatch, clock: Callable[[], float]) -> None:
    """Have the process spend processor time as `clock` says."""
    monkeypatch.setattr(adaptive_limit, "time", SimpleNamespace(process_time=clock))


async def test_the_limit_grows_while_runs_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    spend(monkeypatch, lambda: 0.0)
    adaptive = AdaptiveLimit(500)

    async def grown() -> bool:
        adaptive.limit.acquire_free(500)
        return adaptive.limit.in_use == 500

    adapting = asyncio.create_task(adaptive.run())
    await eventually(grown, "the limit is at its maximum")
    adapting.cancel()
    await asyncio.wait([adapting])
    assert adapting.cancelled()


async def test_the_limit_does_not_grow_while_the_process_computes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    spend(monkeypatch, time.monotonic)
    adaptive = AdaptiveLimit(500)
    assert adaptive.limit.acquire_free(LEAST) == LEAST
    adapting = asyncio.create_task(adaptive.run())
    await asyncio.sleep(0.5)
    adapting.cancel()
    await asyncio.wait([adapting])
    assert adaptive.limit.total == LEAST


async def test_the_limit_does_not_grow_while_the_event_loop_lags(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    spend(monkeypatch, lambda: 0.0)
    adaptive = AdaptiveLimit(500)
    assert adaptive.limit.acquire_free(LEAST) == LEAST
    adapting = asyncio.create_task(adaptive.run())
    for _ in range(3):
        await asyncio.sleep(0)
        time.sleep(0.3)  # noqa: ASYNC251 - what an agent must not do
    await asyncio.sleep(0)
    adapting.cancel()
    await asyncio.wait([adapting])
    assert adaptive.limit.total == LEAST
