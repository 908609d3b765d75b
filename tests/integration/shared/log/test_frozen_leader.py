"""Servers that stop in their tracks: they cost time, not events."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from headrace.jetstream.connection import Bus
from headrace.log import TailRule
from headrace.log.read import last_stored
from headrace.tasks.runs import until_gone
from tests.integration.shared.conftest import Connect
from tests.support.task_log import TaskLog, following, generations
from tests.support.topology import Topology


@pytest.fixture(autouse=True)
async def _healed(topology: Topology) -> AsyncIterator[None]:
    yield
    await asyncio.to_thread(topology.heal)


async def test_a_leader_that_froze_and_thawed_leaves_no_hole_and_no_duplicate(
    connect: Connect, topology: Topology, bus: Bus
) -> None:
    """The thawed one believes for a moment that it still leads, and answers what it knew.

    It has not heard of a task that was begun meanwhile.
    """
    log = TaskLog(bus)
    leader = await topology.leader(bus, log.stream)
    others = await topology.followers(bus, log.stream) or topology.nodes
    beside = await connect(nats_url=",".join(node.url for node in others))
    its_own = await connect(nats_url=leader.url)
    rule = TailRule(beside)
    await rule.start()
    log = TaskLog(beside)
    await log.begin()
    async with following(beside, rule, log.key) as reading:
        growing = asyncio.create_task(log.grow(400))
        await reading.until(50)
        leader.freeze()
        await asyncio.sleep(2.2)
        # In a cluster, wait for the election, so that the leader thaws beside its successor.
        await reading.until(100 if len(topology.nodes) > 1 else 50)
        begun = TaskLog(beside)
        if len(topology.nodes) > 1:
            await begun.begin()
        looking = [asyncio.create_task(last_stored(its_own, begun.key)) for _ in range(20)]
        await asyncio.sleep(0.1)  # The questions wait for it.
        leader.thaw()
        found = await asyncio.gather(*looking)
        assert (None in found) == (len(topology.nodes) == 1)
        await growing
        assert await reading.until(400) == list(range(1, 401))
        assert reading.losses == []
    assert generations(await log.read()) == list(range(1, 401))
    await rule.stop()


async def test_a_deletion_waits_while_a_queue_has_no_leader(
    connect: Connect, topology: Topology, bus: Bus
) -> None:
    """Its canceled run may stand in the queue a little longer: that is no reason to refuse."""
    log = TaskLog(bus)
    leader = await topology.leader(bus, bus.streams.runs)
    others = await topology.followers(bus, bus.streams.runs) or topology.nodes
    beside = await connect(nats_url=",".join(node.url for node in others))
    leader.freeze()
    await until_gone(beside, log.key, 1, timeout=0.2)
    await until_gone(beside, log.key, 1, timeout=2.5)
