"""Files too large for a log: stored once, linked, read by whoever may see the task."""

import hashlib
import os
from base64 import b64encode
from typing import Any

import httpx
import pytest

from headrace.jetstream.connection import Bus
from headrace.jetstream.objects import CHUNK
from headrace.settings import BusSettings
from tests.support.event_stream import all_frames
from tests.support.fleet import Fleet
from tests.support.plain_a2a import PlainAgent, message
from tests.support.receiver import receiving
from tests.support.service_process import ServiceProcess

LARGE = 5 * CHUNK + 17


def parts_of(task: dict[str, Any]) -> list[dict[str, Any]]:
    return [part for artifact in task["artifacts"] for part in artifact["parts"]]


async def made(http: httpx.AsyncClient, gateway: str, order: str) -> dict[str, Any]:
    """Have the filer make a file; return the task."""
    task: dict[str, Any] = (await PlainAgent(http, gateway, "filer").send(order)).json()["task"]
    assert task["status"]["state"] == "TASK_STATE_COMPLETED", task
    return task


@pytest.mark.usefixtures("extra_worker")
async def test_a_large_file_is_linked_and_read_through_any_gateway(
    fleet: Fleet, http: httpx.AsyncClient
) -> None:
    first, second = fleet.gateways
    task = await made(http, first, f"{LARGE}")
    [part] = parts_of(task)
    assert part.keys() == {"url", "filename", "mediaType"}
    assert part["url"].startswith(f"{first}/v1/agents/filer/tasks/{task['id']}/files/")
    [same] = parts_of((await PlainAgent(http, second, "filer").get(task["id"])).json())
    assert same["url"] == part["url"].replace(first, second)
    for url in (same["url"], part["url"]):
        file = await http.get(url)
        assert file.status_code == 200
        assert file.content == b"x" * LARGE
        assert file.headers["content-type"] == "application/x-made"
        assert file.headers["content-length"] == f"{LARGE}"
        assert file.headers["content-disposition"] == "attachment; filename*=UTF-8''made%20%22up%22"
        assert file.headers["x-content-type-options"] == "nosniff"
        assert "sandbox" in file.headers["content-security-policy"]
    head = await http.head(part["url"])
    assert (head.status_code, head.headers["content-length"]) == (200, f"{LARGE}")
    again = await http.get(part["url"], headers={"If-None-Match": head.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")


@pytest.mark.usefixtures("extra_worker")
async def test_streams_and_other_dialects_link_it_too(
    fleet: Fleet, http: httpx.AsyncClient
) -> None:
    gateway = fleet.gateways[0]
    agent = PlainAgent(http, gateway, "filer")
    async with agent.stream(f"{LARGE}") as response:
        events = [frame.event for frame in await all_frames(response)]
    task = events[0]["task"]["id"]
    [linked] = [e["artifactUpdate"] for e in events if "artifactUpdate" in e]
    url = f"{gateway}/v1/agents/filer/tasks/{task}/files/"
    assert linked["artifact"]["parts"][0]["url"].startswith(url)
    received = await http.post(
        f"{gateway}/v1/agents/filer/ag-ui",
        json={
            "threadId": "t-files",
            "runId": "r",
            "messages": [{"id": "m", "role": "user", "content": f"{LARGE}"}],
            "state": {},
            "tools": [],
            "context": [],
            "forwardedProps": {},
        },
    )
    assert f'"{gateway}/v1/agents/filer/tasks/' in received.text
    assert "headrace-file:" not in received.text


@pytest.mark.usefixtures("extra_worker")
async def test_webhooks_get_the_location(fleet: Fleet, http: httpx.AsyncClient) -> None:
    gateway = fleet.gateways[0]
    async with receiving() as receiver:
        sent = {
            "message": message(f"{LARGE}"),
            "configuration": {"taskPushNotificationConfig": {"url": receiver.url()}},
        }
        await PlainAgent(http, gateway, "filer").post("message:send", sent)

        def is_over() -> bool:
            return bool(receiver.came) and b"_COMPLETED" in receiver.came[-1].raw

        await receiver.until(is_over, "the end is told")
    updates = [one.body["artifactUpdate"] for one in receiver.came if "artifactUpdate" in one.body]
    [part] = [part for update in updates for part in update["artifact"]["parts"]]
    assert part["url"].startswith(f"{gateway}/v1/agents/filer/tasks/")
    assert (await http.get(part["url"])).content == b"x" * LARGE


@pytest.mark.usefixtures("extra_worker")
async def test_a_small_file_travels_in_the_log(fleet: Fleet, http: httpx.AsyncClient) -> None:
    [part] = parts_of(await made(http, fleet.gateways[0], "1000"))
    assert part["raw"] == b64encode(b"x" * 1000).decode()


@pytest.mark.usefixtures("extra_worker")
async def test_text_that_looks_like_a_link_stays_as_it_is(
    fleet: Fleet, http: httpx.AsyncClient
) -> None:
    text = '{"url":"headrace-file:filer/tasks/0-1/files/ab"}'
    task = (await PlainAgent(http, fleet.gateways[0], "echo").send(text)).json()["task"]
    assert parts_of(task)[0]["text"] == text


@pytest.mark.usefixtures("extra_worker")
async def test_an_agent_reads_the_large_file_that_a_client_sent(
    fleet: Fleet, http: httpx.AsyncClient
) -> None:
    content = os.urandom(3_000_000)
    sent = message("")
    sent["parts"] = [{"raw": b64encode(content).decode(), "filename": "photo.raw"}]
    agent = PlainAgent(http, fleet.gateways[0], "filer")
    task = (await agent.post("message:send", {"message": sent})).json()["task"]
    assert parts_of(task)[0]["text"] == hashlib.sha256(content).hexdigest()
    [kept] = task["history"][0]["parts"]
    assert kept.keys() == {"url", "filename"}
    assert (await http.get(kept["url"])).content == content


@pytest.mark.usefixtures("extra_worker")
async def test_an_agent_reads_its_own_conversations_files_only(
    fleet: Fleet, http: httpx.AsyncClient
) -> None:
    gateway = fleet.gateways[0]
    task = await made(http, gateway, f"{LARGE}")
    path = parts_of(task)[0]["url"].removeprefix(f"{gateway}/v1/agents/")
    agent = PlainAgent(http, gateway, "filer")
    ends = list[dict[str, Any]]()
    for context in (task["contextId"], "another-conversation"):
        sent = message(f"headrace-file:{path}", contextId=context)
        ends.append((await agent.post("message:send", {"message": sent})).json()["task"])
    [same, other] = ends
    assert parts_of(same)[0]["text"] == hashlib.sha256(b"x" * LARGE).hexdigest()
    assert other["status"]["state"] == "TASK_STATE_FAILED"
    assert "artifacts" not in other


@pytest.mark.usefixtures("extra_worker")
async def test_no_file_is_readable_by_another_task_agent_or_name(
    fleet: Fleet, http: httpx.AsyncClient
) -> None:
    gateway = fleet.gateways[0]
    task, other = await made(http, gateway, f"{LARGE}"), await made(http, gateway, "10")
    url = parts_of(task)[0]["url"]
    name = url.rpartition("/")[2]
    for wrong in (
        url.replace(task["id"], other["id"]),
        url.replace("/agents/filer/", "/agents/echo/"),
        url.replace(task["id"], "0-" + "0" * 32),
        url.replace(name, "0" * 16),
        url.replace(name, "..%2f" + name),
        url.replace(name, "*"),
    ):
        refused = await http.get(wrong)
        assert refused.status_code == 404, wrong
        assert refused.json()["error"]["status"] == "NOT_FOUND"


@pytest.mark.usefixtures("extra_worker")
async def test_files_survive_a_kill_of_nats(fleet: Fleet, http: httpx.AsyncClient) -> None:
    task = await made(http, fleet.gateways[0], f"{LARGE}")
    fleet.restart("nats")
    await fleet.until_whole()
    assert (await http.get(parts_of(task)[0]["url"])).content == b"x" * LARGE


@pytest.mark.usefixtures("extra_worker")
async def test_the_store_is_one_that_the_usual_tools_read(
    fleet: Fleet, http: httpx.AsyncClient, extra_worker: ServiceProcess
) -> None:
    assert extra_worker
    task = await made(http, fleet.gateways[0], f"{LARGE}")
    name = parts_of(task)[0]["url"].rpartition("/")[2]
    bus = Bus(BusSettings(nats_url=fleet.nats_url))
    await bus.connect("tool")
    try:
        store = await bus.js.object_store(bus.streams.files)
        [found] = [one for one in await store.list() if (one.name or "").endswith(name)]
        assert found.name == f"default/filer/{task['id']}/{name}"
        assert found.size == LARGE
        chunks = f"$O.{bus.streams.files}.C.{found.nuid}"
        kept = await bus.js.stream_info(f"OBJ_{bus.streams.files}", subjects_filter=chunks)
        assert kept.state.subjects == {chunks: found.chunks}
    finally:
        await bus.close()
