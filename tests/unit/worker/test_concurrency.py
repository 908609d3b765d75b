"""Places are given in turn, by weight, and none is given twice or lost."""

import asyncio
from collections import Counter
from contextlib import suppress

from headrace_worker.concurrency import ConcurrencyLimit, PermitTurn


async def test_no_more_are_taken_than_there_are() -> None:
    slots = ConcurrencyLimit(3)
    assert (slots.acquire_free(2), slots.acquire_free(5), slots.acquire_free(1)) == (2, 1, 0)


async def test_who_waits_is_served_in_turn() -> None:
    slots, order = ConcurrencyLimit(0), list[int]()

    async def one(number: int) -> None:
        await slots.take()
        order.append(number)

    waiting = [asyncio.create_task(one(number)) for number in range(3)]
    await asyncio.sleep(0)
    assert slots.contended
    slots.give_back(3)
    await asyncio.gather(*waiting)
    assert order == [0, 1, 2]


async def served(slots: ConcurrencyLimit, weights: dict[str, float], count: int) -> Counter[str]:
    """Return who got how many of `count` places, each taken by whoever's turn it was."""
    got = Counter[str]()

    async def again_and_again(name: str, weight: float) -> None:
        turn = PermitTurn(weight)
        while True:
            await slots.take(turn)
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


async def test_turns_come_by_weight_and_nobody_gets_none() -> None:
    assert await served(ConcurrencyLimit(0), {"high": 9, "normal": 3, "low": 1}, 130) == {
        "high": 90,
        "normal": 30,
        "low": 10,
    }


async def test_who_comes_late_gets_its_share_and_no_more() -> None:
    slots, early = ConcurrencyLimit(0), PermitTurn()

    async def many() -> None:
        for _ in range(50):
            await slots.take(early)

    taking = asyncio.create_task(many())
    for _ in range(40):
        await asyncio.sleep(0)
        slots.give_back(1)
    late = await served(slots, {"late": 1}, 10)
    taking.cancel()
    assert 4 <= late["late"] <= 6


async def test_a_place_is_scarce_if_somebody_else_would_have_to_wait_for_it() -> None:
    slots = ConcurrencyLimit(2)
    slots.users = 2
    assert [slots.scarce for _ in range(2) if slots.acquire_free(1)] == [False, True]
    slots.users = 1
    assert not slots.scarce


async def test_nobody_overtakes_those_who_wait() -> None:
    slots = ConcurrencyLimit(0)
    waiting = asyncio.create_task(slots.take())
    await asyncio.sleep(0)
    slots.give_back(1)
    assert slots.acquire_free(1) == 0
    await waiting


async def test_who_stops_waiting_leaves_the_place_to_the_next() -> None:
    slots = ConcurrencyLimit(0)
    impatient = asyncio.create_task(slots.take())
    other = asyncio.create_task(slots.take())
    await asyncio.sleep(0)
    impatient.cancel()
    with suppress(asyncio.CancelledError):
        await impatient
    slots.give_back(1)
    await asyncio.wait_for(other, 60)


async def test_a_place_granted_to_who_has_just_gone_is_not_lost() -> None:
    slots = ConcurrencyLimit(0)
    going = asyncio.create_task(slots.take())
    await asyncio.sleep(0)
    slots.give_back(1)
    going.cancel()
    with suppress(asyncio.CancelledError):
        await going
    assert slots.acquire_free(1) == 1
