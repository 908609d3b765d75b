"""Runs over HTTP, on a real log."""

import base64

import httpx
import pytest

from headrace.jetstream.connection import Bus
from headrace.jetstream.objects import FileOwner, FileStore
from headrace.log import last_entry, replay
from headrace.model.entry import Entry
from headrace.model.events import Json
from headrace.model.task import COMPLETED, TaskKey
from headrace_gateway.protocols.agui.fold import Fold
from headrace_gateway.protocols.agui.frame import sse
from tests.support.agui.client_rules import Client
from tests.support.agui.runs import CURSOR, path, run, run_input, run_of, running
from tests.support.event_stream import Frame, frames
from tests.support.scripted_fleet import ScriptedFleet
from tests.support.waiting import eventually


async def stored(bus: Bus, key: TaskKey) -> list[Entry]:
    last = await last_entry(bus, key)
    assert last is not None
    return [entry async for batch in replay(bus, key, 0, last.sequence) for entry in batch]


def client_of(body: Json, received: list[Frame]) -> Client:
    return Client(body["messages"], body["state"]).take_all([frame.json for frame in received])


async def test_a_run_is_streamed_as_the_client_wants_it(http: httpx.AsyncClient) -> None:
    body = run_input("two words")
    async with running(http, "assistant", body) as response:
        received = [frame async for frame in frames(response)]
    assert response.headers["cache-control"] == "no-store"
    assert response.headers["x-accel-buffering"] == "no"
    client = client_of(body, received)
    assert client.ended
    assert [message["role"] for message in client.messages] == [
        *["user", "reasoning", "assistant", "tool", "assistant", "activity"]
    ]
    assert client.messages[4]["content"] == "Two words."
    first, last = received[0].json, received[-1].json
    assert (first["threadId"], first["runId"]) == (body["threadId"], body["runId"])
    assert first["protocolVersion"] == "1.0"
    assert (last["type"], last["runId"]) == ("RUN_FINISHED", body["runId"])


async def test_each_stream_of_a_run_names_its_task_in_a_header(
    http: httpx.AsyncClient, fleet: ScriptedFleet
) -> None:
    named, bodies = list[str](), [run_input(), run_input()]
    for body in bodies:
        attach = {key: body[key] for key in ("threadId", "runId")}
        again = [(path("assistant"), body), (f"{path('assistant')}/attach", attach)]
        for place, request in [(path("assistant"), body), *again]:
            answer = await http.post(place, json=request)
            assert '"RUN_FINISHED"' in answer.text
            named.append(answer.headers["headrace-task"])
    first, second = [run.key.task for run in fleet.runs]
    assert first != second
    assert named == [first] * 3 + [second] * 3


async def test_every_frame_has_a_cursor_of_its_own(http: httpx.AsyncClient) -> None:
    received = await run(http, "assistant", run_input())
    places = []
    for frame in received:
        found = CURSOR.fullmatch(frame.id)
        assert found is not None, frame.id
        places.append((int(found[2]), int(found[3])))
    assert places == sorted(set(places))
    assert places[0] == (1, 0)
    assert len({frame.id.partition(":")[0] for frame in received}) == 1


async def test_the_stored_log_gives_the_streams_very_bytes(
    http: httpx.AsyncClient, bus: Bus, fleet: ScriptedFleet
) -> None:
    received = await run(http, "assistant", run_input())
    work = await run_of(fleet)
    fold = Fold(1)
    again = [frame for entry in await stored(bus, work.key) for frame in fold.read(entry)]
    assert sse(work.log, again) == b"".join(frame.raw + b"\n\n" for frame in received)


async def test_what_the_client_sent_is_in_generation_1(
    http: httpx.AsyncClient, bus: Bus, fleet: ScriptedFleet
) -> None:
    tools = [{"name": "paint", "description": "paints"}]
    body = run_input("hello", state={"n": 1}, tools=tools)
    await run(http, "assistant", body)
    task = (await stored(bus, (await run_of(fleet)).key))[0].events[0]["task"]
    assert task["contextId"] == body["threadId"]
    assert task["history"][0]["messageId"] == body["messages"][0]["id"]
    assert task["history"][0]["parts"] == [{"text": "hello"}]
    kept = task["metadata"]["headrace.agui"]
    assert (kept["runId"], kept["state"], kept["tools"]) == (body["runId"], {"n": 1}, tools)


