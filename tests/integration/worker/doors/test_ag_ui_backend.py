"""An AG-UI agent behind HTTP, as an agent of the fleet."""

import asyncio

import pytest

from headrace import parts
from headrace.events import Json
from headrace.interrupts import INTERRUPTS, PENDING_TOOL_CALLS
from headrace_worker import Agent
from headrace_worker.adapters import ag_ui_agent
from tests.integration.worker.conftest import Working
from tests.integration.worker.doors.examples import example
from tests.integration.worker.doors.reading import (
    answer,
    folded,
    results,
    said,
    state,
    thoughts,
    words,
)
from tests.support.chat_stub import AgUiStub, Reply, ag_ui_stub
from tests.support.desk import Desk


def backend(stub: AgUiStub, **more: object) -> Agent:
    given = {"name": "b", "memory": "task", "backoff": 0.0, **more}
    return ag_ui_agent(stub.url, **given)  # type: ignore[arg-type]  # its keywords


def run(*events: Json, outcome: Json | None = None, **more: object) -> Reply:
    """Return a run's stream."""
    begin = {"type": "RUN_STARTED", "threadId": "t", "runId": "r"}
    end: Json = {"type": "RUN_FINISHED", "threadId": "t", "runId": "r", **more}
    return Reply([begin, *events, {**end, **({"outcome": outcome} if outcome else {})}])


def text(message: str, *deltas: str) -> list[Json]:
    named = {"messageId": message}
    return [
        {"type": "TEXT_MESSAGE_START", **named, "role": "assistant"},
        *({"type": "TEXT_MESSAGE_CONTENT", **named, "delta": delta} for delta in deltas),
        {"type": "TEXT_MESSAGE_END", **named},
    ]


def tool(call: str, name: str, *deltas: str) -> list[Json]:
    named = {"toolCallId": call}
    return [
        {"type": "TOOL_CALL_START", **named, "toolCallName": name},
        *({"type": "TOOL_CALL_ARGS", **named, "delta": delta} for delta in deltas),
        {"type": "TOOL_CALL_END", **named},
    ]


def kinds(task: Json, kind: str) -> list[Json]:
    return [part for part in said(task) if parts.event_type(part) == kind]


async def test_every_kind_of_event_stands_in_the_log(desk: Desk, working: Working) -> None:
    thinks = {"messageId": "m0"}
    reply = run(
        {"type": "STEP_STARTED", "stepName": "one"},
        {"type": "REASONING_START", **thinks},
        {"type": "REASONING_MESSAGE_START", **thinks, "role": "reasoning"},
        {"type": "REASONING_MESSAGE_CONTENT", **thinks, "delta": "Hm."},
        {"type": "REASONING_MESSAGE_END", **thinks},
        {"type": "REASONING_END", **thinks},
        *text("m1", "Hello ", "world. "),
        *tool("c1", "add", '{"a":', "1}"),
        {"type": "TOOL_CALL_RESULT", "messageId": "m2", "toolCallId": "c1", "content": "2"},
        {"type": "STEP_FINISHED", "stepName": "one"},
        {"type": "STATE_SNAPSHOT", "snapshot": {"n": 1}},
        {"type": "STATE_DELTA", "delta": [{"op": "replace", "path": "/n", "value": 2}]},
        {"type": "ACTIVITY_SNAPSHOT", "messageId": "a", "activityType": "plan", "content": {}},
        {
            "type": "ACTIVITY_DELTA",
            "messageId": "a",
            "activityType": "plan",
            "patch": [{"op": "add", "path": "/x", "value": 1}],
        },
        {"type": "CUSTOM", "name": "bell", "value": 3},
        {"type": "RAW", "event": {"x": 1}, "source": "s"},
        {"type": "SOMETHING_NEW", "x": 1},
        {"type": "TEXT_MESSAGE_CHUNK", "messageId": "m3", "role": "assistant", "delta": "Bye."},
        usage=[{"model": "small", "inputTokens": 3, "outputTokens": 4}],
        result={"ok": True},
    )
    async with ag_ui_stub(reply) as stub, working(backend(stub)):
        done = await folded(await desk.start("b", "x"))
    assert state(done) == "COMPLETED"
    assert (answer(done), thoughts(done)) == ("Hello world. Bye.", "Hm.")
    assert results(done) == [("2", "")]
    assert [len(kinds(done, kind)) for kind in (parts.STEP_STARTED, parts.STEP_FINISHED)] == [1, 1]
    assert kinds(done, parts.STATE_SNAPSHOT)[0]["data"] == {"n": 1}
    assert kinds(done, parts.STATE_DELTA)[0]["data"][0]["value"] == 2
    assert kinds(done, parts.ACTIVITY_SNAPSHOT)[0]["metadata"]["agui_activity_type"] == "plan"
    assert len(kinds(done, parts.ACTIVITY_DELTA)) == 1
    assert kinds(done, parts.CUSTOM)[0]["data"] == 3
    assert [part["data"] for part in kinds(done, parts.RAW)] == [
        {"x": 1},
        {"type": "SOMETHING_NEW", "x": 1},
    ]
    assert done["metadata"]["tokens_used"] == 7
    assert done["artifacts"][-1]["parts"][0]["data"] == {"ok": True}


