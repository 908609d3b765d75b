"""`LightEvent` behaves as `asyncio.Event` does."""

import asyncio

import pytest

from headrace_gateway.server.http_protocol import LightEvent


async def test_all_that_wait_go_on_once_it_is_set() -> None:
    event = LightEvent()
    waiting = [asyncio.create_task(event.wait()) for _ in range(2)]
    await asyncio.sleep(0)
    assert not event.is_set()
    assert not any(task.done() for task in waiting)
    event.set()
    assert await asyncio.gather(*waiting, event.wait()) == [True, True, True]


async def test_it_can_be_waited_for_again_after_it_was_cleared() -> None:
    event = LightEvent(is_set=True)
    await event.wait()
    event.clear()
    waiting = asyncio.create_task(event.wait())
    await asyncio.sleep(0)
    assert not waiting.done()
    event.set()
    assert await waiting


async def test_one_that_no_longer_waits_is_forgotten_and_disturbs_no_other() -> None:
    event = LightEvent()
    left, stays = asyncio.create_task(event.wait()), asyncio.create_task(event.wait())
    await asyncio.sleep(0)
    left.cancel()
    with pytest.raises(asyncio.CancelledError):
        await left
    late = asyncio.create_task(event.wait())
    await asyncio.sleep(0)
    event.set()
    assert all(await asyncio.gather(stays, late))
