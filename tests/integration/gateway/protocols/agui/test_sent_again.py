"""The same run sent again: it is joined, wherever and whenever, and never begun twice."""

import asyncio
import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import orjson
import pytest

from headrace.jetstream.connection import Bus
from headrace.log.tombstone import put_tombstone
from headrace.model.events import Json
from headrace.model.task import mint_task_id
from headrace.tasks.forget import clear_away
from headrace_gateway.protocols.agui.run_input import RunInput
from headrace_gateway.server.auth.caller import Caller
from headrace_gateway.tasks import idempotency
from headrace_gateway.tasks.idempotency import (
    IdempotencyRecord,
    IdempotencyRecords,
    KeyedRequest,
    StoredRecord,
)
from tests.support.agui.client_rules import Client
from tests.support.agui.runs import path, run, run_input, run_of, running
from tests.support.clients.websocket import connect
from tests.support.event_stream import Frame, all_frames, frames
from tests.support.scripted_fleet import ScriptedFleet


def raw(received: list[Frame]) -> list[bytes]:
    return [frame.raw for frame in received]


async def test_a_repeated_request_is_streamed_from_the_beginning_and_runs_once(
    http: httpx.AsyncClient, elsewhere: httpx.AsyncClient, fleet: ScriptedFleet
) -> None:
    body = run_input()
    first: list[Frame] = []
    async with running(http, "patient", body) as response:
        reading = frames(response)
        async for frame in reading:
            first.append(frame)
            if frame.json.get("delta") == "a":
                break
        again = asyncio.create_task(run(elsewhere, "patient", body))
        late = asyncio.create_task(run(http, "patient", body))
        await asyncio.sleep(0)
        (await run_of(fleet)).go_on.set()
        first += [frame async for frame in reading]
    assert first[-1].json["type"] == "RUN_FINISHED"
    assert raw(await again) == raw(await late) == raw(first)
    # Also when it is long over.
    assert raw(await run(elsewhere, "patient", body)) == raw(first)
    assert len(fleet.runs) == 1


@pytest.mark.parametrize("agent", ["assistant", "refusing", "yielding"])
async def test_many_at_once_on_two_gateways_are_one_run(
    http: httpx.AsyncClient, elsewhere: httpx.AsyncClient, fleet: ScriptedFleet, agent: str
) -> None:
    for _ in range(3):
        fleet.runs.clear()
        body = run_input()
        sending = [
            asyncio.create_task(run([http, elsewhere][n % 2], agent, body)) for n in range(10)
        ]
        (await run_of(fleet)).go_on.set()
        received = await asyncio.gather(*sending)
        assert received[0][-1].json["type"] == "RUN_FINISHED"
        assert "outcome" not in received[0][-1].json
        assert all(raw(other) == raw(received[0]) for other in received)
        assert len(fleet.runs) == 1


@pytest.mark.parametrize("agent", ["refusing", "yielding"])
async def test_a_run_at_work_is_not_in_the_way_of_itself(
    http: httpx.AsyncClient, elsewhere: httpx.AsyncClient, fleet: ScriptedFleet, agent: str
) -> None:
    body = run_input()
    async with running(http, agent, body) as response:
        reading = frames(response)
        async for frame in reading:
            if frame.json.get("delta") == "a":
                break
        async with running(elsewhere, agent, body) as second:
            again = [await anext(frames(second)) for _ in range(1)]
            assert again[0].json["type"] == "RUN_STARTED"
            (await run_of(fleet)).go_on.set()
        rest = [frame.json async for frame in reading]
    assert rest[-1]["type"] == "RUN_FINISHED"
    assert "outcome" not in rest[-1]
    assert len(fleet.runs) == 1


async def test_another_request_may_not_use_the_runs_id(
    http: httpx.AsyncClient, elsewhere: httpx.AsyncClient, fleet: ScriptedFleet
) -> None:
    body = run_input()
    await run(http, "assistant", body)
    changes: list[Json] = [
        {"messages": run_input("else")["messages"]},
        {"state": {"n": 1}},
        {"forwardedProps": {"n": 1}},
        {"tools": [{"name": "paint", "description": "", "parameters": {}}]},
    ]
    for change in changes:
        answer = await elsewhere.post(path("assistant"), json={**body, **change})
        assert (answer.status_code, answer.json()["error"]["code"]) == (409, "run_id_reused")
        assert body["runId"] in answer.json()["error"]["message"]
    assert len(fleet.runs) == 1
    # The same, written otherwise, is the same.
    turned = dict(reversed(body.items())) | {"resume": None, "somethingElse": 1}
    answer = await elsewhere.post(path("assistant"), json=turned)
    assert answer.is_success
    assert len(fleet.runs) == 1