async def test_the_default_agent_has_a_short_path(http: httpx.AsyncClient) -> None:
    answer = await http.post("/api/agent", json=run_input())
    assert answer.status_code == 200
    assert '"RUN_FINISHED"' in answer.text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("reject", {"type": "RUN_ERROR", "code": "rejected", "message": "because"}),
        ("fail", {"type": "RUN_ERROR", "code": "failed", "message": "because"}),
    ],
)
async def test_rejection_and_failure_are_run_errors(
    http: httpx.AsyncClient, text: str, expected: Json
) -> None:
    last = (await run(http, "ending", run_input(text)))[-1].json
    assert {key: value for key, value in last.items() if key != "timestamp"} == expected


async def test_a_question_is_an_interrupt_and_ends_the_stream(http: httpx.AsyncClient) -> None:
    last = (await run(http, "ending", run_input("ask")))[-1].json
    [interrupt] = last["outcome"]["interrupts"]
    assert (interrupt["reason"], interrupt["message"]) == ("input_required", "because")


async def test_runs_of_one_thread_share_its_context(
    http: httpx.AsyncClient, fleet: ScriptedFleet
) -> None:
    body = run_input()
    for number in range(2):
        await run(http, "assistant", {**body, "runId": f"{body['runId']}-{number}"})
    first, second = fleet.runs
    assert first.context == second.context == body["threadId"]
    assert first.key != second.key


async def test_a_silent_run_is_kept_alive_with_comments(
    http: httpx.AsyncClient, fleet: ScriptedFleet
) -> None:
    async with running(http, "patient", run_input()) as response:
        seen = b""
        async for chunk in response.aiter_raw():
            seen += chunk
            if b": keep-alive\n\n" in seen:
                (await run_of(fleet)).go_on.set()
    assert b'"RUN_FINISHED"' in seen


async def test_a_client_that_leaves_does_not_end_the_run(
    http: httpx.AsyncClient, bus: Bus, fleet: ScriptedFleet
) -> None:
    async with running(http, "patient", run_input()) as response:
        async for _ in frames(response):
            break
    work = await run_of(fleet)
    work.go_on.set()

    async def is_completed() -> bool:
        return (await stored(bus, work.key))[-1].stamp.state == COMPLETED

    await eventually(is_completed, "the task is completed")


async def test_a_new_attempt_takes_back_what_was_emitted(
    http: httpx.AsyncClient, fleet: ScriptedFleet
) -> None:
    body, received = run_input(), list[Frame]()
    async with running(http, "retried", body) as response:
        async for frame in frames(response):
            received.append(frame)
            if frame.json.get("delta") == "lost":
                (await run_of(fleet)).go_on.set()
    client = client_of(body, received)
    assert [message["content"] for message in client.messages] == ["hello", "found"]
    assert "CUSTOM" in client.seen


async def test_a_log_that_is_lost_ends_the_run_with_an_error(
    http: httpx.AsyncClient, bus: Bus, fleet: ScriptedFleet
) -> None:
    body, received = run_input(), list[Frame]()
    async with running(http, "patient", body) as response:
        async for frame in frames(response):
            received.append(frame)
            if frame.json.get("delta") == "a":
                work = await run_of(fleet)
                subject = bus.subjects.event(work.key)
                await bus.js.purge_stream(bus.streams.of_shard(work.key.shard), subject=subject)
    assert client_of(body, received).ended
    assert received[-2].json["type"] == "TEXT_MESSAGE_END"
    assert (received[-1].json["type"], received[-1].json["code"]) == ("RUN_ERROR", "log_lost")


async def test_large_images_of_earlier_turns_are_stored_as_the_newest_ones_are(
    http: httpx.AsyncClient, bus: Bus, fleet: ScriptedFleet
) -> None:
    large, small = b"\x89PNG" + bytes(1_000_000), b"\x89PNG"
    first = {"id": "1", "role": "user", "content": [image(large), image(small)]}
    second = {"id": "2", "role": "user", "content": [image(large)]}
    body = run_input(messages=[first, second])
    client = client_of(body, await run(http, "assistant", body))
    assert client.ended
    begun = (await stored(bus, (await run_of(fleet)).key))[0].events[0]["task"]
    [linked, inline] = begun["metadata"]["headrace.agui"]["messages"][0]["content"]
    assert linked["source"]["type"] == "url"
    assert inline == image(small)
    owner = FileOwner("anonymous", body["threadId"])
    link = linked["source"]["value"]
    assert await FileStore(bus).read(link, "default", owner) == large


def image(content: bytes) -> Json:
    value = base64.b64encode(content).decode()
    return {
        "type": "image",
        "source": {"type": "data", "value": value, "mimeType": "image/png"},
    }


async def test_more_than_the_gateway_keeps_is_streamed_whole(http: httpx.AsyncClient) -> None:
    body = run_input()
    client = client_of(body, await run(http, "large", body))
    assert client.ended
    assert len(client.messages) == 41
