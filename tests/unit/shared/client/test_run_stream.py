"""AG-UI runs across connections."""

from dataclasses import replace

from headrace.client import Client, RunEvent
from headrace.model.events import Json
from tests.support.fake_gateway import FakeGateway, ScriptedResponse, answering

PATH = "/v1/agents/a/ag-ui"
STARTED: Json = {"type": "RUN_STARTED"}
FINISHED: Json = {"type": "RUN_FINISHED"}
OPENED: Json = {"type": "TEXT_MESSAGE_START", "messageId": "m"}
CLOSED: Json = {"type": "TEXT_MESSAGE_END", "messageId": "m"}
DISCONNECTED: Json = {"type": "RUN_ERROR", "code": "disconnected", "message": "stopping"}


def said(text: str) -> Json:
    return {"type": "TEXT_MESSAGE_CONTENT", "messageId": "m", "delta": text}


def frames(*numbered: tuple[int, Json], recovered: bool = True) -> ScriptedResponse:
    headers = () if recovered else (("Headrace-Recovered", "false"),)
    events = tuple((f"log1:1.{number}", event) for number, event in numbered)
    return ScriptedResponse(frames=events, headers=headers)


async def run(gateway: FakeGateway) -> list[RunEvent]:
    async with Client(gateway.url, backoff=0.0) as client:
        return [event async for event in client.run("a", "hi", thread="t", run="r")]


async def test_a_broken_run_is_resumed_without_what_leads_the_stream_again() -> None:
    begun = frames((0, STARTED), (1, OPENED), (2, said("one ")))
    rest = frames((2, STARTED), (2, OPENED), (3, said("two")), (4, CLOSED), (5, FINISHED))
    with answering(**{PATH: [begun, rest]}) as gateway:
        events = await run(gateway)
    kinds = [event.json for event in events]
    assert kinds == [STARTED, OPENED, said("one "), said("two"), CLOSED, FINISHED]
    assert [question.cursor for question in gateway.asked] == [None, "log1:1.2"]
    assert gateway.asked[0].body == gateway.asked[1].body
    assert "".join(event.text for event in events) == "one two"


async def test_what_a_stopping_gateway_closes_stays_open() -> None:
    begun = frames((0, STARTED), (1, OPENED), (2, said("one ")), (3, CLOSED), (4, DISCONNECTED))
    rest = frames((2, STARTED), (2, OPENED), (3, said("two")), (4, CLOSED), (5, FINISHED))
    with answering(**{PATH: [begun, rest]}) as gateway:
        events = await run(gateway)
    kinds = [event.json for event in events]
    assert kinds == [STARTED, OPENED, said("one "), said("two"), CLOSED, FINISHED]


async def test_a_run_has_the_id_of_its_task_also_after_a_gateway_that_names_none() -> None:
    begun = frames((0, STARTED), (1, OPENED))
    named = replace(begun, headers=(("Headrace-Task", "0-ab"),))
    rest = frames((1, STARTED), (1, OPENED), (2, CLOSED), (3, FINISHED))
    with answering(**{PATH: [named, rest]}) as gateway:
        async with Client(gateway.url, backoff=0.0) as client:
            run = client.run("a", "hi", thread="t", run="r")
            tasks = [run.task, *[run.task async for _ in run]]
    assert tasks == ["", "0-ab", "0-ab", "0-ab", "0-ab"]


async def test_a_run_that_ended_meanwhile_is_over() -> None:
    begun = frames((0, STARTED), (1, {"type": "CUSTOM"}))
    end = frames((1, STARTED), (1, FINISHED))
    with answering(**{PATH: [begun, end]}) as gateway:
        events = await run(gateway)
    assert [event.type for event in events] == ["RUN_STARTED", "CUSTOM"]


async def test_a_loss_is_reported_and_replaced() -> None:
    snapshot: Json = {"type": "MESSAGES_SNAPSHOT", "messages": []}
    lost = frames((7, STARTED), (7, snapshot), (8, FINISHED), recovered=False)
    with answering(**{f"{PATH}/attach": lost}) as gateway:
        async with Client(gateway.url) as client:
            events = [event async for event in client.attach("a", "t", "r", "log0:1.7")]
    assert [event.type for event in events] == ["RUN_STARTED", "MESSAGES_SNAPSHOT", "RUN_FINISHED"]
    assert not any(event.recovered for event in events)
    assert gateway.asked[0].body == {"threadId": "t", "runId": "r"}


async def test_an_interrupt_is_answered_with_the_next_run() -> None:
    requests = [{"id": "q", "message": "Sure?"}]
    outcome = {"type": "interrupt", "interrupts": requests}
    ends = [frames((0, STARTED), (1, {**FINISHED, "outcome": outcome})), frames((0, FINISHED))]
    with answering(**{PATH: ends}) as gateway:
        async with Client(gateway.url) as client:
            first = client.run("a", "hi")
            before = len([event async for event in first])
            resumed = client.run("a", thread=first.thread, answers={"q": {"ok": True}})
            after = len([event async for event in resumed])
    assert (before, after, first.interrupts) == (2, 1, requests)
    body = gateway.asked[1].body or {}
    answer = {"interruptId": "q", "status": "resolved", "payload": {"ok": True}}
    assert (body["threadId"], body["resume"]) == (first.thread, [answer])


async def test_a_run_is_requested_with_all_that_the_agent_is_given() -> None:
    tools = [{"name": "paint", "description": "Paints", "parameters": {"type": "object"}}]
    context = [{"description": "the page", "value": "news"}]
    state, props = {"n": 1}, {"mode": "quick"}
    with answering(**{PATH: [frames((0, FINISHED)), frames((0, FINISHED))]}) as gateway:
        async with Client(gateway.url) as client:
            given = client.run(
                "a", "hi", state=state, tools=tools, context=context, forwarded_props=props
            )
            assert [event.type async for event in given] == ["RUN_FINISHED"]
            bare = client.run("a", thread="t")
            assert [event.type async for event in bare] == ["RUN_FINISHED"]
    full, empty = (question.body or {} for question in gateway.asked)
    [message] = full["messages"]
    assert (message["role"], message["content"]) == ("user", "hi")
    request = ("state", "tools", "context", "forwardedProps")
    assert [full[name] for name in request] == [state, tools, context, props]
    assert [empty[name] for name in (*request, "messages")] == [{}, [], [], {}, []]
    assert empty["threadId"] == "t"
