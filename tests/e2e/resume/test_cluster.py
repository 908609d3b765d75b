"""Three NATS nodes, one of which goes: streams go on, and none waits for a lost last event."""

import asyncio
from base64 import b64encode
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from functools import partial

import httpx
import pytest

from headrace.jetstream.connection import Bus
from headrace.jetstream.kv import Bucket
from headrace.jetstream.objects import CHUNK, FileOwner, FileStore
from headrace.model.messages import DeadLetter
from headrace.model.queues import RunQueue
from headrace.model.task import TaskKey, mint_task_id
from headrace.settings import BusSettings
from headrace.tasks.dead_letters import LetterFilter, Letters, write_letter
from headrace.tasks.runs import RunQueues
from headrace.webhooks import Webhooks
from tests.support.cluster import NatsCluster
from tests.support.event_stream import Json
from tests.support.plain_a2a import PlainAgent, message
from tests.support.plain_http import NO_TLS
from tests.support.resuming import Client, round_robin
from tests.support.resuming_cluster import ClusteredStack
from tests.support.resuming_log import whole_log
from tests.support.resuming_protocols import A2A
from tests.support.resuming_sizes import sized
from tests.support.terminal import enter
from tests.support.waiting import eventually

pytestmark = [pytest.mark.soak, pytest.mark.timeout(900)]

_TASKS = sized(4, 66)
_SHORT = sized(30, 300)
_HANDOVERS = sized(4, 20)
_TIMEOUT = 200.0

IMMEDIATELY = {"returnImmediately": True}
KEY = {"Idempotency-Key": "once"}
LARGE = b"x" * (3 * CHUNK + 17)


@pytest.fixture(scope="module")
def clustered(
    nats_cluster: NatsCluster, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ClusteredStack]:
    with ClusteredStack(nats_cluster, tmp_path_factory.mktemp("clustered")) as stack:
        yield stack


async def test_the_leader_is_killed(clustered: ClusteredStack) -> None:
    async with clustered.resuming_clients(_TASKS) as clients:
        leader = await clustered.leader()
        await asyncio.to_thread(leader.kill)
        await clients.until_all_went_on()
        await asyncio.to_thread(clustered.cluster.heal)
        await clients.until_all_went_on()
        await clients.end()


async def test_a_node_that_leads_nothing_of_the_log_is_killed(clustered: ClusteredStack) -> None:
    async with clustered.resuming_clients(_TASKS) as clients:
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
    async with asyncio.timeout(_TIMEOUT), asyncio.TaskGroup() as following:
        for number, client in enumerate(clients):
            following.create_task(client.follow(round_robin(gateways, A2A, number)))
        for _ in range(_HANDOVERS):
            await asyncio.sleep(0.3)
            await clustered.step_down()
    assert len({client.task for client in clients}) == _SHORT
    for client in clients:
        client.assert_exact(await whole_log(clustered.cluster.urls, "counter", client.task))


@pytest.mark.parametrize("killed", [True, False])
async def test_changes_of_tasks_wait_for_the_end_of_an_election(
    clustered: ClusteredStack, *, killed: bool
) -> None:
    """Each request is sent once, as a client that does not try again."""
    gateways = clustered.stack.gateways
    async with httpx.AsyncClient(timeout=_TIMEOUT, verify=NO_TLS) as http:
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
        received = [one.result() for one in telling]
        assert canceled.json().get("status", {}).get("state") == "TASK_STATE_CANCELED", (
            canceled.text
        )
        assert gone.status_code == httpx.codes.OK, gone.text
        assert erasing.result() == ""
        assert [one.status_code for one in received] == [httpx.codes.OK] * 3, [
            one.text for one in received
        ]
        for task in tasks[1:3]:
            assert (await agents[0].get(task)).status_code == httpx.codes.NOT_FOUND
        for task in tasks[3:]:
            found = (await agents[1].cancel(task)).json()
            assert found["status"]["state"] == "TASK_STATE_CANCELED", found
    await asyncio.to_thread(clustered.cluster.heal)


