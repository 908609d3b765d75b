"""Runs that wait for their user, go on with the answer, or are stopped."""

from typing import Any

import httpx
import pytest

from headrace.model.events import Json
from tests.support.agui.client_rules import Client
from tests.support.agui.runs import path, run, run_input, run_of, running
from tests.support.event_stream import Frame, frames
from tests.support.scripted_fleet import ScriptedFleet
from tests.support.waiting import eventually


async def interrupted(http: httpx.AsyncClient) -> tuple[Json, str]:
    """Start a run that asks; return its input and the interrupt's id."""
    body = run_input("ask")
    last = (await run(http, "ending", body))[-1].json
    [interrupt] = last["outcome"]["interrupts"]
    return body, interrupt["id"]


def resuming(body: Json, interrupt: str, **more: Any) -> Json:  # noqa: ANN401
    """Return the input that answers the interrupt."""
    entry = {"interruptId": interrupt, "status": "resolved", **more}
    return {**body, "runId": f"{body['runId']}-2", "resume": [entry]}


async def test_an_answer_goes_on_with_the_task_that_requested_input(
    http: httpx.AsyncClient, fleet: ScriptedFleet
) -> None:
    body, interrupt = await interrupted(http)
    received = await run(http, "ending", resuming(body, interrupt, payload="fail"))
    assert received[0].json["runId"] == f"{body['runId']}-2"
    assert (received[-1].json["type"], received[-1].json["code"]) == ("RUN_ERROR", "failed")
    first, second = fleet.runs
    assert first.key == second.key
    assert second.message["parts"] == [
        {
            "text": "fail",
            "metadata": {"agui_interrupt_id": interrupt, "agui_resume_status": "resolved"},
        }
    ]


async def test_an_answer_may_be_any_json(http: httpx.AsyncClient, fleet: ScriptedFleet) -> None:
    body, interrupt = await interrupted(http)
    async with running(http, "ending", resuming(body, interrupt, payload={"n": 1})) as response:
        async for _ in frames(response):
            break

    async def there_are_two() -> bool:
        return len(fleet.runs) == 2

    await eventually(there_are_two, "the fleet works on the answer")
    assert fleet.runs[1].message["parts"][0]["data"] == {"n": 1}


@pytest.mark.parametrize("wrong", ["other", "nothing-waits"])
async def test_a_resume_that_does_not_match_is_refused_before_the_stream(
    http: httpx.AsyncClient, fleet: ScriptedFleet, wrong: str
) -> None:
    body, interrupt = await interrupted(http)
    if wrong == "nothing-waits":
        body["threadId"] += "-other"
    request = resuming(body, interrupt if wrong == "nothing-waits" else wrong)
    answer = await http.post(path("ending"), json=request)
    assert answer.status_code == 409
    assert answer.json()["error"]["code"] == "resume_mismatch"
    assert len(fleet.runs) == 1


async def test_a_thread_goes_on_after_interrupts_that_closed_without_their_client(
    http: httpx.AsyncClient, fleet: ScriptedFleet
) -> None:
    body, interrupt = await interrupted(http)
    assert (await run(http, "ending", resuming(body, interrupt, payload="fail")))[-1].json["code"]
    entry = {"interruptId": interrupt, "status": "cancelled"}
    cancelling = {**body, "resume": [entry]}
    new = {"id": f"{body['runId']}-u", "role": "user", "content": "reject"}
    going_on = {**cancelling, "runId": "on", "messages": [*body["messages"], new]}
    for _ in range(2):
        received = [frame.json for frame in await run(http, "ending", going_on)]
        assert (received[-1]["type"], received[-1]["code"]) == ("RUN_ERROR", "rejected")
    asked, answered, third = fleet.runs
    assert asked.key == answered.key != third.key
    assert third.message["parts"][0]["text"] == "reject"


@pytest.mark.parametrize("wrong", ["nothing new", "an answer", "an open one"])
async def test_a_run_that_cancels_closed_interrupts_must_say_something_else(
    http: httpx.AsyncClient, fleet: ScriptedFleet, wrong: str
) -> None:
    body, interrupt = await interrupted(http)
    if wrong != "an open one":
        await run(http, "ending", resuming(body, interrupt, payload="fail"))
    new = {"id": f"{body['runId']}-u", "role": "user", "content": "reject"}
    said = [] if wrong == "nothing new" else [new]
    status = "resolved" if wrong == "an answer" else "cancelled"
    entries = [{"interruptId": interrupt, "status": status}]
    if wrong == "an open one":
        entries.append({"interruptId": "unknown", "status": status})
    request = {**body, "runId": "on", "messages": [*body["messages"], *said], "resume": entries}
    answer = await http.post(path("ending"), json=request)
    assert (answer.status_code, answer.json()["error"]["code"]) == (409, "resume_mismatch")
    is_closed = wrong != "an open one"
    assert ("cancel them and add a message" in answer.json()["error"]["message"]) is is_closed
    assert len(fleet.runs) == 1 + is_closed


async def test_the_user_interfaces_tools_are_answered_in_the_next_run(
    http: httpx.AsyncClient, fleet: ScriptedFleet
) -> None:
    body = run_input("paint it")
    received = [frame.json for frame in await run(http, "painter", body)]
    client = Client(body["messages"], body["state"]).take_all(received)
    [call] = received[-1]["outcome"]["pendingToolCallIds"]
    assert client.messages[-1]["toolCalls"][0]["id"] == call
    result = {"id": "r", "role": "tool", "toolCallId": call, "content": "painted"}
    again = {**body, "runId": "second", "messages": [*client.messages, result]}
    more = [frame.json for frame in await run(http, "painter", again)]
    client = Client(again["messages"], client.state).take_all(more)
    assert (client.ended, client.messages[-1]["content"]) == (True, "painted")
    first, second = fleet.runs
    assert first.key == second.key


async def test_who_stops_a_run_stops_it_for_all(
    http: httpx.AsyncClient, fleet: ScriptedFleet
) -> None:
    body, received = run_input(), list[Frame]()
    named = {"threadId": body["threadId"], "runId": body["runId"]}
    async with running(http, "patient", body) as response:
        async for frame in frames(response):
            received.append(frame)
            if frame.json.get("delta") == "a":
                answer = await http.post(f"{path('patient')}/stop", json=named)
                assert answer.json() == {**named, "stopped": True}
    assert received[-1].json["outcome"] == {"type": "cancelled"}
    assert Client(body["messages"]).take_all([frame.json for frame in received]).ended
    again = await http.post(f"{path('patient')}/stop", json=named)
    assert again.json() == {**named, "stopped": False}
    assert (await run_of(fleet)).key


async def test_what_is_not_there_is_not_stopped(http: httpx.AsyncClient) -> None:
    answer = await http.post(f"{path('patient')}/stop", json={"threadId": "nowhere"})
    assert answer.status_code == 404
