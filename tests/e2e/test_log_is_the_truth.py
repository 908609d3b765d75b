"""What comes from the log survives what the live copy, an acknowledgement, a lease may suffer."""

import asyncio
import base64
import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import nats
import pytest

from tests.support import extra_services
from tests.support.event_stream import all_frames, frames, text_of
from tests.support.fleet import Fleet
from tests.support.nats_proxy import NatsProxy
from tests.support.plain_a2a import PlainAgent
from tests.support.stored_log import events_of, subject_of
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


async def test_what_does_not_parse_is_stepped_over_and_kept_with_the_reason(
    fleet: Fleet, http: httpx.AsyncClient
) -> None:
    async with PlainAgent(http, fleet.gateways[0], "counter").stream("10 100") as response:
        stream = frames(response)
        streamed = [await anext(stream) for _ in range(5)]
        task = str(streamed[0].event["task"]["id"])
        await publish(fleet.nats_url, subject_of("counter", task), b"not an event")
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


async def publish(nats_url: str, subject: str, payload: bytes) -> None:
    async with await nats.connect(nats_url) as client:
        await client.jetstream(timeout=60).publish(subject, payload)