async def test_the_run_is_asked_for_with_what_the_client_sent(desk: Desk, working: Working) -> None:
    agui = {
        "state": {"n": 1},
        "tools": [{"name": "paint", "description": "Paint.", "parameters": {}}],
        "context": [{"description": "d", "value": "v"}],
        "forwardedProps": {"p": 1},
        "messages": [
            {"id": "1", "role": "user", "content": "one"},
            {"id": "2", "role": "assistant", "content": "two"},
            {"id": "3", "role": "user"},
        ],
    }
    async with ag_ui_stub(run(*text("m", "x"))) as stub, working(backend(stub)):
        task = await desk.start("b", "three", metadata={"headrace.agui": agui})
        await task.ended()
    [asked] = stub.requests
    assert asked["threadId"] == task.context
    assert (asked["state"], asked["forwardedProps"]) == ({"n": 1}, {"p": 1})
    assert asked["context"] == [{"description": "d", "value": "v"}]
    assert asked["tools"][0]["name"] == "paint"
    assert [(m["role"], m["content"]) for m in asked["messages"]] == [
        ("user", "one"),
        ("assistant", "two"),
        ("user", "three"),
    ]


async def test_an_interrupt_is_asked_and_the_answer_resumes_it(
    desk: Desk, working: Working
) -> None:
    asks = {"id": "i1", "reason": "confirm", "message": "Sure?", "responseSchema": {"type": "null"}}
    first = run(outcome={"type": "interrupt", "interrupts": [asks]})
    async with ag_ui_stub(first, run(*text("m", "Done."))) as stub, working(backend(stub)):
        task = await desk.start("b", "x")
        last = (await task.events())[-1]["statusUpdate"]
        assert last["status"]["message"]["parts"][0]["text"] == "Sure?"
        assert last["metadata"][INTERRUPTS] == [asks]
        leg = await task.follow_up("yes")
        await task.reaches(leg + 3)
        done = await folded(task)
    assert (state(done), answer(done)) == ("COMPLETED", "Done.")
    resume = stub.requests[1]["resume"]
    assert resume == [{"interruptId": "i1", "status": "resolved", "payload": "yes"}]
    assert [m["content"] for m in stub.requests[1]["messages"]] == ["x", "Sure?"]


@pytest.mark.parametrize("names_them", [True, False])
async def test_calls_of_the_user_interfaces_tools_are_left_to_it(
    desk: Desk, working: Working, *, names_them: bool
) -> None:
    outcome = {"type": "success", "pendingToolCallIds": ["c1"]} if names_them else None
    first = run(*tool("c1", "paint", "{}"), outcome=outcome)
    agui: Json = {"tools": [{"name": "paint", "description": "", "parameters": {}}]}
    async with ag_ui_stub(first, run(*text("m", "Nice."))) as stub, working(backend(stub)):
        task = await desk.start("b", "x", metadata={"headrace.agui": agui})
        last = (await task.events())[-1]["statusUpdate"]
        assert last["metadata"][PENDING_TOOL_CALLS] == ["c1"]
        result = parts.tool_result_part("c1", "painted")
        leg = await task.follow_up_with({"messageId": "r", "role": "ROLE_USER", "parts": [result]})
        await task.reaches(leg + 3)
        done = await folded(task)
    assert answer(done) == "Nice."
    told = stub.requests[1]["messages"]
    assert [m["role"] for m in told] == ["user", "assistant", "tool"]
    assert told[1]["toolCalls"][0]["function"] == {"name": "paint", "arguments": "{}"}
    assert (told[2]["toolCallId"], told[2]["content"]) == ("c1", "painted")


@pytest.mark.parametrize(("code", "ends"), [("boom", "FAILED"), ("rejected", "REJECTED")])
async def test_its_error_ends_the_task(desk: Desk, working: Working, code: str, ends: str) -> None:
    reply = Reply([{"type": "RUN_ERROR", "message": "no paint", "code": code}])
    async with ag_ui_stub(reply) as stub, working(backend(stub)):
        done = await folded(await desk.start("b", "x"))
    assert (state(done), words(done)) == (ends, "no paint")


@pytest.mark.parametrize(
    "trouble",
    [
        Reply(status=503),
        Reply([{"type": "RUN_STARTED"}, *text("m", "lost")]),
        Reply([{"type": "RUN_STARTED"}], breaks=True),
        Reply([{"type": "TEXT_MESSAGE_END"}]),
    ],
    ids=["busy", "unfinished", "cut off", "malformed"],
)
async def test_trouble_that_may_pass_is_tried_again(
    desk: Desk, working: Working, trouble: Reply
) -> None:
    async with ag_ui_stub(trouble, run(*text("m", "found"))) as stub, working(backend(stub)):
        done = await folded(await desk.start("b", "x"))
    assert (state(done), answer(done), len(stub.requests)) == ("COMPLETED", "found", 2)


async def test_a_refused_run_rejects(desk: Desk, working: Working) -> None:
    async with ag_ui_stub(Reply(status=422)) as stub, working(backend(stub)):
        done = await folded(await desk.start("b", "x"))
    assert (state(done), len(stub.requests)) == ("REJECTED", 1)


async def test_a_cancel_closes_the_stream(desk: Desk, working: Working) -> None:
    reply = Reply([{"type": "RUN_STARTED"}, *text("m", "and ")], hangs=True)
    async with ag_ui_stub(reply) as stub, working(backend(stub)):
        task = await desk.start("b", "x")
        await task.reaches(3)
        await task.held()
        await task.ask("cancel")
        done = await folded(task)
        async with asyncio.timeout(60):
            await stub.left.wait()
    assert state(done) == "CANCELED"


async def test_the_example_speaks_to_its_agent(desk: Desk, working: Working) -> None:
    async with (
        ag_ui_stub(run(*text("m", "Painted."))) as stub,
        working(example("ag_ui_backend", PAINTER_URL=stub.url).painter),
    ):
        done = await folded(await desk.start("painter", "x"))
    assert answer(done) == "Painted."
