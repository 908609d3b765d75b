"""Permits are given in turn, by weight, none twice or lost; and their limit follows the load."""

import asyncio
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from types import SimpleNamespace

import pytest

from headrace_worker import concurrency
from headrace_worker.concurrency import LEAST, AdaptiveLimit, ConcurrencyLimit, PermitTurn, adapted
from tests.support.waiting import eventually


async def test_no_more_are_taken_than_there_are() -> None:
    slots = ConcurrencyLimit(3)
    assert (slots.acquire_free(2), slots.acquire_free(5), slots.acquire_free(1)) == (2, 1, 0)


async def test_who_waits_is_served_in_turn() -> None:
    slots, order = ConcurrencyLimit(0), list[int]()

    async def one(number: int) -> None:
        await slots.acquire()
        order.append(number)

    waiting = [asyncio.create_task(one(number)) for number in range(3)]
    await asyncio.sleep(0)
    assert slots.scarce
    slots.give_back(3)
    await asyncio.gather(*waiting)
    assert order == [0, 1, 2]


async def served(slots: ConcurrencyLimit, weights: dict[str, float], count: int) -> Counter[str]:
    """Return who got how many of `count` places, each taken by whoever's turn it was."""
    got = Counter[str]()

    async def again_and_again(name: str, weight: float) -> None:
        turn = PermitTurn(weight)
        while True:
            await slots.acquire(turn)
            got[name] += 1

    takers = [asyncio.create_task(again_and_again(*one)) for one in weights.items()]
    for _ in range(count):
        await asyncio.sleep(0)
        slots.give_back(1)
        await asyncio.sleep(0)
    for taker in takers:
        taker.cancel()
    await asyncio.gather(*takers, return_exceptions=True)
    return got


async def test_all_who_wait_get_equally_many_turns() -> None:
    assert await served(ConcurrencyLimit(0), {"a": 1, "b": 1, "c": 1}, 30) == {
        "a": 10,
        "b": 10,
        "c": 10,
    }


async def test_turns_come_by_weight_and_every_queue_gets_some() -> None:
    assert await served(ConcurrencyLimit(0), {"high": 9, "normal": 3, "low": 1}, 130) == {
        "high": 90,
        "normal": 30,
        "low": 10,
    }


async def test_who_comes_late_gets_its_share_and_no_more() -> None:
    slots, early = ConcurrencyLimit(0), PermitTurn()

    async def many() -> None:
        for _ in range(50):
            await slots.acquire(early)

    taking = asyncio.create_task(many())
    for _ in range(40):
        await asyncio.sleep(0)
        slots.give_back(1)
    late = await served(slots, {"late": 1}, 10)
    taking.cancel()
    assert 4 <= late["late"] <= 6


async def test_a_permit_is_scarce_if_another_run_would_have_to_wait_for_it() -> None:
    slots = ConcurrencyLimit(2)
    slots.users = 2
    assert [slots.scarce for _ in range(2) if slots.acquire_free(1)] == [False, True]
    slots.users = 1
    assert not slots.scarce


async def test_no_run_overtakes_those_that_wait() -> None:
    slots = ConcurrencyLimit(0)
    waiting = asyncio.create_task(slots.acquire())
    await asyncio.sleep(0)
    slots.give_back(1)
    assert slots.acquire_free(1) == 0
    await waiting


async def test_who_stops_waiting_leaves_the_place_to_the_next() -> None:
    slots = ConcurrencyLimit(0)
    impatient = asyncio.create_task(slots.acquire())
    other = asyncio.create_task(slots.acquire())
    await asyncio.sleep(0)
    impatient.cancel()
    with suppress(asyncio.CancelledError):
        await impatient
    slots.give_back(1)
    await asyncio.wait_for(other, 60)


async def test_a_place_granted_to_who_has_just_gone_is_not_lost() -> None:
    slots = ConcurrencyLimit(0)
    going = asyncio.create_task(slots.acquire())
    await asyncio.sleep(0)
    slots.give_back(1)
    going.cancel()
    with suppress(asyncio.CancelledError):
        await going
    assert slots.acquire_free(1) == 1


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
    await limit.acquire()
    waiting = asyncio.create_task(limit.acquire())
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
    monkeypatch.setattr(concurrency, "time", SimpleNamespace(process_time=clock))


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