async def test_another_thread_and_another_agent_have_run_ids_of_their_own(
    http: httpx.AsyncClient, fleet: ScriptedFleet
) -> None:
    body = run_input()
    await run(http, "assistant", body)
    await run(http, "assistant", {**body, "threadId": f"{body['threadId']}-2"})
    await run(http, "large", body)
    assert len(fleet.runs) == 3


@pytest.mark.parametrize("answer", ["resume", "tool"])
async def test_an_answer_sent_again_joins_the_run_that_it_began(
    http: httpx.AsyncClient, elsewhere: httpx.AsyncClient, fleet: ScriptedFleet, answer: str
) -> None:
    agent, again = await (_resuming(http) if answer == "resume" else _with_result(http))
    many = [run([http, elsewhere][n % 2], agent, again) for n in range(6)]
    received = await asyncio.gather(*many)
    assert received[0][0].json["runId"] == again["runId"]
    assert received[0][-1].json["type"] in {"RUN_FINISHED", "RUN_ERROR"}
    assert all(raw(other) == raw(received[0]) for other in received)
    assert raw(await run(elsewhere, agent, again)) == raw(received[0])
    assert len(fleet.runs) == 2
    assert len({one.key for one in fleet.runs}) == 1


async def _resuming(http: httpx.AsyncClient) -> tuple[str, Json]:
    body = run_input("ask")
    [interrupt] = (await run(http, "ending", body))[-1].json["outcome"]["interrupts"]
    entry = {"interruptId": interrupt["id"], "status": "resolved", "payload": "fail"}
    return "ending", {**body, "runId": f"{body['runId']}-2", "resume": [entry]}


async def _with_result(http: httpx.AsyncClient) -> tuple[str, Json]:
    body = run_input("paint it")
    received = [frame.json for frame in await run(http, "painter", body)]
    client = Client(body["messages"], body["state"]).take_all(received)
    [call] = received[-1]["outcome"]["pendingToolCallIds"]
    result = {"id": "r", "role": "tool", "toolCallId": call, "content": "painted"}
    messages = [*client.messages, result]
    return "painter", {**body, "runId": f"{body['runId']}-2", "messages": messages}


async def test_over_other_transports_it_is_the_same_run(
    http: httpx.AsyncClient, elsewhere: httpx.AsyncClient, fleet: ScriptedFleet
) -> None:
    body = run_input()
    received = [frame.json for frame in await run(http, "assistant", body)]
    accept = {"accept": "application/vnd.ag-ui.event+proto"}
    binary = [
        await client.post(path("assistant"), json=body, headers=accept)
        for client in (http, elsewhere)
    ]
    assert binary[0].headers["content-type"] == accept["accept"]
    assert binary[0].content == binary[1].content
    where = str(elsewhere.base_url).replace("http", "ws", 1) + path("assistant") + "/ws"
    async with connect(where) as socket:
        for _ in range(2):
            await socket.send(orjson.dumps(body).decode())
            assert [orjson.loads(await socket.recv()) for _ in received] == received
    copilotkit = await elsewhere.post("/copilotkit/agent/assistant/run", json=body)
    assert copilotkit.text.count("data: ") == len(received)
    assert len(fleet.runs) == 1


async def _claimed(bus: Bus, body: Json, **more: Any) -> IdempotencyRecord:  # noqa: ANN401 - a record's fields
    """Leave what a gateway leaves that is killed between its record and the log."""
    requests = RunInput.read(orjson.dumps(body))
    request = KeyedRequest(Caller(), "assistant", requests.key, requests.fingerprint())
    sent = IdempotencyRecord(fingerprint=request.fingerprint, context=body["threadId"], **more)
    assert (await IdempotencyRecords(bus, 60, time.time).claim(request.name, sent)).record == sent
    return sent


async def test_a_gateway_killed_before_the_log_began_leaves_the_run_to_the_next(
    http: httpx.AsyncClient, elsewhere: httpx.AsyncClient, fleet: ScriptedFleet, bus: Bus
) -> None:
    body = run_input()
    sent = await _claimed(bus, body, task=mint_task_id(3), run=1)
    received = [await run(client, "assistant", body) for client in (http, elsewhere)]
    assert raw(received[0]) == raw(received[1])
    assert [one.key.task for one in fleet.runs] == [sent.task]


