"""Turns at receiving: which line is next, and who is next in a line."""

import asyncio

import pytest

from headrace_gateway.server.turns import Turns
from tests.support.waiting import eventually


def in_line(turns: Turns, connection: str, got: list[str]) -> asyncio.Task[None]:
    async def take() -> None:
        await turns.acquire(connection)
        got.append(connection)

    return asyncio.create_task(take())


async def scheduled() -> None:
    """Return once all tasks that can go on have done so."""
    for _ in range(3):
        await asyncio.sleep(0)


async def test_a_connection_with_many_in_line_delays_the_first_of_another_by_one_turn() -> None:
    turns, got = Turns(1), list[str]()
    await turns.acquire("busy")
    waiting = [in_line(turns, "busy", got) for _ in range(3)]
    await scheduled()
    waiting += [in_line(turns, "quiet", got) for _ in range(2)]
    await scheduled()
    assert got == []
    for _ in waiting:
        turns.give_back()
        await scheduled()
    assert got == ["busy", "quiet", "busy", "quiet", "busy"]


async def test_who_leaves_the_line_takes_no_turn_with_it() -> None:
    turns, got = Turns(1), list[str]()
    await turns.acquire("a")
    left, late, stays = (in_line(turns, "a", got) for _ in range(3))
    await scheduled()
    left.cancel()
    await scheduled()
    turns.give_back()
    late.cancel()  # It has its turn already, and does not know yet.
    await eventually(lambda: asyncio.sleep(0, stays.done()), "the turn goes to the last in line")
    for one in (left, late):
        with pytest.raises(asyncio.CancelledError):
            await one
    turns.give_back()
    await asyncio.wait_for(turns.acquire("b"), 10)
    assert got == ["a"]


async def test_the_latest_is_next_if_so_wanted_and_who_left_counts_no_longer() -> None:
    turns, got = Turns(1, latest_first=True), list[str]()
    await turns.acquire("a")
    first, left, latest = (in_line(turns, "a", got) for _ in range(3))
    await scheduled()
    left.cancel()
    await scheduled()
    assert turns.waiting == 2
    turns.give_back()
    await scheduled()
    assert (latest.done(), first.done(), turns.waiting) == (True, False, 1)
    first.cancel()
    await scheduled()
    assert turns.waiting == 0
    turns.give_back()
    await asyncio.wait_for(turns.acquire("b"), 10)
    assert left.cancelled()
