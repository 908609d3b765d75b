"""A server that is connected and silent, alone and as one of three."""

import asyncio

from headrace.jetstream.health_probe import HealthProbe
from tests.integration.shared.conftest import Connect
from tests.support.topology import Topology
from tests.support.waiting import soon


async def test_a_bus_leaves_a_frozen_server_for_another(
    connect: Connect, topology: Topology
) -> None:
    """nats-py alone would stay for half a minute."""
    bus = await connect()
    probe = HealthProbe(bus, every=0.1, timeout=0.5)
    await probe.start()
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
        await probe.stop()
        await asyncio.to_thread(topology.heal)
