"""A client whose stream broke, and that sends its part of the answer back as history."""

import asyncio
from uuid import uuid4

import httpx
import pytest

from headrace.model.events import Json
from tests.support import javascript
from tests.support.agui.client_rules import Client
from tests.support.agui.runs import path, run, run_input
from tests.support.event_stream import all_frames

WHOLE = ["one", "1", "2", "To one", "and?", "1", "2", "To and?"]


def contents(messages: list[Json]) -> list[str]:
    """Return the content of the messages that have any."""
    return [message["content"] for message in messages if message.get("content")]


async def cut_thread(http: httpx.AsyncClient) -> tuple[str, str]:
    """Make a thread whose client goes on with a part of the first answer; return thread and run."""
    body = run_input("one")
    received = [frame.json for frame in await run(http, "numbering", body)]
    [*before, answer] = Client(body["messages"]).take_all(received).messages
    cut = {**answer, "content": "To"}
    asked = {"id": str(uuid4()), "role": "user", "content": "and?"}
    second = {**body, "runId": str(uuid4()), "messages": [*before, cut, asked]}
    await run(http, "numbering", second)
    return body["threadId"], second["runId"]


async def test_the_thread_has_the_whole_answer(http: httpx.AsyncClient) -> None:
    thread, _ = await cut_thread(http)
    found = await http.get(f"{path('numbering')}/threads/{thread}")
    assert contents(found.json()["messages"]) == WHOLE


@pytest.mark.parametrize("route", ["attach", "connect"])
async def test_a_client_that_comes_back_gets_the_whole_answer(
    http: httpx.AsyncClient, route: str
) -> None:
    thread, name = await cut_thread(http)
    body = {"threadId": thread, "runId": name}
    async with http.stream("POST", f"{path('numbering')}/{route}", json=body) as response:
        events = [frame.json for frame in await all_frames(response)]
    [snapshot] = [event for event in events if event["type"] == "MESSAGES_SNAPSHOT"]
    assert contents(snapshot["messages"]) == WHOLE


async def test_a_page_of_copilotkit_that_reloads_shows_the_whole_answer(
    http: httpx.AsyncClient, gateway: str
) -> None:
    thread, _ = await cut_thread(http)
    order = {"runtimeUrl": f"{gateway}/copilotkit", "agentId": "numbering", "threadId": thread}
    with javascript.Script("copilotkit.mjs") as script:
        steps = [{"connect": True}]
        held = await asyncio.to_thread(script.run, {**order, "steps": steps})
    assert (held["errors"], held["warnings"]) == ([], [])
    assert contents(held["messages"]) == WHOLE
