"""Hector's dialect on A2A's streaming routes."""

import json
from uuid import uuid4

import httpx
import pytest

from headrace.model.events import Json
from tests.support.agui.runs import run_of
from tests.support.agui.scripts import AGENTS
from tests.support.clients.websocket import socket_to
from tests.support.event_stream import Frame, all_frames, frames
from tests.support.scripted_fleet import Agents, ScriptedFleet

ASKED = {"accept": "application/x-agui-events"}


@pytest.fixture(scope="module")
def agents() -> Agents:
    return AGENTS


@pytest.fixture(scope="module")
def client_headers() -> dict[str, str]:
    return {}


def message(text: str = "Hello") -> Json:
    return {"messageId": str(uuid4()), "role": "ROLE_USER", "parts": [{"text": text}]}


def names(received: list[Frame]) -> list[str]:
    return [dict(frame.fields)["event"] for frame in received]


async def streamed(
    http: httpx.AsyncClient, agent: str, headers: dict[str, str], query: str = ""
) -> list[Frame]:
    where = f"/v1/agents/{agent}/message:stream{query}"
    body = {"message": message()}
    async with http.stream("POST", where, json=body, headers=headers) as response:
        return await all_frames(response)


@pytest.mark.parametrize(
    ("headers", "query"),
    [(ASKED, ""), ({"accept": "application/agui+json"}, ""), ({}, "?format=agui")],
)
async def test_a_message_is_streamed_in_it(
    http: httpx.AsyncClient, headers: dict[str, str], query: str
) -> None:
    received = await streamed(http, "assistant", headers, query)
    output = names(received)
    assert output[:3] == ["task_start", "message_start", "task_update"]
    assert output[-3:] == ["message_stop", "task_complete", "done"]
    assert {"thinking_start", "tool_call_start", "tool_call_stop", "content_block_delta"} < {
        *output
    }
    text = [f.json["contentBlockDelta"] for f in received if "contentBlockDelta" in f.json]
    assert "".join(one["delta"] for one in text[:2]) == "Two words."
    assert received[-1].json == {}
    assert len({frame.json["eventId"] for frame in received[:-1]}) == len(received) - 1


async def test_json_rpc_streams_it_too(http: httpx.AsyncClient) -> None:
    call = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "SendStreamingMessage",
        "params": {"message": message()},
    }
    async with http.stream("POST", "/v1/agents/assistant", json=call, headers=ASKED) as response:
        received = await all_frames(response)
    assert (names(received)[0], names(received)[-1]) == ("task_start", "done")


SHORT: Json = {"parts": [{"text": "Hello"}]}
CALL: Json = {"jsonrpc": "2.0", "id": 1, "method": "message/stream", "params": {"message": SHORT}}


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("message:stream", {"message": SHORT}),
        ("stream", {"message": SHORT}),
        ("stream", {"request": {"role": "user", **SHORT}}),
        ("stream", CALL),
        ("stream", {**CALL, "method": "SendStreamingMessage"}),
    ],
)
@pytest.mark.parametrize(("headers", "query"), [(ASKED, ""), ({}, "?format=agui")])
async def test_the_documents_own_requests_are_served(
    http: httpx.AsyncClient, path: str, body: Json, headers: dict[str, str], query: str
) -> None:
    where = f"/v1/agents/assistant/{path}{query}"
    async with http.stream("POST", where, json=body, headers=headers) as response:
        received = await all_frames(response)
    assert (names(received)[0], names(received)[-1]) == ("task_start", "done")


async def test_stream_speaks_a2a_unless_another_response_is_requested(
    http: httpx.AsyncClient,
) -> None:
    where = "/v1/agents/assistant/stream"
    async with http.stream("POST", where, json={"message": message()}) as response:
        assert "task" in (await all_frames(response))[0].json
    async with http.stream("POST", where, json={**CALL, "id": 7}) as response:
        assert "task" in (await all_frames(response))[0].json["result"]
    answer = await http.post(where, json={"message": {"parts": "none"}}, headers=ASKED)
    assert answer.status_code == 400
    assert (await http.post(where, content=b"[")).status_code == 400


@pytest.mark.parametrize("query", ["?format=agui", ""])
async def test_a_websocket_speaks_it_too(
    http: httpx.AsyncClient, gateway: str, fleet: ScriptedFleet, query: str
) -> None:
    headers = {} if query else ASKED
    path = f"/v1/agents/patient/stream{query}"
    async with socket_to(gateway, path, additional_headers=headers) as socket:
        await socket.send({"id": 1, "send": {"message": SHORT}})
        first = await socket.next(1)
        run = await run_of(fleet)
        await socket.send({"id": 2, "subscribe": {"task": run.key.task}})
        assert await socket.next(2) == {**first, "id": 2}
        run.go_on.set()
        events = await socket.events(1)
        rest = await socket.events(2)
        assert rest == events
        cut = len(events) // 2
        again = {"task": run.key.task, "after": events[cut][0]}
        await socket.send({"id": 3, "subscribe": again})
        assert await socket.events(3) == events[cut + 1 :]
        await socket.send({"id": 4, "cancel": {"task": "nobody"}})
        assert "error" in await socket.next(4)
    where = f"/v1/agents/patient/tasks/{run.key.task}:subscribe?format=agui"
    cursor = {"last-event-id": first["cursor"]}
    async with http.stream("GET", where, headers=cursor) as response:
        rest_by_sse = await all_frames(response)
    assert [(frame.id, frame.json) for frame in rest_by_sse[:-1]] == events


async def test_a_subscriber_gets_all_events_and_resumes_after_any(
    http: httpx.AsyncClient, fleet: ScriptedFleet
) -> None:
    where, messages = "/v1/agents/patient/message:stream", list[Frame]()
    async with http.stream("POST", where, json={"message": message()}, headers=ASKED) as response:
        async for frame in frames(response):
            messages.append(frame)
            if "contentBlockDelta" in frame.json:
                break
    run = await run_of(fleet)
    subscribe = f"/v1/agents/patient/tasks/{run.key.task}:subscribe?format=agui"
    async with http.stream("GET", subscribe) as response:
        whole = list[Frame]()
        async for frame in frames(response):
            whole.append(frame)
            run.go_on.set()
    assert [frame.raw for frame in whole[: len(messages)]] == [frame.raw for frame in messages]
    assert names(whole)[-1] == "done"
    over = await http.get(subscribe, headers={"last-event-id": whole[-2].id})
    assert over.status_code == 204  # anything else has an EventSource ask again, for ever
    for cut in range(len(whole) - 2):
        headers = {"last-event-id": whole[cut].id}
        async with http.stream("GET", subscribe, headers=headers) as response:
            again = await all_frames(response)
        assert [frame.raw for frame in again] == [frame.raw for frame in whole[cut + 1 :]]


async def test_what_is_refused_is_refused_as_a2a_does(http: httpx.AsyncClient) -> None:
    where = "/v1/agents/assistant/message:stream"
    answer = await http.post(where, json={"message": {}}, headers=ASKED)
    assert answer.status_code == 400
    assert json.loads(answer.content)["error"]["code"] == 400


async def test_the_card_declares_it(http: httpx.AsyncClient) -> None:
    card = (await http.get("/v1/agents/assistant/.well-known/agent-card.json")).json()
    [extension] = [
        one
        for one in card["capabilities"]["extensions"]
        if one["uri"] == "https://ag-ui.org/protocol/v1"
    ]
    assert not extension.get("required")
    assert "application/x-agui-events" in card["defaultOutputModes"]
