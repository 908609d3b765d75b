"""Places are given in turn, and none is given twice or lost."""

import asyncio
from contextlib import suppress

from headrace_worker.slots import Slots


async def test_no_more_are_taken_than_there_are() -> None:
    slots = Slots(3)
    assert (slots.take_more(2), slots.take_more(5), slots.take_more(1)) == (2, 1, 0)


async def test_who_waits_is_served_in_turn() -> None:
    slots, order = Slots(0), list[int]()

    async def one(number: int) -> None:
        await slots.take()
        order.append(number)

    waiting = [asyncio.create_task(one(number)) for number in range(3)]
    await asyncio.sleep(0)
    assert slots.contended
    slots.give_back(3)
    await asyncio.gather(*waiting)
    assert order == [0, 1, 2]


async def test_nobody_overtakes_those_who_wait() -> None:
    slots = Slots(0)
    waiting = asyncio.create_task(slots.take())
    await asyncio.sleep(0)
    slots.give_back(1)
    assert slots.take_more(1) == 0
    await waiting


async def test_who_stops_waiting_leaves_the_place_to_the_next() -> None:
    slots = Slots(0)
    impatient = asyncio.create_task(slots.take())
    other = asyncio.create_task(slots.take())
    await asyncio.sleep(0)
    impatient.cancel()
    with suppress(asyncio.CancelledError):
        await impatient
    slots.give_back(1)
    await asyncio.wait_for(other, 5)


async def test_a_place_granted_to_who_has_just_gone_is_not_lost() -> None:
    slots = Slots(0)
    going = asyncio.create_task(slots.take())
    await asyncio.sleep(0)
    slots.give_back(1)
    going.cancel()
    with suppress(asyncio.CancelledError):
        await going
    assert slots.take_more(1) == 1