async def test_requests_wait_while_buckets_and_queues_have_no_leader(
    clustered: ClusteredStack,
) -> None:
    """Every stream but the log loses its leader; each request is sent once."""
    gateways = clustered.stack.gateways
    async with httpx.AsyncClient(timeout=_TIMEOUT, verify=NO_TLS) as http:
        agents = [PlainAgent(http, gateway, "counter") for gateway in gateways]
        echoes = [PlainAgent(http, gateway, "echo") for gateway in gateways]
        sent = [await agents[n % 2].send("100000 50", returnImmediately=True) for n in range(6)]
        tasks = [response.json()["task"]["id"] for response in sent]
        await asyncio.gather(*(until_at_work(agents[0], task) for task in tasks))
        hooks = f"{agents[0].url}/tasks/{tasks[0]}/pushNotificationConfigs"
        for name in ("kept", "dropped"):
            assert (await http.post(hooks, json=hook(name))).is_success
        stored = linked(await echoes[0].post("message:send", {"message": with_file()}))
        await asyncio.to_thread((await clustered.gather_leaders()).kill)
        keyed = {"message": message("1", messageId="m"), "configuration": IMMEDIATELY}
        requests = {
            "told": agents[0].post("message:send", follow_up(tasks[1])),
            "canceled": agents[1].cancel(tasks[2]),
            "deleted": http.delete(f"{agents[1].url}/tasks/{tasks[3]}"),
            "got": agents[1].get(tasks[0]),
            "listed": agents[0].list(pageSize=100),
            "worked": agents[1].send("3 1"),
            "hooked": http.post(hooks, json=hook("new")),
            "hooks": http.get(hooks),
            "hook": http.get(f"{hooks}/kept"),
            "unhooked": http.delete(f"{hooks}/dropped"),
            "keyed": http.post(f"{agents[0].url}/message:send", json=keyed, headers=KEY),
            "keyed again": http.post(f"{agents[1].url}/message:send", json=keyed, headers=KEY),
            "file stored": echoes[1].post("message:send", {"message": with_file()}),
            "file read": http.get(stored),
            "card": http.get(f"{agents[0].url}/.well-known/agent-card.json"),
        }
        async with connected(clustered) as bus, asyncio.TaskGroup() as group:
            group.create_task(written_once(bus))
            erasing = group.create_task(deleted_by_command(clustered, tasks[4]))
            request = {what: group.create_task(one) for what, one in requests.items()}
        answers = {what: one.result() for what, one in request.items()}
        refused = {what: one.text for what, one in answers.items() if not one.is_success}
        assert not refused, refused
        assert erasing.result() == ""
        assert answers["canceled"].json()["status"]["state"] == "TASK_STATE_CANCELED"
        assert answers["worked"].json()["task"]["status"]["state"] == "TASK_STATE_COMPLETED"
        assert answers["keyed"].json()["task"]["id"] == answers["keyed again"].json()["task"]["id"]
        for file in (answers["file read"], await http.get(linked(answers["file stored"]))):
            assert file.content == LARGE
        left = (await http.get(hooks)).json()["configs"]
        assert sorted(one["id"] for one in left) == ["kept", "new"]
        for task in tasks[3:5]:
            assert (await agents[0].get(task)).status_code == httpx.codes.NOT_FOUND
        for task in (tasks[0], tasks[1], tasks[5]):
            assert (await agents[1].cancel(task)).is_success
    await asyncio.to_thread(clustered.cluster.heal)


@asynccontextmanager
async def connected(clustered: ClusteredStack) -> AsyncIterator[Bus]:
    bus = Bus(BusSettings(nats_url=clustered.cluster.url, startup_timeout=_TIMEOUT))
    try:
        await bus.dial("test")
        yield bus
    finally:
        await bus.close()


async def written_once(bus: Bus) -> None:
    """Change what buckets, queues and the store of files keep, all at once."""
    key, owner = TaskKey("_", "counter", mint_task_id(0)), FileOwner("somebody", "somewhere")
    files, bucket, letters = FileStore(bus), Bucket(bus, bus.streams.push), Letters(bus)
    subject, wanted = bus.subjects.run(key, 1), LetterFilter(task=key.task)
    letter = DeadLetter(reason="a test", subject=subject, task=key.task, at="")
    async with asyncio.TaskGroup() as group:
        put = group.create_task(bucket.put("put", b"value", 0))
        group.create_task(bucket.overwrite("overwritten", b"value", seconds=60))
        group.create_task(bucket.delete("deleted"))
        group.create_task(bucket.forget("forgotten.*"))
        group.create_task(bucket.keys())
        linked = group.create_task(files.put(key, owner, LARGE))
        group.create_task(files.drop(TaskKey("_", "counter", mint_task_id(0))))
        group.create_task(Webhooks(bus).wake(key, "token"))
        group.create_task(RunQueues(bus).open(RunQueue("counter", "elsewhere")))
        group.create_task(write_letter(bus, letter, key.task))
    assert (await bucket.get("put")).sequence == put.result()
    assert await files.read(linked.result(), "_", owner) == LARGE
    assert len([one async for one in letters.find(wanted)]) == 1


def hook(name: str) -> Json:
    return {"id": name, "url": "http://127.0.0.1:9/hook"}


def with_file() -> Json:
    content = {"raw": b64encode(LARGE).decode(), "mediaType": "text/plain"}
    return message("keep this") | {"parts": [content]}


def linked(response: httpx.Response) -> str:
    """Return where the file is that was sent with a message."""
    assert response.is_success, response.text
    [part] = response.json()["task"]["history"][0]["parts"]
    return str(part["url"])


def follow_up(task: str) -> Json:
    return {
        "message": message("3", taskId=task),
        "configuration": IMMEDIATELY,
    }


async def until_at_work(agent: PlainAgent, task: str) -> None:
    async def is_at_work() -> bool:
        found = await agent.get(task)
        return found.is_success and found.json()["status"]["state"] == "TASK_STATE_WORKING"

    await eventually(is_at_work, f"{task} is at work")


async def deleted_by_command(clustered: ClusteredStack, task: str) -> str:
    """Run ``headrace tasks delete`` and return what it says if it fails."""
    url, command = clustered.cluster.url, ("tasks", "delete", "--yes", task)
    done = await asyncio.to_thread(partial(enter, *command, HEADRACE_NATS_URL=url))
    return done.out + done.err if done.code else ""
