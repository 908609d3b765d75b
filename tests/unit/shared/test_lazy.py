"""A lazy value is made at its first use, beside the event loop."""

import asyncio
import threading

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