def _age_records(monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
    find = IdempotencyRecords.find

    async def find_older(records: IdempotencyRecords, name: str) -> StoredRecord | None:
        found = await find(records, name)
        return None if found is None else replace(found, age=seconds)

    monkeypatch.setattr(IdempotencyRecords, "find", find_older)


async def test_a_run_that_was_refused_minutes_ago_begins_when_it_is_sent_again(
    http: httpx.AsyncClient, fleet: ScriptedFleet, bus: Bus, monkeypatch: pytest.MonkeyPatch
) -> None:
    body = run_input()
    sent = await _claimed(bus, body, task=mint_task_id(3), run=1)
    _age_records(monkeypatch, 250)
    assert (await run(http, "assistant", body))[-1].json["type"] == "RUN_FINISHED"
    assert [one.key.task for one in fleet.runs] == [sent.task]


async def test_a_gateway_whose_clock_is_wrong_knows_how_old_a_request_is(
    http: httpx.AsyncClient, fleet: ScriptedFleet, bus: Bus, monkeypatch: pytest.MonkeyPatch
) -> None:
    body = run_input()
    sent = await _claimed(bus, body, task=mint_task_id(3), run=1)
    ahead = timedelta(hours=1)
    monkeypatch.setattr("headrace.clock.now", lambda: datetime.now(UTC) + ahead)
    assert (await run(http, "assistant", body))[-1].json["type"] == "RUN_FINISHED"
    assert [one.key.task for one in fleet.runs] == [sent.task]


async def test_a_run_that_never_began_is_not_begun_long_after_it_was_first_sent(
    http: httpx.AsyncClient, fleet: ScriptedFleet, bus: Bus, monkeypatch: pytest.MonkeyPatch
) -> None:
    body = run_input()
    await _claimed(bus, body, task=mint_task_id(3), run=1)
    _age_records(monkeypatch, idempotency.begins_within(600) + 1)
    answer = await http.post(path("assistant"), json=body)
    assert (answer.status_code, answer.json()["error"]["code"]) == (404, "run_unknown")
    assert fleet.runs == []
    again = await run(http, "assistant", {**body, "runId": f"{body['runId']}-2"})
    assert again[-1].json["type"] == "RUN_FINISHED"


async def test_a_run_that_is_not_kept_any_more_is_not_begun_again(
    http: httpx.AsyncClient, fleet: ScriptedFleet, bus: Bus
) -> None:
    body = run_input()
    await run(http, "assistant", body)
    key = fleet.runs[0].key
    await put_tombstone(bus, key, "anonymous", "retention", 600, 0)
    await clear_away(bus, key)
    answer = await http.post(path("assistant"), json=body)
    assert (answer.status_code, answer.json()["error"]["code"]) == (404, "run_unknown")
    assert len(fleet.runs) == 1


async def test_over_a_websocket_a_reused_id_is_refused_and_the_socket_goes_on(
    http: httpx.AsyncClient, fleet: ScriptedFleet
) -> None:
    body = run_input()
    received = await run(http, "assistant", body)
    where = str(http.base_url).replace("http", "ws", 1) + path("assistant") + "/ws"
    async with connect(where) as socket:
        await socket.send(orjson.dumps({**body, "state": {"n": 2}}).decode())
        refused = orjson.loads(await socket.recv())
        assert (refused["type"], refused["code"]) == ("RUN_ERROR", "run_id_reused")
        await socket.send(orjson.dumps(body).decode())
        kinds = [orjson.loads(await socket.recv())["type"] for _ in received]
    assert kinds == [frame.json["type"] for frame in received]
    assert len(fleet.runs) == 1


async def test_all_frames_have_cursors_also_in_a_stream_sent_again(
    http: httpx.AsyncClient, elsewhere: httpx.AsyncClient, fleet: ScriptedFleet
) -> None:
    body = run_input()
    first = await run(http, "assistant", body)
    async with running(elsewhere, "assistant", body) as response:
        again = await all_frames(response)
    ids = [frame.id for frame in again]
    assert ids == [frame.id for frame in first]
    assert len(set(ids)) == len(ids) > 3
    assert len(fleet.runs) == 1
