"""Three NATS nodes, one of which goes: streams go on, and none waits for a lost last event."""

import asyncio
from collections.abc import Iterator

import pytest

from tests.support.cluster import NatsCluster
from tests.support.resuming import Client, round_robin
from tests.support.resuming_cluster import ClusteredStack
from tests.support.resuming_log import whole_log
from tests.support.resuming_protocols import A2A
from tests.support.resuming_sizes import sized

pytestmark = [pytest.mark.soak, pytest.mark.timeout(900)]

_TASKS = sized(4, 66)
_SHORT = sized(30, 300)
_HANDOVERS = sized(4, 20)
_PATIENCE = 200.0


@pytest.fixture(scope="module")
def clustered(
    nats_cluster: NatsCluster, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ClusteredStack]:
    with ClusteredStack(nats_cluster, tmp_path_factory.mktemp("clustered")) as stack:
        yield stack


async def test_the_leader_is_killed(clustered: ClusteredStack) -> None:
    async with clustered.audience(_TASKS) as clients:
        leader = await clustered.leader()
        await asyncio.to_thread(leader.kill)
        await clients.until_all_went_on()
        await asyncio.to_thread(clustered.cluster.heal)
        await clients.until_all_went_on()
        await clients.end()


async def test_a_node_that_leads_nothing_of_the_log_is_killed(clustered: ClusteredStack) -> None:
    async with clustered.audience(_TASKS) as clients:
        follower, _ = await clustered.followers()
        await asyncio.to_thread(follower.kill)
        await clients.until_all_went_on()
        await asyncio.to_thread(clustered.cluster.heal)
        await clients.until_all_went_on()
        await clients.end()


async def test_no_stream_hangs_on_a_last_event_that_a_new_leader_did_not_send(
    clustered: ClusteredStack,
) -> None:
    """A leader that hands over skips live messages; some of these tasks end in that moment."""
    clients = [Client("counter", f"{10 + n} 30") for n in range(_SHORT)]
    gateways = clustered.stack.gateways
    async with asyncio.timeout(_PATIENCE), asyncio.TaskGroup() as following:
        for number, client in enumerate(clients):
            following.create_task(client.follow(round_robin(gateways, A2A, number)))
        for _ in range(_HANDOVERS):
            await asyncio.sleep(0.3)
            await clustered.step_down()
    for client in clients:
        client.assert_exact(await whole_log(clustered.cluster.urls, "counter", client.task))
