"""Three NATS nodes, one of which goes: streams go on, and none waits for a lost last event."""

import asyncio
import os
import sys
from asyncio.subprocess import PIPE, STDOUT
from collections.abc import Iterator

import httpx
import pytest

from tests.support.cluster import NatsCluster
from tests.support.event_stream import Json
from tests.support.plain_a2a import PlainAgent, message
from tests.support.resuming import Client, round_robin
from tests.support.resuming_cluster import ClusteredStack
from tests.support.resuming_log import whole_log
from tests.support.resuming_protocols import A2A
from tests.support.resuming_sizes import sized
from tests.support.waiting import eventually

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


@pytest.mark.parametrize("killed", [True, False])
async def test_whoever_changes_tasks_during_an_election_waits_it_out(
    clustered: ClusteredStack, *, killed: bool
) -> None:
    """Each request is sent once, as a client that does not try again."""
    gateways = clustered.stack.gateways
    async with httpx.AsyncClient(timeout=_PATIENCE) as http:
        agents = [PlainAgent(http, gateway, "counter") for gateway in gateways]
        sent = [await agents[n % 2].send("100000 50", returnImmediately=True) for n in range(6)]
        tasks = [response.json()["task"]["id"] for response in sent]
        await asyncio.gather(*(until_at_work(agents[0], task) for task in tasks))
        if killed:
            await asyncio.to_thread((await clustered.leader()).kill)
        else:
            await clustered.step_down()
        async with asyncio.TaskGroup() as group:
            canceling = group.create_task(agents[0].cancel(tasks[0]))
            deleting = group.create_task(http.delete(f"{agents[1].url}/tasks/{tasks[1]}"))
            erasing = group.create_task(deleted_by_command(clustered, tasks[2]))
            telling = [
                group.create_task(agents[n % 2].post("message:send", follow_up(task)))
                for n, task in enumerate(tasks[3:])
            ]
        canceled, gone = canceling.result(), deleting.result()
        told = [one.result() for one in telling]
        assert canceled.json().get("status", {}).get("state") == "TASK_STATE_CANCELED", (
            canceled.text
        )
        assert gone.status_code == httpx.codes.OK, gone.text
        assert erasing.result() == ""
        assert [one.status_code for one in told] == [httpx.codes.OK] * 3, [one.text for one in told]
        for task in tasks[1:3]:
            assert (await agents[0].get(task)).status_code == httpx.codes.NOT_FOUND
        for task in tasks[3:]:
            found = (await agents[1].cancel(task)).json()
            assert found["status"]["state"] == "TASK_STATE_CANCELED", found
    await asyncio.to_thread(clustered.cluster.heal)


def follow_up(task: str) -> Json:
    return {
        "message": message("3", taskId=task),
        "configuration": {"returnImmediately": True},
    }


async def until_at_work(agent: PlainAgent, task: str) -> None:
    async def is_at_work() -> bool:
        found = await agent.get(task)
        return found.is_success and found.json()["status"]["state"] == "TASK_STATE_WORKING"

    await eventually(is_at_work, f"{task} is at work")


async def deleted_by_command(clustered: ClusteredStack, task: str) -> str:
    """Run ``headrace tasks delete`` and return what it says if it fails."""
    command = [sys.executable, "-m", "headrace_cli", "tasks", "delete", "--yes", task]
    environment = os.environ | {"HEADRACE_NATS_URL": clustered.cluster.url}
    process = await asyncio.create_subprocess_exec(
        *command, env=environment, stdout=PIPE, stderr=STDOUT
    )
    said, _ = await process.communicate()
    return said.decode() if process.returncode else ""
