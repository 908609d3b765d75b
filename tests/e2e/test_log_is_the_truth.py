"""What comes from the log survives what the live copy, an acknowledgement, a lease may suffer."""

import asyncio
import base64
import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import nats
import pytest

from tests.support import extra_services
from tests.support.event_stream import Json, all_frames, frames, text_of
from tests.support.fleet import Fleet
from tests.support.nats_proxy import NatsProxy
from tests.support.plain_a2a import PlainAgent, message
from tests.support.stored_log import StoredMessage, events_of, read_log, subject_of
from tests.support.waiting import eventually

ACK_OF_EVENTS = re.compile(rb'\r\n\{"stream":\s*"EVENTS",(?!.*"error")')


async def api(
    nats_url: str, operation: str, body: object = None, stream: str = "EVENTS"
) -> dict[str, Any]:
    payload = b"" if body is None else json.dumps(body).encode()
    async with await nats.connect(nats_url) as client:
        answer = await client.request(f"$JS.API.STREAM.{operation}.{stream}", payload, timeout=60)
    content: dict[str, Any] = json.loads(answer.data)
    return content


@asynccontextmanager
async def without_republish(nats_url: str) -> AsyncIterator[None]:
    """Take the stream's live copies away; give them back at the end."""
    config = (await api(nats_url, "INFO"))["config"]
    silent = {key: value for key, value in config.items() if key != "republish"}
    assert silent != config
    changed = await api(nats_url, "UPDATE", silent)
    assert "republish" not in changed["config"]
    try:
        yield
    finally:
        await api(nats_url, "UPDATE", config)


async def test_a_stream_reaches_its_end_though_nothing_is_republished(
    fleet: Fleet, http: httpx.AsyncClient
) -> None:
    assert len(fleet.gateways) == 2
    async with without_republish(fleet.nats_url):
        for gateway in fleet.gateways:
            async with asyncio.timeout(120):
                async with PlainAgent(http, gateway, "counter").stream("5 20") as response:
                    streamed = await all_frames(response)
            assert streamed[-1].state == "COMPLETED"
            assert [frame.generation for frame in streamed] == list(range(1, len(streamed) + 1))
            assert text_of([frame.event for frame in streamed]) == "1 2 3 4 5 "


@asynccontextmanager
async def losing_an_ack(nats_url: str) -> AsyncIterator[NatsProxy]:
    """A way to NATS on which the first acknowledgement of an append gets lost."""
    async with NatsProxy(int(nats_url.rpartition(":")[2])) as proxy:
        proxy.lose_next(lambda frame: ACK_OF_EVENTS.search(frame) is not None)
        yield proxy


async def test_each_payload_is_stored_once_though_acks_are_lost(
    fleet: Fleet, http: httpx.AsyncClient, tmp_path: Path
) -> None:
    async with losing_an_ack(fleet.nats_url) as a, losing_an_ack(fleet.nats_url) as b:
        gateway, url = extra_services.gateway(tmp_path / "gateway", a.url)
        worker = extra_services.worker(tmp_path / "worker", "typists", b.url)
        with gateway.start(wait=False), worker.start(wait=False):

            async def serves() -> bool:
                return await asyncio.to_thread(extra_services.is_served, [url], "typist")

            await eventually(serves, "the typist is there")
            async with PlainAgent(http, url, "typist").stream("go") as response:
                streamed = await all_frames(response)
            lost = [len(a.lost), len(b.lost)]
            await asyncio.to_thread(worker.stop)
            await asyncio.to_thread(gateway.stop)
    assert lost == [1, 1], "the gateway's append and the worker's each lost an ack"
    assert streamed[-1].state == "COMPLETED"
    stored = await events_of(fleet.nats_url, "typist", streamed[0].event["task"]["id"])
    assert stored == [frame.event for frame in streamed]
    assert text_of(stored) == "1 2 3 4 5 6 7 8 9 10 "
    assert [frame.generation for frame in streamed] == list(range(1, len(streamed) + 1))


@pytest.mark.usefixtures("extra_worker")
async def test_an_agent_that_sleeps_without_awaiting_keeps_its_lease(
    fleet: Fleet, http: httpx.AsyncClient
) -> None:
    async with PlainAgent(http, fleet.gateways[0], "sleeper").stream("go") as response:
        streamed = await all_frames(response)
    assert streamed[-1].state == "COMPLETED"
    assert text_of([frame.event for frame in streamed]) == "before after"
    events = await events_of(fleet.nats_url, "sleeper", streamed[0].event["task"]["id"])
    updates = [event["statusUpdate"] for event in events if "statusUpdate" in event]
    attempts = [
        u["metadata"]["headrace.attempt"] for u in updates if "headrace.attempt" in u["metadata"]
    ]
    assert attempts == [1]


