"""Replicas count together what the answers of a chain begin."""

from functools import partial

import pytest

from headrace.jetstream.connection import Bus
from headrace_triggers.chains import Chains, ChainWaits, Link
from headrace_triggers.firing import UndeliverableFiring

LINK = Link("3-first", 1)
TASKS = 20


@pytest.fixture
def replica(bus: Bus) -> partial[Chains]:
    """Makes replicas, without a rate that any of their tasks reaches."""
    return partial(Chains, bus, depth=8, tasks=TASKS, rate=1000.0)


async def take(chains: Chains, times: int = 1) -> None:
    for _ in range(times):
        await chains.count("acme", "eve", LINK, "orders")


async def test_what_one_replica_does_not_begin_another_one_may(replica: partial[Chains]) -> None:
    one, other = replica(), replica()
    await take(one)
    await take(other, TASKS - 1)
    for each in (one, other):
        with pytest.raises(UndeliverableFiring, match="have begun 20 tasks"):
            await take(each)


async def test_what_one_replica_gives_back_another_one_may_begin(replica: partial[Chains]) -> None:
    one, other = replica(), replica()
    await take(one, TASKS)
    await one.give_back("acme", "eve", LINK)
    await take(other)
    with pytest.raises(UndeliverableFiring):
        await take(one)


async def test_answers_that_wait_for_the_rate_are_no_tasks(replica: partial[Chains]) -> None:
    slow = replica(rate=0.1)
    await take(slow)
    for _ in range(TASKS):
        with pytest.raises(ChainWaits):
            await take(slow)
    await take(replica(), TASKS - 1)


async def test_answers_beyond_the_limit_take_nothing_of_the_rate(replica: partial[Chains]) -> None:
    full = replica(tasks=0, rate=1.0)
    for _ in range(10):
        with pytest.raises(UndeliverableFiring):
            await take(full)
