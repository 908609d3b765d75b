"""Agents that use their ids again in each turn, with the official client and CopilotKit's."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from uuid import uuid4

import httpx
import pytest

from headrace.model.events import Json
from headrace.model.run_ids import own_id
from tests.support import javascript
from tests.support.agui.runs import path, run, run_input, running
from tests.support.event_stream import all_frames, frames

type Drive = Callable[..., Awaitable[Json]]

TRANSPORTS = ["sse", "binary", "ws"]


@pytest.fixture(scope="module")
def drive(gateway: str) -> Iterator[Drive]:
    """Return what runs the official client and returns all it holds, without complaints."""
    with javascript.Script("drive.mjs") as script:

        async def driven(agent: str, *runs: Json, **more: object) -> Json:
            order = {"url": f"{gateway}{path(agent)}", "runs": runs, **more}
            held: Json = await asyncio.to_thread(script.run, order)
            assert held["warnings"] == []
            assert [one["failure"] for one in held["runs"]] == [None] * len(runs)
            return held

        yield driven


@pytest.fixture(scope="module")
def copilot(gateway: str) -> Iterator[Drive]:
    """Return what runs CopilotKit's client and returns all it holds, without complaints."""
    with javascript.Script("copilotkit.mjs") as script:

        async def driven(agent: str, *steps: Json, **more: object) -> Json:
            order = {"runtimeUrl": f"{gateway}/copilotkit", "agentId": agent, "steps": steps}
            held: Json = await asyncio.to_thread(script.run, {**order, **more})
            assert (held["errors"], held["warnings"]) == ([], [])
            return held

        yield driven


def contents(messages: list[Json]) -> list[tuple[str, str]]:
    """Return role and content of the messages with content."""
    return [(m["role"], m["content"]) for m in messages if m.get("content")]


def calls(messages: list[Json]) -> list[str]:
    """Return the ids of all tool calls."""
    return [call["id"] for message in messages for call in message.get("toolCalls") or ()]


TWO_TURNS = [
    ("user", "one"),
    ("tool", "1"),
    ("tool", "2"),
    ("assistant", "To one"),
    ("user", "two"),
    ("tool", "1"),
    ("tool", "2"),
    ("assistant", "To two"),
]


def check_two_turns(messages: list[Json]) -> None:
    """Check what a client holds after two turns of `numbering`."""
    assert contents(messages) == TWO_TURNS
    made = calls(messages)
    assert len(set(made)) == len(made) == 4
    assert {own_id(call) for call in made} == {"call_1"}
    assert [m["toolCallId"] for m in messages if m["role"] == "tool"] == made


@pytest.mark.parametrize("transport", TRANSPORTS)
async def test_each_turn_has_its_calls_results_and_texts(
    drive: Drive, http: httpx.AsyncClient, transport: str
) -> None:
    held = await drive("numbering", {"text": "one"}, {"text": "two"}, transport=transport)
    check_two_turns(held["messages"])
    thread = await http.get(f"{path('numbering')}/threads/{held['threadId']}")
    check_two_turns(thread.json()["messages"])


async def test_a_client_that_sends_only_its_new_message_gets_each_call(
    http: httpx.AsyncClient,
) -> None:
    thread, starts = str(uuid4()), list[str]()
    for text in ("one", "two"):
        received = await run(http, "numbering", run_input(text, threadId=thread))
        events = [frame.json for frame in received]
        starts += [e["toolCallId"] for e in events if e["type"] == "TOOL_CALL_START"]
        results = [e["toolCallId"] for e in events if e["type"] == "TOOL_CALL_RESULT"]
        assert results == starts[-2:]
    assert len(set(starts)) == 4


async def test_copilotkit_has_each_turn_also_when_it_comes_back(copilot: Drive) -> None:
    steps: list[Json] = [{"text": "one"}, {"text": "two"}]
    check_two_turns((await copilot("numbering", *steps))["messages"])
    check_two_turns((await copilot("numbering", *steps, {"connect": True}))["messages"])


