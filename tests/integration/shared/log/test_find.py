"""Finding any event of a log by its generation."""

import random
from itertools import pairwise

import pytest

from headrace.jetstream.connection import Bus
from headrace.log import find_generation, last_entry, replay
from headrace.model.errors import LogLost
from tests.support.resuming_sizes import IS_SOAK
from tests.support.task_log import TaskLog
from tests.support.waiting import eventually


async def scattered(bus: Bus, chance: random.Random) -> TaskLog:
    """Write a log of batches of different sizes, sparse among other tasks' messages and junk."""
    log, other = TaskLog(bus), TaskLog(bus)
    await other.begin()
    await log.begin()
    for _ in range(25):
        for _ in range(chance.choice((0, 0, 1, 2, 9))):
            await other.append("other")
        for _ in range(chance.choice((0, 0, 0, 1, 2))):
            await log.junk()
        await log.grow(log.writer.generation + (size := chance.choice((1, 1, 2, 5, 30))), size)
    return log


@pytest.mark.soak
@pytest.mark.parametrize("seed", [1, 2, 3] if IS_SOAK else [2])
async def test_any_generation_is_found(bus: Bus, seed: int) -> None:
    log = await scattered(bus, random.Random(seed))
    last = await last_entry(bus, log.key)
    assert last is not None
    entries, after = await log.read(), -1
    assert entries[-1].sequence == last.sequence
    for before, entry in pairwise([None, *entries]):
        assert entry is not None
        for generation in range(entry.generation, entry.last_generation + 1):
            after = await find_generation(bus, log.key, generation, last)
            assert (before.sequence if before else 0) <= after < entry.sequence
    batches = replay(bus, log.key, after, last.sequence)
    assert [e.sequence async for batch in batches for e in batch] == [last.sequence]


async def test_what_a_trimmed_or_purged_log_held_is_lost(bus: Bus) -> None:
    log = await scattered(bus, random.Random(3))
    last = await last_entry(bus, log.key)
    assert last is not None

    async def is_lost(generation: int) -> bool:
        try:
            await find_generation(bus, log.key, generation, last)
        except LogLost:
            return True
        return False

    await log.purge(keep=1)
    for generation in (1, 2, last.generation // 2, last.generation - 1):
        # Copies hear of a purge a moment later.
        await eventually(lambda g=generation: is_lost(g), f"{generation} is lost")  # type: ignore[misc]
    assert await find_generation(bus, log.key, last.last_generation, last) == last.sequence - 1
    await log.purge()
    await eventually(lambda: is_lost(last.last_generation), "all is lost")


async def test_what_is_not_there_yet_is_not_found(bus: Bus, log: TaskLog) -> None:
    last = await last_entry(bus, log.key)
    assert last is not None
    with pytest.raises(LogLost):
        await find_generation(bus, log.key, 2, last)
