"""Coming back to runs: on another gateway, during the run and after, with a cursor or without."""

import asyncio
from uuid import uuid4

import httpx
import pytest

from headrace.model.events import Json
from headrace_gateway.protocols.agui.threads import RunThread, ThreadRun
from tests.support import javascript
from tests.support.agui.client_rules import Client
from tests.support.agui.runs import path, run, run_input, run_of, running
from tests.support.event_stream import Frame, all_frames, frames
from tests.support.scripted_fleet import ScriptedFleet


async def attached(
    http: httpx.AsyncClient, body: Json, cursor: str = "", agent: str = "patient"
) -> list[Frame]:
    """Return the frames of an attached stream, to its end."""
    headers = {"last-event-id": cursor} if cursor else {}
    named = {"threadId": body["threadId"], "runId": body["runId"]}
    where = f"{path(agent)}/attach"
    async with http.stream("POST", where, json=named, headers=headers) as response:
        return await all_frames(response)


def events(received: list[Frame]) -> list[Json]:
    return [frame.json for frame in received]


async def cut_off(http: httpx.AsyncClient, body: Json) -> list[Frame]:
    """Start a run and leave when its first word is there; return what was told."""
    received: list[Frame] = []
    async with running(http, "patient", body) as response:
        async for frame in frames(response):
            received.append(frame)
            if frame.json.get("delta") == "a":
                return received
    raise AssertionError("the run never spoke")


async def test_with_its_cursor_a_client_goes_on_elsewhere(
    http: httpx.AsyncClient, elsewhere: httpx.AsyncClient, fleet: ScriptedFleet
) -> None:
    body = run_input()
    received = await cut_off(http, body)
    (await run_of(fleet)).go_on.set()
    again = await attached(elsewhere, body, received[-1].id)
    kinds = [frame.json["type"] for frame in again]
    assert kinds == [
        *["RUN_STARTED", "TEXT_MESSAGE_START"],
        *["TEXT_MESSAGE_CONTENT", "TEXT_MESSAGE_END", "RUN_FINISHED"],
    ]
    first = Client(body["messages"], body["state"]).take_all(events(received))
    client = Client(first.messages, first.state).take_all(events(again))
    assert client.ended
    assert client.messages[-1]["content"] == "ab"


async def test_the_request_itself_sent_again_with_a_cursor_starts_no_second_run(
    http: httpx.AsyncClient, elsewhere: httpx.AsyncClient, fleet: ScriptedFleet
) -> None:
    body = run_input()
    received = await cut_off(http, body)
    (await run_of(fleet)).go_on.set()
    headers = {"last-event-id": received[-1].id}
    async with elsewhere.stream("POST", path("patient"), json=body, headers=headers) as response:
        again = await all_frames(response)
    assert again[-1].json["type"] == "RUN_FINISHED"
    assert len(fleet.runs) == 1


@pytest.mark.parametrize("cursor", ["", "begun"])
async def test_a_run_that_is_erased_while_it_is_attached_is_unknown_as_any_erased_run(
    http: httpx.AsyncClient, fleet: ScriptedFleet, monkeypatch: pytest.MonkeyPatch, cursor: str
) -> None:
    body = run_input("hello")
    frames_of_run = await run(http, "assistant", body)
    find = RunThread.find

    async def find_before_retention(thread: RunThread, run_id: str) -> ThreadRun:
        found = await find(thread, run_id)
        subject = fleet.bus.subjects.event(found.key)
        await fleet.bus.js.purge_stream(fleet.bus.streams.events(0), subject=subject)
        return found

    monkeypatch.setattr(RunThread, "find", find_before_retention)
    headers = {"last-event-id": frames_of_run[0].id} if cursor else {}
    named = {"threadId": body["threadId"], "runId": body["runId"]}
    erased = await http.post(f"{path('assistant')}/attach", json=named, headers=headers)
    assert (erased.status_code, erased.json()["error"]["code"]) == (404, "run_unknown")
    assert erased.json()["error"]["message"].startswith(f"run {body['runId']} of thread ")


async def test_with_a_cursor_no_run_is_begun_that_is_not_kept_any_more(
    http: httpx.AsyncClient, fleet: ScriptedFleet
) -> None:
    first = run_input("hello")
    received = await run(http, "assistant", first)
    begun, older = len(fleet.runs), {"last-event-id": received[-1].id}
    again = {**first, "runId": str(uuid4())}
    gone = {"last-event-id": "erased11:3.0"}
    refused = await http.post(path("assistant"), json=again, headers=gone)
    assert (refused.status_code, refused.json()["error"]["code"]) == (404, "run_unknown")
    assert len(fleet.runs) == begun
    # With the cursor of an older run of the thread it is a new one.
    new = await http.post(path("assistant"), json=again, headers=older)
    assert "RUN_FINISHED" in new.text
    assert len(fleet.runs) == begun + 1


async def test_without_a_past_a_client_joins_with_the_words_so_far(
    http: httpx.AsyncClient, elsewhere: httpx.AsyncClient, fleet: ScriptedFleet
) -> None:
    body = run_input("hi", state={"n": 1})
    await cut_off(http, body)
    where = f"{path('patient')}/attach?threadId={body['threadId']}&runId={body['runId']}"
    joined: list[Frame] = []
    async with elsewhere.stream("GET", where) as response:
        async for frame in frames(response):
            joined.append(frame)
            if frame.json["type"] == "TEXT_MESSAGE_START":
                (await run_of(fleet)).go_on.set()
    client = Client().take_all(events(joined))
    assert client.seen[:4] == [
        *["RUN_STARTED", "STATE_SNAPSHOT", "MESSAGES_SNAPSHOT", "TEXT_MESSAGE_START"]
    ]
    assert client.ended
    assert client.state == {"n": 1}
    assert [message["content"] for message in client.messages] == ["hi", "ab"]


