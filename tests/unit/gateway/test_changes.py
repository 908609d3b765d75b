"""Changes: what a watcher reads, and that nothing is produced without watchers."""

import asyncio

from headrace_gateway.changes import MOST, Batch, Changes


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


async def test_changes_are_produced_only_while_somebody_watches() -> None:
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