@pytest.mark.parametrize("transport", TRANSPORTS)
async def test_a_tool_of_the_page_is_called_and_answered_in_each_turn(
    drive: Drive, transport: str
) -> None:
    turns: list[Json] = [{"text": "1"}, {"answer": "red"}, {"text": "2"}, {"answer": "blue"}]
    held = await drive("page", *turns, transport=transport)
    pending = [run["events"][-1]["outcome"]["pendingToolCallIds"] for run in held["runs"][::2]]
    assert [[call] for call in calls(held["messages"])] == pending
    assert len(set(calls(held["messages"]))) == 2
    told = [c for role, c in contents(held["messages"]) if role == "assistant"]
    assert told == ["call_1: red", "call_1: blue"]


async def test_copilotkit_calls_the_pages_tool_in_each_turn(copilot: Drive) -> None:
    held = await copilot("page", {"text": "1"}, {"text": "2"}, tools={"paint": "painted"})
    assert held["called"] == [{"name": "paint", "args": {"colour": "red"}}] * 2
    told = [c for role, c in contents(held["messages"]) if role == "assistant"]
    assert told == ["call_1: painted"] * 2


async def test_a_result_of_an_earlier_turns_call_answers_no_later_one(
    http: httpx.AsyncClient,
) -> None:
    body = run_input("1")
    first = (await run(http, "page", body))[-1].json["outcome"]["pendingToolCallIds"]
    answered: list[Json] = [
        *body["messages"],
        {"id": "t1", "role": "tool", "toolCallId": first[0], "content": "red"},
    ]
    await run(http, "page", {**body, "runId": str(uuid4()), "messages": answered})
    asked: list[Json] = [*answered, {"id": "u2", "role": "user", "content": "2"}]
    second = await run(http, "page", {**body, "runId": str(uuid4()), "messages": asked})
    late: list[Json] = [*asked, {**answered[-1], "id": "t2"}]
    async with running(http, "page", {**body, "runId": str(uuid4()), "messages": late}) as response:
        # It begins a task of its own, whose agent gets a result that it has not waited for.
        task = response.headers["headrace-task"]
        async for _ in frames(response):
            pass
    pending = second[-1].json["outcome"]["pendingToolCallIds"]
    assert pending != first
    thread = (await http.get(f"{path('page')}/threads/{body['threadId']}")).json()
    tasks = [one["taskId"] for one in thread["runs"]]
    assert tasks[0] == tasks[1]
    assert len({tasks[1], tasks[2], task}) == 3


async def test_results_and_an_approval_answer_one_question_each_for_its_call(
    http: httpx.AsyncClient,
) -> None:
    body = run_input("1")
    outcome = (await run(http, "planning", body))[-1].json["outcome"]
    [interrupt], pending = outcome["interrupts"], outcome["pendingToolCallIds"]
    assert (outcome["type"], own_id(interrupt["id"])) == ("interrupt", "call_2")
    assert [own_id(call) for call in pending] == ["call_1", "call_1"]
    # The calls' results come in another order than the calls.
    results = [
        {"id": f"t-{colour}", "role": "tool", "toolCallId": call, "content": colour}
        for call, colour in reversed([*zip(pending, ("red", "blue"), strict=True)])
    ]
    messages = [*body["messages"], *results]
    resume = [{"interruptId": interrupt["id"], "status": "resolved", "payload": "yes"}]
    answer = {**body, "messages": messages, "resume": resume}
    told = await run(http, "planning", {**answer, "runId": str(uuid4())})
    assert "".join(frame.json.get("delta", "") for frame in told) == (
        "call_1: red, call_1: blue, call_2: yes"
    )