async def test_a_run_that_is_over_is_streamed_to_its_end(
    http: httpx.AsyncClient, elsewhere: httpx.AsyncClient
) -> None:
    body = run_input()
    received = await run(http, "assistant", body)
    joined = await attached(elsewhere, body, agent="assistant")
    assert events(joined)[-1] == events(received)[-1]
    assert (
        Client().take_all(events(joined)).messages
        == Client(body["messages"]).take_all(events(received)).messages
    )
    for cut in range(len(received) - 1):
        again = await attached(elsewhere, body, received[cut].id, agent="assistant")
        assert [frame.raw for frame in again[-len(received) + cut + 1 :]] == [
            frame.raw for frame in received[cut + 1 :]
        ]


async def test_at_the_end_an_event_source_is_stopped_from_reconnecting(
    http: httpx.AsyncClient,
) -> None:
    body = run_input()
    received = await run(http, "assistant", body)
    where = f"{path('assistant')}/attach?threadId={body['threadId']}&runId={body['runId']}"
    headers = {"last-event-id": received[-1].id}
    assert (await http.get(where, headers=headers)).status_code == 204
    again = await attached(http, body, received[-1].id, agent="assistant")
    assert [frame.json["type"] for frame in again] == ["RUN_STARTED", "RUN_FINISHED"]


async def test_a_cursor_of_another_log_is_reported_as_a_loss(http: httpx.AsyncClient) -> None:
    body = run_input()
    received = await run(http, "assistant", body)
    where = f"{path('assistant')}/attach"
    beyond = f"{received[0].log}:9999.0"
    for cursor in ("otherlog:3.0", beyond, "nonsense"):
        headers = {"last-event-id": cursor}
        async with http.stream("POST", where, json=body, headers=headers) as response:
            assert response.headers["headrace-recovered"] == "false"
            again = await all_frames(response)
        assert again[1].json["type"] == "STATE_SNAPSHOT"


async def test_a_thread_is_joined_at_its_newest_run_with_all_messages(
    http: httpx.AsyncClient, elsewhere: httpx.AsyncClient, fleet: ScriptedFleet
) -> None:
    thread = str(uuid4())
    first = run_input("one", threadId=thread)
    await cut_off(http, first)
    fleet.runs[-1].go_on.set()
    await attached(http, first)
    second = run_input("two", threadId=thread)
    await cut_off(http, second)
    fleet.runs[-1].go_on.set()
    async with elsewhere.stream("GET", f"{path('patient')}/attach?threadId={thread}") as response:
        joined = await all_frames(response)
    assert joined[0].json["runId"] == second["runId"]
    client = Client().take_all(events(joined))
    assert [message["content"] for message in client.messages] == ["one", "ab", "two", "ab"]


async def test_a_second_tab_of_the_official_client_holds_what_the_first_one_does(
    http: httpx.AsyncClient, elsewhere: httpx.AsyncClient, fleet: ScriptedFleet
) -> None:
    body = run_input("hi", state={"n": 1})
    await cut_off(http, body)
    url = f"{str(elsewhere.base_url).rstrip('/')}{path('patient')}/connect"
    (await run_of(fleet)).go_on.set()
    order = {"url": url, "threadId": body["threadId"], "runs": [{}]}
    held = await asyncio.to_thread(javascript.run, "drive.mjs", order)
    [tab] = held["runs"]
    assert (tab["failure"], held["warnings"]) == (None, [])
    assert tab["events"][0]["runId"] == body["runId"]
    assert tab["events"][-1]["type"] == "RUN_FINISHED"
    assert [message["content"] for message in held["messages"]] == ["hi", "ab"]
    assert held["state"] == {"n": 1}
    assert len(fleet.runs) == 1
    nowhere = await http.post(f"{path('patient')}/connect", json=run_input())
    assert (nowhere.status_code, nowhere.json()["error"]["code"]) == (404, "run_unknown")


async def test_a_threads_past_is_kept_compact(http: httpx.AsyncClient) -> None:
    body = run_input("one")
    await run(http, "assistant", body)
    past = (await http.get(f"{path('assistant')}/threads/{body['threadId']}")).json()
    assert (past["threadId"], past["state"]) == (body["threadId"], {})
    [received] = past["runs"]
    assert (received["runId"], received["over"]) == (body["runId"], True)
    client = Client(body["messages"], body["state"]).take_all(received["events"])
    assert client.messages == past["messages"]
    assert client.seen.count("TEXT_MESSAGE_CONTENT") == 1


async def test_what_the_caller_does_not_have_is_not_found(
    http: httpx.AsyncClient, fleet: ScriptedFleet
) -> None:
    foreign = str(uuid4())
    await fleet.foreign_task("assistant", foreign)
    body = run_input()
    await run(http, "assistant", body)
    base = path("assistant")
    for where in (
        f"{base}/attach?threadId={foreign}",
        f"{base}/attach?threadId={body['threadId']}&runId=other",
        f"{base}/threads/{foreign}",
        f"{base}/threads/nowhere",
    ):
        answer = await http.get(where)
        assert answer.status_code == 404
        assert answer.json()["error"]["code"] == "run_unknown"


@pytest.mark.parametrize(
    "body", [b"{", b"[]", b'{"threadId":5}', b'{"threadId":"t","runId":5}', b""]
)
async def test_who_names_no_run_is_refused(http: httpx.AsyncClient, body: bytes) -> None:
    answer = await http.post(f"{path('assistant')}/attach", content=body)
    assert answer.status_code == 400
    assert answer.json()["error"]["code"] == "invalid_input"
