"""Servers killed and leaders changed in the middle of things: neither hole nor duplicate."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator

import pytest

from headrace.jetstream.connection import Bus
from headrace.log import TailRule
from headrace.model.errors import BusUnavailable
from tests.integration.shared.conftest import Connect
from tests.support.servers import NatsProcess
from tests.support.task_log import TaskLog, following, generations, texts
from tests.support.topology import Topology
from tests.support.waiting import eventually, soon


@pytest.fixture(scope="module")
def nats_server(own_nats_server: NatsProcess) -> NatsProcess:
    """The one node, which a test here restarts."""
    return own_nats_server


@pytest.fixture(autouse=True)
async def _healed(topology: Topology) -> AsyncIterator[None]:
    yield
    await asyncio.to_thread(topology.heal)


async def until_grown(log: TaskLog, to: int) -> None:
    await soon(lambda: log.writer.generation >= to, f"the log has grown to {to}")


async def test_a_leader_killed_and_restarted_in_mid_append_leaves_no_hole_and_no_duplicate(
    bus: Bus, topology: Topology, rule: TailRule
) -> None:
    logs = [TaskLog(bus) for _ in range(8)]
    for log in logs:
        await log.begin()
    async with following(bus, rule, logs[0].key) as reading:
        growing = [asyncio.create_task(log.grow(150)) for log in logs]
        await until_grown(logs[0], 40)
        leader = await topology.leader(bus, logs[0].stream)
        await asyncio.to_thread(leader.kill)
        await asyncio.sleep(0.3)
        await asyncio.to_thread(leader.start)
        await asyncio.gather(*growing)
        assert await reading.until(150) == list(range(1, 151))
    for log in logs:
        entries = await log.read()
        assert generations(entries) == list(range(1, 151))
        assert max(Counter(texts(entries)).values()) == 1


async def test_a_node_that_is_killed_again_and_again_loses_no_live_message(
    connect: Connect, topology: Topology
) -> None:
    bus = await connect()
    rule = TailRule(bus)
    await rule.start()
    log = TaskLog(bus)
    await log.begin()
    async with following(bus, rule, log.key) as reading:
        for node in await topology.followers(bus, log.stream) or topology.nodes:
            growing = asyncio.create_task(log.grow(log.writer.generation + 100))
            await until_grown(log, log.writer.generation + 20)
            await asyncio.to_thread(node.restart)
            await growing
        assert await reading.until(log.writer.generation) == generations(await log.read())
    await rule.stop()


async def test_leaders_that_step_down_in_mid_stream_lose_no_live_message(
    bus: Bus, rule: TailRule, log: TaskLog
) -> None:
    async with following(bus, rule, log.key) as reading:
        growing = asyncio.create_task(log.grow(400))
        for reached in (50, 150, 250):
            await until_grown(log, reached)
            await step_down(bus, log.stream)
        await growing
        assert await reading.until(400) == list(range(1, 401))
    assert generations(await log.read()) == list(range(1, 401))


async def step_down(bus: Bus, stream: str) -> None:
    """Have another node lead; alone, this is refused and nothing happens."""

    async def is_asked() -> bool:
        try:
            await bus.request(f"$JS.API.STREAM.LEADER.STEPDOWN.{stream}", b"", 2.0)
        except BusUnavailable:  # There is no leader just now.
            return False
        return True

    await eventually(is_asked, "a leader is asked to step down")