async def test_results_alone_do_not_answer_a_question_that_is_open_with_them(
    http: httpx.AsyncClient,
) -> None:
    body = run_input("1")
    outcome = (await run(http, "planning", body))[-1].json["outcome"]
    results = [
        {"id": f"t-{call}", "role": "tool", "toolCallId": call, "content": "done"}
        for call in outcome["pendingToolCallIds"]
    ]
    messages = [*body["messages"], *results]
    refused = await http.post(
        path("planning"), json={**body, "runId": str(uuid4()), "messages": messages}
    )
    assert (refused.status_code, refused.json()["error"]["code"]) == (409, "resume_mismatch")
    resume = [{"interruptId": outcome["interrupts"][0]["id"], "status": "cancelled"}]
    again = {**body, "runId": str(uuid4()), "messages": messages, "resume": resume}
    assert (await run(http, "planning", again))[-1].json["type"] == "RUN_FINISHED"


@pytest.mark.parametrize("transport", TRANSPORTS)
async def test_an_approval_is_answered_by_the_calls_id_and_its_result_belongs_to_the_call(
    drive: Drive, transport: str
) -> None:
    approve = {"resume": {"status": "resolved", "payload": "yes"}}
    turns: list[Json] = [{"text": "1"}, approve, {"text": "2"}, approve]
    held = await drive("approving", *turns, transport=transport)
    first, second = calls(held["messages"])
    results = [m["toolCallId"] for m in held["messages"] if m["role"] == "tool"]
    assert results == [first, second]
    asked = [run["events"][-1]["outcome"]["interrupts"] for run in held["runs"][::2]]
    assert [one["id"] for [one] in asked] == [first, second]
    told = [c for role, c in contents(held["messages"]) if role == "assistant"]
    assert told == ["call_1: yes"] * 2


async def test_an_approval_of_an_earlier_turn_approves_no_later_one(
    http: httpx.AsyncClient,
) -> None:
    body = run_input("1")
    interrupts: list[str] = []
    for _ in range(2):
        last = (await run(http, "approving", {**body, "runId": str(uuid4())}))[-1].json
        interrupts += [one["id"] for one in last["outcome"]["interrupts"]]
    for interrupt in interrupts[::-1]:
        entry = {"interruptId": interrupt, "status": "resolved", "payload": "yes"}
        request = {**body, "runId": str(uuid4()), "resume": [entry]}
        received = [frame.json for frame in await run(http, "approving", request)]
        [result] = [e for e in received if e["type"] == "TOOL_CALL_RESULT"]
        assert result["toolCallId"] == interrupt
        again = await http.post(path("approving"), json={**request, "runId": str(uuid4())})
        assert again.status_code == 409


@pytest.mark.parametrize("transport", ["sse", "binary"])
async def test_a_stream_that_comes_back_has_the_same_ids(
    drive: Drive, http: httpx.AsyncClient, gateway: str, transport: str
) -> None:
    held = await drive("approving", {"text": "1"}, {"resume": {"status": "resolved"}})
    thread = (await http.get(f"{path('approving')}/threads/{held['threadId']}")).json()
    url, name = f"{gateway}{path('approving')}/connect", held["threadId"]
    again = await drive("approving", {}, url=url, transport=transport, threadId=name)
    assert calls(again["messages"]) == calls(held["messages"]) == calls(thread["messages"])
    assert contents(again["messages"]) == contents(held["messages"])


async def test_every_gateway_and_every_cursor_show_the_same_ids(http: httpx.AsyncClient) -> None:
    body = run_input("1")
    last = (await run(http, "approving", body))[-1].json
    entry = {"interruptId": last["outcome"]["interrupts"][0]["id"], "status": "resolved"}
    received = await run(http, "approving", {**body, "runId": "second", "resume": [entry]})
    assert len(received) > 4
    for frame in received[:-1]:
        query = {"threadId": body["threadId"], "runId": "second", "after": frame.id}
        async with http.stream("GET", f"{path('approving')}/attach", params=query) as response:
            rest = await all_frames(response)
        places = [one.id for one in received]
        assert [one for one in rest if one.id != frame.id] == received[places.index(frame.id) + 1 :]
