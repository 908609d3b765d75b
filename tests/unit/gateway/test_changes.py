"""Changes: what a watcher reads, and that nothing is produced without watchers."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

import pytest

from headrace_gateway.changes import MOST, Batch, ChangeReader, Changes, Topic


async def _nothing() -> None:
    await asyncio.Event().wait()


async def test_a_watcher_reads_each_change_once() -> None:
    changes = Changes[str]("test", 3, _nothing)
    reader = changes.reader(0)
    assert await reader.read_now() == []
    changes.append("a")
    changes.append("b")
    assert await reader.read_now() == [Batch(["a", "b"], missed=False, end=2)]
    assert await reader.read_now() == []
    changes.append("c")
    assert await reader.read_now() == [Batch(["c"], missed=False, end=3)]


async def test_a_slow_watcher_learns_that_it_missed_changes() -> None:
    changes = Changes[int]("test", 3, _nothing)
    reader = changes.reader(0)
    for number in range(10):
        changes.append(number)
    assert await reader.read_now() == [Batch([7, 8, 9], missed=True, end=10)]
    assert reader.after == 10


async def test_a_watcher_that_is_behind_reads_a_bounded_number_at_once() -> None:
    changes = Changes[int]("test", 3 * MOST, _nothing)
    reader = changes.reader(0)
    for number in range(2 * MOST + 1):
        changes.append(number)
    batches = [batch for _ in range(4) for batch in await reader.read_now()]
    assert [(len(batch.items), batch.end) for batch in batches] == [
        (MOST, MOST),
        (MOST, 2 * MOST),
        (1, 2 * MOST + 1),
    ]
    assert [item for batch in batches for item in batch.items] == list(range(2 * MOST + 1))


async def test_a_change_wakes_those_who_wait() -> None:
    changes = Changes[int]("test", 3, _nothing)
    reader = changes.reader(0)
    waiting = asyncio.create_task(reader.wait())
    await asyncio.sleep(0)
    assert not waiting.done()
    changes.append(1)
    async with asyncio.timeout(60):
        await waiting
    assert await reader.read_now() == [Batch([1], missed=False, end=1)]


async def test_changes_are_produced_only_while_there_are_watchers() -> None:
    states = list[str]()

    async def produce() -> None:
        states.append("begun")
        try:
            await asyncio.Event().wait()
        finally:
            states.append("ended")

    changes = Changes[int]("test", 3, produce)
    async with changes.held():
        async with changes.held():
            await asyncio.sleep(0)
        assert (states, changes.is_watched) == (["begun"], True)
    assert (states, changes.is_watched) == (["begun", "ended"], False)
    async with changes.held():
        await asyncio.sleep(0)
    assert states == ["begun", "ended"] * 2


@asynccontextmanager
async def watching(topic: Topic[int], woken: list[str | None]) -> AsyncIterator[ChangeReader[int]]:
    """Wait for changes as a stream does, and note each time that the topic's watcher wakes."""
    async with topic.held():
        reader = topic.reader(topic.changes.head)

        async def wait() -> None:
            while True:
                await reader.wait()
                woken.append(topic.topic)

        waiting = asyncio.create_task(wait())
        await asyncio.sleep(0)
        yield reader
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)


async def test_a_change_wakes_only_watchers_of_its_topics() -> None:
    changes, woken = Changes[int]("test", 9, _nothing), list[str | None]()
    async with AsyncExitStack() as stack:
        for name in ("ann", "bob", "*", None):
            await stack.enter_async_context(watching(Topic(changes, name), woken))
        changes.append(1, ["ann", "*"])
        await asyncio.sleep(0)
        assert sorted(map(str, woken)) == ["*", "None", "ann"]
        woken.clear()
        changes.append(2)
        await asyncio.sleep(0)
        assert sorted(map(str, woken)) == ["*", "None", "ann", "bob"]


async def test_who_slept_through_others_changes_has_missed_nothing() -> None:
    changes = Changes[int]("test", 3, _nothing)
    bobs = Topic(changes, "bob")
    async with Topic(changes, "ann").held(), bobs.held():
        reader = bobs.reader(changes.head)
        for number in range(10):
            changes.append(number, ["ann"])
        assert await reader.read_now() == []
        changes.append(10, ["bob"])
        assert await reader.read_now() == [Batch([10], missed=False, end=11)]
        late = bobs.reader(2)
        assert [batch.missed for batch in await late.read_now()] == [True]


async def test_after_its_first_read_a_watcher_pauses_before_what_concerns_all() -> None:
    changes, requests = Changes[int]("test", 9, _nothing), list[Batch[int]]()

    def pause(batch: Batch[int]) -> float:
        requests.append(batch)
        return 0.05

    changes.append(1)
    reader = Topic(changes, pause=pause).reader(0)
    assert await reader.read_now() == [Batch([1], missed=False, end=1)]
    assert requests == []
    changes.append(2)
    assert await reader.read_now() == []
    changes.append(3)
    await reader.wait()
    while not (read := await reader.read_now()):
        await reader.wait()
    assert read == [Batch([2, 3], missed=False, end=3)]
    assert len(requests) == 1


async def test_the_last_watcher_that_is_cancelled_while_it_leaves_does_not_go_on() -> None:
    may_end, went_on = asyncio.Event(), False

    async def produce() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await may_end.wait()

    async def watch() -> None:
        nonlocal went_on
        async with changes.held():
            pass
        went_on = True

    changes = Changes[int]("test", 9, produce)
    watching = asyncio.create_task(watch())
    await asyncio.sleep(0)
    assert not changes.is_watched
    watching.cancel()
    may_end.set()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(watching, 60)
    assert not went_on
