"""Agents that begin one another over NATS, without HTTP, while task state is killed."""

import asyncio
import json
from collections import defaultdict
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import nats
import pytest
from nats.js.api import StreamConfig
from nats.js.client import JetStreamContext

from headrace.client import Client
from tests.support.event_stream import Json
from tests.support.stack import BASIC_AGENTS, Stack
from tests.support.waiting import eventually

ORDERS = 20


@pytest.fixture
def stack(tmp_path: Path) -> Iterator[Stack]:
    with Stack(tmp_path, triggers=1, agents=BASIC_AGENTS).start() as stack:
        yield stack


@pytest.fixture
async def js(stack: Stack) -> AsyncIterator[JetStreamContext]:
    """A user's JetStream, with a stream of orders."""
    connection = await nats.connect(stack.dev()["nats_url"])
    js = connection.jetstream(timeout=60)
    await js.add_stream(StreamConfig(name="ORDERS", subjects=["orders.>"]))
    yield js
    await connection.close()


async def stored(js: JetStreamContext, subject: str) -> list[Json]:
    """Return the CloudEvents on a subject of the stream, in order."""
    last = (await js.stream_info("ORDERS")).state.last_seq
    messages = [await js.get_msg("ORDERS", sequence) for sequence in range(1, last + 1)]
    return [json.loads(one.data or b"") for one in messages if one.subject == subject]


async def test_an_answer_begins_the_next_agents_task_once_while_task_state_is_killed(
    stack: Stack, js: JetStreamContext
) -> None:
    usual = {"agent": "echo", "stream": "ORDERS"}
    checked = {"subject": "orders.checked", "stream": "ORDERS"}
    done = {"subject": "orders.done", "stream": "ORDERS"}
    events = {"subject": "orders.told", "stream": "ORDERS", "what": "events"}
    created, text = (
        {**usual, "subject": "orders.created"},
        "{body.data.task.artifacts.0.parts.0.text}",
    )
    async with Client(stack.url) as client:
        for trigger in (
            {**created, "name": "check", "text": "order {body.n}", "answers": checked},
            {**created, "name": "tell", "text": "order {body.n}", "answers": events},
            {**usual, "name": "finish", "subject": "orders.checked", "text": text, "answers": done},
        ):
            await client.triggers.apply(trigger)
    for number in range(ORDERS):
        await js.publish("orders.created", json.dumps({"n": number}).encode(), timeout=60)
        if number == ORDERS // 2:
            killed = stack.kill("task-state")
            await asyncio.to_thread(stack.until_restarted, "task-state", 0, killed)

    async def are_done() -> bool:
        ends = [one for one in await stored(js, "orders.told") if "completed" in one["type"]]
        return len(await stored(js, "orders.done")) >= ORDERS <= len(ends)

    await eventually(are_done, "all orders are done", timeout=120)
    answers = [one["data"]["task"] for one in await stored(js, "orders.done")]
    texts = [one["artifacts"][0]["parts"][0]["text"] for one in answers]
    assert sorted(texts) == sorted(f"order {number}" for number in range(ORDERS))
    steps = defaultdict[str, list[str]](list)
    for event in await stored(js, "orders.told"):
        steps[event["subject"]].append(event["type"])
    assert len(steps) == ORDERS
    in_order = ["headrace.task.submitted", "headrace.status.working", "headrace.artifact"]
    # Updates that continue one another are one event.
    assert {tuple(dict.fromkeys(one)) for one in steps.values()} == {
        (*in_order, "headrace.status.completed")
    }
    ids = [one["id"] for one in await stored(js, "orders.told")]
    assert len(set(ids)) == len(ids)
