"""A server that is connected and silent, alone and as one of three."""

import asyncio

from headrace.jetstream.connection import BusTiming
from headrace.jetstream.health_probe import ProbeTiming
from tests.integration.shared.conftest import Connect
from tests.support.topology import Topology
from tests.support.waiting import soon

LONG = 600.0


def timing(only_server: float = LONG) -> BusTiming:
    return BusTiming(probe=ProbeTiming(0.1, 0.1, timeout=0.5, only_server=only_server))


async def test_a_bus_leaves_a_frozen_server_for_another(
    connect: Connect, topology: Topology
) -> None:
    """nats-py alone would stay for half a minute."""
    bus = await connect(timing())
    place = bus.connection.connected_url
    assert place is not None
    [frozen] = [node for node in topology.nodes if node.url.endswith(f":{place.port}")]
    frozen.freeze()
    try:
        await soon(lambda: not bus.answers, "the silence is noticed")
        if topology.replicas > 1:
            async with asyncio.timeout(20):
                await soon(lambda: bus.answers, "another server answers")
            now = bus.connection.connected_url
            assert now is not None
            assert now.port != place.port
        else:
            assert bus.connection.stats["reconnects"] == 0
    finally:
        await asyncio.to_thread(topology.heal)
    await soon(lambda: bus.answers, "a server answers")
    assert bus.back_since > 0


async def test_the_only_server_is_connected_again_if_it_stays_silent(
    connect: Connect, topology: Topology
) -> None:
    """Its machine may be gone, and another one have its name."""
    bus = await connect(timing(only_server=1.0), nats_url=topology.nodes[0].url)
    for node in topology.nodes:
        node.freeze()
    await soon(lambda: not bus.connected, "the silent connection is given up")
    await asyncio.to_thread(topology.heal)
    await soon(lambda: bus.answers, "a server answers")
    assert bus.connection.stats["reconnects"] == 1
