"""Work that continues without its caller, and whose caller continues right after it."""

import asyncio
from dataclasses import dataclass

import pytest

from headrace_gateway.background_work import BackgroundWork


class Work:
    """Work that ends when `end` is set, with a result that holds something until it is left."""

    def __init__(self) -> None:
        self.end: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self.left = list[str]()

    async def run(self) -> "Held":
        return Held(self, await self.end)


@dataclass
class Held:
    """A result."""

    work: Work
    name: str

    async def __aenter__(self) -> None:
        """Hold it."""

    async def __aexit__(self, *_: object) -> None:
        self.work.left.append(self.name)


def begin(background: BackgroundWork, work: Work) -> asyncio.Task[Held]:
    loop = asyncio.get_running_loop()
    return asyncio.Task(background.run(work.run()), loop=loop, eager_start=True)


async def test_a_caller_continues_in_the_next_iteration_after_its_work() -> None:
    background, work = BackgroundWork(), Work()
    caller = begin(background, work)
    work.end.set_result("done")
    await asyncio.sleep(0)  # The work ends.
    assert not caller.done()
    await asyncio.sleep(0)
    assert caller.done()
    assert (caller.result().name, work.left) == ("done", [])


async def test_work_that_never_waits_is_over_at_once() -> None:
    background, work = BackgroundWork(), Work()
    work.end.set_result("done")
    assert begin(background, work).result().name == "done"


async def test_a_caller_gets_the_error_of_its_work() -> None:
    background, work = BackgroundWork(), Work()
    caller = begin(background, work)
    work.end.set_exception(ValueError("no"))
    with pytest.raises(ValueError, match="no"):
        await caller


async def test_what_a_result_holds_is_freed_if_its_caller_was_cancelled() -> None:
    background, work = BackgroundWork(), Work()
    caller = begin(background, work)
    caller.cancel()
    with pytest.raises(asyncio.CancelledError):
        await caller
    work.end.set_result("done")
    await background.drain()
    assert work.left == ["done"]


async def test_so_is_one_that_came_just_before_its_caller_was_cancelled() -> None:
    background, work = BackgroundWork(), Work()
    caller = begin(background, work)
    work.end.set_result("done")
    await asyncio.sleep(0)
    caller.cancel()
    with pytest.raises(asyncio.CancelledError):
        await caller
    await background.drain()
    assert work.left == ["done"]


async def test_a_caller_is_cancelled_with_work_that_takes_too_long_to_stop() -> None:
    background, work = BackgroundWork(drain=0.0), Work()
    caller = begin(background, work)
    await background.drain()
    with pytest.raises(asyncio.CancelledError):
        await caller
