"""Copies beside the leader's that stop in their tracks, and clients of the node that does."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from headrace.jetstream import direct_get
from headrace.jetstream.connection import Bus, BusTiming
from headrace.jetstream.health_probe import ProbeTiming
from headrace.log import TailRule, find_generation, last_entry, replay
from tests.integration.shared.conftest import Connect
from tests.support.cluster import NatsCluster
from tests.support.servers import NatsProcess
from tests.support.task_log import TaskLog, confirmed_tails, following, generations
from tests.support.topology import Topology
from tests.support.waiting import soon


@pytest.fixture(autouse=True)
async def _healed(topology: Topology) -> AsyncIterator[None]:
    yield
    await asyncio.to_thread(topology.heal)


@pytest.fixture(scope="module")
def topology(nats_cluster: NatsCluster) -> Topology:
    return Topology(nats_cluster.nodes, nats_cluster)


async def test_a_frozen_follower_holds_up_neither_appends_nor_readers(
    connect: Connect, topology: Topology, log: TaskLog
) -> None:
    frozen, other = await topology.followers(log.bus, log.stream)
    leader = await topology.leader(log.bus, log.stream)
    bus = await connect(nats_url=f"{leader.url},{other.url}")
    rule = TailRule(bus)
    await rule.start()
    last = await last_entry(bus, log.key)
    assert last is not None
    frozen.freeze()
    mine = log.behind(last, bus=bus, writer="beside")
    async with following(bus, rule, log.key) as reading:
        await mine.grow(300)
        assert await reading.until(300) == list(range(1, 301))
    assert generations(await mine.read()) == list(range(1, 301))
    await rule.stop()


@pytest.fixture
def silences(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Grows by one for each direct get that nobody answered."""
    found: list[bool] = []
    arrival = direct_get._ReplyBatch.arrival

    async def counted[T](train: direct_get._ReplyBatch[T], silence: float) -> None:
        await arrival(train, silence)
        if not train.answer.complete:
            found.append(True)

    monkeypatch.setattr(direct_get._ReplyBatch, "arrival", counted)
    return found


async def test_a_frozen_copy_costs_replays_searches_and_checks_time_only(
    connect: Connect, topology: Topology, bus: Bus, silences: list[bool]
) -> None:
    logs = [TaskLog(bus) for _ in range(12)]
    for log in logs:
        await log.begin()
        await log.grow(40, batch=3)
    tails = {log.key: log.writer.sequence for log in logs}
    frozen, other = await topology.followers(bus, logs[0].stream)
    beside = await connect(BusTiming(replica_silence=0.2), nats_url=other.url)
    async with asyncio.timeout(200):  # Nothing hangs: each round waits for what is frozen.
        while len(silences) < 5:
            frozen.freeze()
            for log in logs[:2]:
                assert await replayed(beside, log, 0) == list(range(1, 41))
                last = await last_entry(beside, log.key)
                assert last is not None
                found = await find_generation(beside, log.key, 20, last)
                assert 20 in (await replayed(beside, log, found))[:3]
            assert await confirmed_tails(beside, tails) == tails
            frozen.thaw()
            # A copy of a stream that has just been made begins to answer a few seconds later.
            await asyncio.sleep(0.0 if silences else 1.0)


async def replayed(bus: Bus, log: TaskLog, after: int) -> list[int]:
    batches = replay(bus, log.key, after, log.writer.sequence, batch_bytes=1500)
    return generations([entry async for batch in batches for entry in batch])


async def test_a_client_of_a_node_that_froze_goes_to_another_one(
    connect: Connect, topology: Topology
) -> None:
    bus = await connect(BusTiming(probe=ProbeTiming(0.1, 0.1, timeout=0.2)))
    node = connected_node(bus, topology)
    node.freeze()
    for _ in range(20):  # more than the sockets between them hold
        await bus.publish("nobody.listens", b"x" * 500_000)
    await soon(
        lambda: bus.connected and connected_node(bus, topology) is not node,
        "the client is connected to another node",
    )


def connected_node(bus: Bus, topology: Topology) -> NatsProcess:
    url = bus.connection.connected_url
    assert url is not None
    return next(node for node in topology.nodes if node.port == url.port)
