"""What is wrong with a request is said before any stream starts."""

import asyncio
import json
from contextlib import suppress
from typing import Any
from uuid import uuid4

import httpx
import pytest
from websockets.exceptions import ConnectionClosed

from headrace.model.events import Json
from headrace_gateway.settings import GatewaySettings
from tests.support.agui.runs import path, run, run_input
from tests.support.clients.websocket import connect
from tests.support.scripted_fleet import ScriptedFleet
from tests.unit.gateway.protocols.agui.test_run_input import WRONG


def complaint(answer: httpx.Response, status: int, code: str) -> str:
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/json"
    body = answer.json()
    assert body.keys() == {"error"}
    assert body["error"].keys() == {"code", "message"}
    assert body["error"]["code"] == code
    message: str = body["error"]["message"]
    return message


@pytest.mark.parametrize(("changes", "rule"), WRONG, ids=map(json.dumps, [w for w, _ in WRONG]))
async def test_a_malformed_input_is_named_before_a_stream_begins(
    http: httpx.AsyncClient, fleet: ScriptedFleet, changes: Json, rule: str
) -> None:
    body = run_input(**changes)
    answer = await http.post(path("assistant"), json=body)
    assert complaint(answer, 400, "invalid_input").startswith(rule)
    copilot = await http.post("/copilotkit/agent/assistant/run", json=body)
    assert (copilot.status_code, copilot.json()["error"]["code"]) == (400, "invalid_input")
    assert fleet.runs == []


async def test_over_a_websocket_it_is_a_failed_run_and_the_socket_goes_on(
    gateway: str, fleet: ScriptedFleet
) -> None:
    address = f"ws{gateway.removeprefix('http')}{path('assistant')}/ws"
    async with connect(address) as socket:
        for changes, rule in WRONG:
            await socket.send(json.dumps(run_input(**changes)))
            received = json.loads(await asyncio.wait_for(socket.recv(), 60))
            assert (received["type"], received["code"]) == ("RUN_ERROR", "invalid_input")
            assert received["message"].startswith(rule)
        assert fleet.runs == []
        await socket.send(json.dumps(run_input()))
        received = {"type": ""}
        while received["type"] != "RUN_FINISHED":
            received = json.loads(await asyncio.wait_for(socket.recv(), 60))


async def test_an_oversized_frame_closes_the_socket_and_gives_the_reason(
    gateway: str, settings: GatewaySettings, fleet: ScriptedFleet
) -> None:
    async with connect(f"ws{gateway.removeprefix('http')}{path('assistant')}/ws") as socket:
        with suppress(ConnectionClosed):  # The gateway does not wait for all of it.
            await socket.send(json.dumps(run_input("x" * settings.max_body_bytes)))
        with pytest.raises(ConnectionClosed):
            await asyncio.wait_for(socket.recv(), 60)
        assert socket.close_code == 1009
    assert fleet.runs == []


async def test_a_query_that_is_neither_yes_nor_no_is_named(http: httpx.AsyncClient) -> None:
    answer = await http.post(f"{path('assistant')}?raw=maybe", json=run_input())
    assert complaint(answer, 400, "invalid_input").startswith("raw: ")


async def test_malformed_json_is_named(http: httpx.AsyncClient) -> None:
    headers = {"content-type": "application/json"}
    answer = await http.post(path("assistant"), content=b'{"threadId":', headers=headers)
    assert "not JSON" in complaint(answer, 400, "invalid_input")


async def test_an_unknown_agent_is_not_found(http: httpx.AsyncClient) -> None:
    answer = await http.post(path("nobody"), json=run_input())
    assert "nobody" in complaint(answer, 404, "agent_unknown")


async def test_a_client_that_takes_no_event_stream_is_refused(http: httpx.AsyncClient) -> None:
    headers = {"accept": "application/json"}
    answer = await http.post(path("assistant"), json=run_input(), headers=headers)
    assert "text/event-stream" in complaint(answer, 406, "not_acceptable")