@pytest.mark.parametrize("ends", [None, "headers", "event"])
async def test_what_is_no_entry_is_stepped_over_and_kept_with_the_reason(
    fleet: Fleet, http: httpx.AsyncClient, ends: str | None
) -> None:
    async with PlainAgent(http, fleet.gateways[0], "counter").stream("10 100") as response:
        stream = frames(response)
        streamed = [await anext(stream) for _ in range(5)]
        task = str(streamed[0].event["task"]["id"])
        forged = StoredMessage({}, [b"not an event"], 0, "")
        if ends is not None:
            [*_, last] = await read_log(fleet.nats_url, "counter", task)
            forged = _contradictory(streamed[0].event["task"], last, ends)
        await _store(fleet, task, forged)
        streamed += [frame async for frame in stream]
    assert streamed[-1].state == "COMPLETED"
    assert [frame.generation for frame in streamed] == list(range(1, len(streamed) + 1))
    assert text_of([frame.event for frame in streamed]) == "1 2 3 4 5 6 7 8 9 10 "
    found = await PlainAgent(http, fleet.gateways[1], "counter").get(task)
    assert found.json()["status"]["state"] == "TASK_STATE_COMPLETED"

    async def is_kept() -> bool:
        subject = "headrace.dead.default.counter"
        letter = await api(fleet.nats_url, "MSG.GET", {"last_by_subj": subject}, stream="DEAD")
        if "message" not in letter:
            return False
        content = json.loads(base64.b64decode(letter["message"]["data"]))
        return bool(content["task"] == task and content["reason"])

    await eventually(is_kept, "the dead letter is kept")


def _contradictory(task: Json, last: StoredMessage, ends: str) -> StoredMessage:
    """Return a forged entry of which only the headers or only the event `ends` the task."""
    states = ["TASK_STATE_WORKING", "TASK_STATE_COMPLETED"]
    stated, done = states if ends == "event" else states[::-1]
    forged = _behind(task, last, done, another_log=False)
    return replace(forged, headers={**forged.headers, "Headrace-State": stated})


async def _ended(agent: PlainAgent) -> tuple[str, Json]:
    """Return the id of a task that has ended, and the task."""
    task = (await agent.send("5 1")).json()["task"]
    assert task["status"]["state"] == "TASK_STATE_COMPLETED"
    return task["id"], (await agent.get(task["id"])).json()


async def _store(fleet: Fleet, task: str, forged: StoredMessage) -> None:
    async with await nats.connect(fleet.nats_url) as client:
        stream = client.jetstream()
        await stream.publish(subject_of("counter", task), forged.lines[0], headers=forged.headers)


def _behind(task: Json, last: StoredMessage, state: str, *, another_log: bool) -> StoredMessage:
    """Return an entry that goes on behind the task's end, in `state`, as its agent may write it."""
    generation = 1 if another_log else int(last.headers["Headrace-Generation"]) + len(last.lines)
    headers = {k: v for k, v in last.headers.items() if k.startswith("Headrace-")}
    headers |= {"Headrace-Generation": str(generation), "Headrace-State": state}
    headers |= {"Headrace-Run": str(generation)} if state.endswith("SUBMITTED") else {}
    body: Json = {"status": {"state": state}, "metadata": {"headrace.generation": generation}}
    event = {"statusUpdate": {**body, "taskId": task["id"], "contextId": task["contextId"]}}
    if another_log:
        headers |= {"Headrace-Log": "forged00"}
        event = {"task": {**body, "id": task["id"], "contextId": task["contextId"]}}
    return StoredMessage(headers, [json.dumps(event).encode()], 0, "")


@pytest.mark.parametrize(
    ("state", "another_log"),
    [
        ("TASK_STATE_WORKING", False),
        ("TASK_STATE_SUBMITTED", False),
        ("TASK_STATE_INPUT_REQUIRED", False),
        ("TASK_STATE_FAILED", False),
        ("TASK_STATE_WORKING", True),
    ],
)
async def test_nothing_that_a_worker_writes_behind_an_end_is_believed_or_waited_for(
    fleet: Fleet, http: httpx.AsyncClient, state: str, *, another_log: bool
) -> None:
    agent, other = (PlainAgent(http, gateway, "counter") for gateway in fleet.gateways)
    task, whole = await _ended(agent)
    async with agent.subscribe(task, "start") as response:
        streamed = [frame.event for frame in await all_frames(response)]
    [*_, end] = await read_log(fleet.nats_url, "counter", task)
    forged = _behind(whole, end, state, another_log=another_log)
    cursor = f"{end.headers['Headrace-Log']}:{len(streamed)}"
    await _store(fleet, task, forged)
    # A wait for what never comes would end with the client's timeout.
    for one in (agent, other):
        answer = await one.post("message:send", {"message": message("on", taskId=task)})
        assert answer.status_code == httpx.codes.BAD_REQUEST, answer.text
        assert (await one.get(task)).json() == whole
        async with one.stream("on", taskId=task) as response:
            assert response.status_code == httpx.codes.BAD_REQUEST
        if not another_log:
            async with one.subscribe(task, "start") as response:
                assert [frame.event for frame in await all_frames(response)] == streamed
    [listed] = await other.tasks(contextId=whole["contextId"])
    assert (listed["id"], listed["status"]) == (task, whole["status"])

    async def is_last() -> bool:
        return (await read_log(fleet.nats_url, "counter", task))[-1].lines == end.lines

    # Who reads the last entry alone is not misled for long.
    await eventually(is_last, "the end is the log's last entry again")
    forged = _behind(whole, end, "TASK_STATE_WORKING", another_log=False)
    await _store(fleet, task, forged)
    await eventually(is_last, "the end is the log's last entry again")
    for one in (agent, other):
        async with one.subscribe(task, cursor) as response:
            assert response.status_code == httpx.codes.NO_CONTENT
        async with one.subscribe(task, "start") as response:
            assert [frame.event for frame in await all_frames(response)] == streamed
    subject = "headrace.dead.default.counter"
    letter = await api(fleet.nats_url, "MSG.GET", {"last_by_subj": subject}, stream="DEAD")
    content = json.loads(base64.b64decode(letter["message"]["data"]))
    assert (content["task"], base64.b64decode(content["body"])) == (task, forged.lines[0])
