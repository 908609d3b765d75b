"""A lazy value is made at its first use, beside the event loop."""

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from headrace.lazy import Lazy

TIMEOUT = 30.0


class Maker:
    def __init__(self) -> None:
        self.threads: list[threading.Thread] = []
        self.may_end = threading.Event()
        self.may_end.set()

    def make(self) -> object:
        self.threads.append(threading.current_thread())
        assert self.may_end.wait(TIMEOUT)
        return object()


async def test_it_is_made_once_and_in_another_thread() -> None:
    maker = Maker()
    lazy = Lazy(maker.make)
    assert lazy.made is None
    assert maker.threads == []
    made = await lazy.ready()
    assert [await lazy.ready(), lazy.value, lazy.made] == [made] * 3
    assert len(maker.threads) == 1
    assert maker.threads[0] is not threading.current_thread()


async def test_who_first_uses_it_at_the_same_time_gets_the_same() -> None:
    maker = Maker()
    lazy = Lazy(maker.make)
    maker.may_end.clear()
    uses = [asyncio.create_task(lazy.ready()) for _ in range(3)]
    await asyncio.sleep(0)  # each of them has begun
    maker.may_end.set()
    async with asyncio.timeout(TIMEOUT):
        assert len(set(await asyncio.gather(*uses))) == 1
    assert len(maker.threads) == 1


def test_who_cannot_wait_makes_it_at_once() -> None:
    maker = Maker()
    lazy = Lazy(maker.make)
    assert lazy.value is lazy.value
    assert maker.threads == [threading.current_thread()]


async def test_first_uses_at_the_same_time_take_one_thread() -> None:
    maker = Maker()
    lazy = Lazy(maker.make)
    maker.may_end.clear()
    with ThreadPoolExecutor(2) as threads:
        asyncio.get_running_loop().set_default_executor(threads)
        uses = [asyncio.create_task(lazy.ready()) for _ in range(3)]
        await asyncio.sleep(0)  # each of them has begun
        try:
            async with asyncio.timeout(60):
                assert await asyncio.to_thread(threading.current_thread) in threads._threads
        finally:
            maker.may_end.set()
        assert len(set(await asyncio.gather(*uses))) == 1


async def test_who_gives_up_the_first_use_does_not_end_the_others() -> None:
    maker = Maker()
    lazy = Lazy(maker.make)
    maker.may_end.clear()
    first, second = (asyncio.create_task(lazy.ready()) for _ in range(2))
    await asyncio.sleep(0)
    first.cancel()
    await asyncio.wait([first])
    maker.may_end.set()
    async with asyncio.timeout(TIMEOUT):
        assert await second is lazy.made
    assert first.cancelled()


async def test_a_failed_first_use_is_repeated_by_the_next() -> None:
    outcomes = [OSError("no"), None]

    def make() -> str:
        if error := outcomes.pop(0):
            raise error
        return "made"

    lazy = Lazy(make)
    with pytest.raises(OSError, match="no"):
        await lazy.ready()
    assert await lazy.ready() == "made"