async def test_a_body_that_is_not_sent_as_json_is_refused(http: httpx.AsyncClient) -> None:
    headers = {"content-type": "text/plain"}
    answer = await http.post(path("assistant"), content=b"{}", headers=headers)
    complaint(answer, 415, "unsupported_media_type")


async def test_a_body_over_the_limit_is_refused(
    http: httpx.AsyncClient, settings: GatewaySettings
) -> None:
    answer = await http.post(path("assistant"), json=run_input("x" * settings.max_body_bytes))
    complaint(answer, 413, "body_too_large")


async def test_small_values_beyond_what_a_log_holds_are_refused_unread(
    http: httpx.AsyncClient, gateway: str
) -> None:
    body = run_input(state={"many": [{"a": 1}] * 300_000})
    answer = await http.post(path("assistant"), json=body)
    assert "without its files" in complaint(answer, 413, "body_too_large")
    async with connect(f"ws{gateway.removeprefix('http')}{path('assistant')}/ws") as socket:
        await socket.send(json.dumps(body))
        received = json.loads(await asyncio.wait_for(socket.recv(), 60))
    assert (received["type"], received["code"]) == ("RUN_ERROR", "body_too_large")


async def test_an_input_that_no_log_entry_holds_is_refused(http: httpx.AsyncClient) -> None:
    result = {"id": "t", "role": "tool", "toolCallId": "c", "content": "x" * 600_000}
    answer = await http.post(path("assistant"), json=run_input(messages=[result]))
    complaint(answer, 413, "event_too_large")


async def test_media_that_the_agent_does_not_take_is_refused(http: httpx.AsyncClient) -> None:
    source = {"type": "data", "value": "YQ==", "mimeType": "image/png"}
    content: Any = [{"type": "image", "source": source}]
    message = {"id": "m", "role": "user", "content": content}
    answer = await http.post(path("ending"), json=run_input(messages=[message]))
    assert "image/png" in complaint(answer, 400, "content_type_not_supported")
    taken = await run(http, "assistant", run_input(messages=[message]))
    assert taken[-1].json["type"] == "RUN_FINISHED"


async def test_another_owners_thread_id_names_a_thread_of_ones_own(
    http: httpx.AsyncClient, fleet: ScriptedFleet
) -> None:
    thread = str(uuid4())
    theirs = await fleet.foreign_task("assistant", thread)
    received = await run(http, "assistant", run_input(threadId=thread))
    assert received[-1].json["type"] == "RUN_FINISHED"
    page = await http.get(f"{path('assistant')}/threads/{thread}")
    assert len(page.raise_for_status().json()["runs"]) == 1
    assert theirs.task not in page.text


async def test_a_thread_id_that_is_too_long_can_not_be_attached_to(
    http: httpx.AsyncClient,
) -> None:
    for changes in ({"threadId": "x" * 257}, {"threadId": "t", "runId": "x" * 257}):
        for page in ("attach", "stop"):
            answer = await http.post(f"{path('assistant')}/{page}", json=changes)
            rule = complaint(answer, 400, "invalid_input")
            assert rule == f"{list(changes)[-1]}: must not be longer than 256 characters"
    answer = await http.get(f"{path('assistant')}/threads/{'x' * 257}")
    rule = complaint(answer, 400, "invalid_input")
    assert rule == "threadId: must not be longer than 256 characters"


async def test_without_task_state_a_run_begins_and_one_that_resumes_has_to_wait(
    http: httpx.AsyncClient, fleet: ScriptedFleet
) -> None:
    resume = [{"interruptId": "i", "status": "resolved"}]
    await fleet.stop_state()
    try:
        received = await run(http, "assistant", run_input())
        answer = await http.post(path("assistant"), json=run_input(resume=resume))
    finally:
        await fleet.start_state()
    assert received[-1].json["type"] == "RUN_FINISHED"
    complaint(answer, 503, "state_unavailable")
    assert int(answer.headers["retry-after"]) > 0
