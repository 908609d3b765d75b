"""An AG-UI agent behind HTTP, as an agent of the fleet."""

import asyncio

import pytest

from headrace import Agent, Retry
from headrace.adapters import ag_ui_agent
from headrace.adapters.ag_ui.events import AguiEvents
from headrace.adapters.conversation.of_log import turns_of_log
from headrace.model import events, parts
from headrace.model.events import INTERRUPTS, PENDING_TOOL_CALLS, Json
from headrace.model.task import SUBMITTED
from headrace.sdk.errors import Retryable
from tests.integration.worker.adapters.behaviour import answered
from tests.integration.worker.conftest import Working
from tests.support.chat_stub import AgUiStub, Reply, ag_ui_stub
from tests.support.examples import example
from tests.support.log_reading import (
    answer,
    folded,
    results,
    said,
    state,
    thoughts,
    words,
)
from tests.support.task_submitter import TaskSubmitter, user_message


def backend(stub: AgUiStub, **more: object) -> Agent:
    given = {"name": "b", "memory": "task", "retry": Retry(backoff=0.0), **more}
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


async def test_every_kind_of_event_stands_in_the_log(
    submitter: TaskSubmitter, working: Working
) -> None:
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
        done = await folded(await submitter.start("b", "x"))
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


@pytest.mark.parametrize(
    "stated",
    ["12", 5, {"inputTokens": 3}, [None, "x", 5], [{"inputTokens": "12", "outputTokens": -40}]],
)
async def test_usage_that_counts_nothing_fails_no_finished_run(
    submitter: TaskSubmitter, working: Working, stated: object
) -> None:
    sound = {"model": "small", "inputTokens": 3, "outputTokens": 4.0}
    usage = [*stated, sound] if isinstance(stated, list) else stated
    async with ag_ui_stub(run(*text("m1", "Hello"), usage=usage)) as stub, working(backend(stub)):
        done = await folded(await submitter.start("b", "x"))
    assert (state(done), answer(done)) == ("COMPLETED", "Hello")
    assert done["metadata"].get("tokens_used") == (7 if isinstance(stated, list) else None)


async def test_the_run_is_requested_with_what_the_client_sent(
    submitter: TaskSubmitter, working: Working
) -> None:
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
        task = await submitter.start("b", "three", metadata={"headrace.agui": agui})
        await task.ended()
    [request] = stub.requests
    assert request["threadId"] not in {"", task.context}
    assert (request["state"], request["forwardedProps"]) == ({"n": 1}, {"p": 1})
    assert request["context"] == [{"description": "d", "value": "v"}]
    assert request["tools"][0]["name"] == "paint"
    assert [(m["role"], m["content"]) for m in request["messages"]] == [
        ("user", "one"),
        ("assistant", "two"),
        ("user", "three"),
    ]


async def test_an_interrupt_is_emitted_and_the_answer_resumes_it(
    submitter: TaskSubmitter, working: Working
) -> None:
    asks = {
        "id": "i1",
        "reason": "confirm",
        "message": "Sure?",
        "responseSchema": {"type": "string"},
    }
    first = run(outcome={"type": "interrupt", "interrupts": [asks]})
    async with ag_ui_stub(first, run(*text("m", "Done."))) as stub, working(backend(stub)):
        task = await submitter.start("b", "x")
        last = (await task.events())[-1]["statusUpdate"]
        assert last["status"]["message"]["parts"][0]["text"] == "Sure?"
        assert last["metadata"][INTERRUPTS] == [asks]
        number = await task.follow_up("yes")
        await task.reaches(number + 3)
        done = await folded(task)
    assert (state(done), answer(done)) == ("COMPLETED", "Done.")
    resume = stub.requests[1]["resume"]
    assert resume == [{"interruptId": "i1", "status": "resolved", "payload": "yes"}]
    assert [m["content"] for m in stub.requests[1]["messages"]] == ["x"]


async def test_several_interrupts_are_each_answered_as_its_own_clients_do(
    submitter: TaskSubmitter, working: Working
) -> None:
    approval = {"properties": {"approved": {"type": "boolean"}}}
    asks = [
        {"id": "i1", "reason": "tool_call", "toolCallId": "c1", "responseSchema": approval},
        {"id": "i2", "reason": "input", "message": "How many?"},
        {"id": "i3", "reason": "input", "message": "Where?"},
        {"id": "i4", "reason": "input", "message": "When?"},
    ]
    first = run(*tool("c1", "pay", "{}"), outcome={"type": "interrupt", "interrupts": asks})
    async with ag_ui_stub(first, run(*text("m", "Done."))) as stub, working(backend(stub)):
        task = await submitter.start("b", "x")
        await task.ended()

        def said(name: str, content: Json, status: str = "resolved") -> Json:
            metadata = {"agui_interrupt_id": name, "agui_resume_status": status}
            return {**content, "metadata": metadata}

        answers = [
            said("i1", {"text": "yes"}),
            said("i2", {"data": {"n": 2}}),
            said("i3", {"data": None}, "cancelled"),
            {"text": "And hurry."},
        ]
        message = {"messageId": "r", "role": "ROLE_USER", "parts": answers}
        number = await task.follow_up_with(message)
        await task.reaches(number + 3)
        done = await folded(task)
    assert state(done) == "COMPLETED"
    request = stub.requests[1]
    assert request["resume"] == [
        {"interruptId": "i1", "status": "resolved", "payload": {"approved": True}},
        {"interruptId": "i2", "status": "resolved", "payload": {"n": 2}},
        {"interruptId": "i3", "status": "cancelled"},
        {"interruptId": "i4", "status": "cancelled"},
    ]
    assert [m["role"] for m in request["messages"]] == ["user", "assistant", "user"]
    assert request["messages"][2]["content"] == "And hurry."


async def test_a_message_behind_the_answer_to_an_interrupt_resumes_nothing(
    submitter: TaskSubmitter, working: Working
) -> None:
    asks = {"id": "i1", "reason": "confirm", "message": "Sure?"}
    first = run(outcome={"type": "interrupt", "interrupts": [asks]})
    replies = [first, run(*text("m", "Done.")), run(*text("n", "Welcome."))]
    async with ag_ui_stub(*replies) as stub:
        async with working(backend(stub)):
            task = await submitter.start("b", "x")
            await task.ended()
        await task.follow_up("yes")
        queued = events.queued(
            task.key.task, task.context, SUBMITTED, user_message("Thanks!"), None, "thanks"
        )
        await task.append(queued, SUBMITTED, writer="thanks", run=(await task.last()).stamp.run)
        async with working(backend(stub)):
            done = await folded(task)
    assert (state(done), answer(done)) == ("COMPLETED", "Done.Welcome.")
    assert [len(request.get("resume", ())) for request in stub.requests] == [0, 1, 0]


async def test_a_call_that_is_the_clients_waits_beside_an_interrupt(
    submitter: TaskSubmitter, working: Working
) -> None:
    asks = {"id": "i1", "reason": "tool_call", "toolCallId": "c1", "message": "Pay?"}
    both = [*tool("p1", "paint", "{}"), *tool("c1", "pay", "{}")]
    first = run(*both, outcome={"type": "interrupt", "interrupts": [asks]})
    tools: list[Json] = [
        {"name": name, "description": "", "parameters": {}} for name in ("paint", "pay")
    ]
    agui: Json = {"headrace.agui": {"tools": tools}}
    async with ag_ui_stub(first, run(*text("m", "Done."))) as stub, working(backend(stub)):
        task = await submitter.start("b", "x", metadata=agui)
        last = (await task.events())[-1]["statusUpdate"]["metadata"]
        assert (last[INTERRUPTS], last[PENDING_TOOL_CALLS]) == ([asks], ["p1"])
        again = await answered(task, parts.tool_result_part("p1", "wet"), agui)
        assert (state(again), len(stub.requests)) == ("INPUT_REQUIRED", 1)
        done = await answered(task, {"text": "yes"}, agui)
    assert (state(done), answer(done)) == ("COMPLETED", "Done.")
    assert stub.requests[1]["resume"][0]["payload"] == "yes"
    assert stub.requests[1]["messages"][-1]["content"] == "wet"


async def test_words_in_answer_to_an_interrupt_are_no_message_of_a_later_run(
    submitter: TaskSubmitter, working: Working
) -> None:
    outcome: Json = {"type": "interrupt", "interrupts": [{"id": "i1", "reason": "r"}]}
    replies = [
        run(*text("m1", "One."), outcome=outcome),
        run(*text("m2", "Two."), outcome=outcome),
        run(*text("m3", "Three.")),
    ]
    async with ag_ui_stub(*replies) as stub, working(backend(stub)):
        task = await submitter.start("b", "x")
        await task.ended()
        for words_ in ("yes", "no"):
            number = await task.follow_up(words_)
            await task.reaches(number + 4)
            await task.ended()
    assert [(m["id"], m["content"]) for m in stub.requests[2]["messages"][1:]] == [
        ("m1", "One."),
        ("m2", "Two."),
    ]
    assert stub.requests[2]["resume"][0]["payload"] == "no"


@pytest.mark.usefixtures("task_state")
async def test_its_messages_keep_their_ids(submitter: TaskSubmitter, working: Working) -> None:
    thinks = {"messageId": "t1"}
    first = run(
        {"type": "REASONING_MESSAGE_START", **thinks, "role": "reasoning"},
        {"type": "REASONING_MESSAGE_CONTENT", **thinks, "delta": "Hm."},
        {"type": "REASONING_MESSAGE_END", **thinks},
        *text("m1", "Let me ", "add."),
        {
            "type": "TOOL_CALL_START",
            "toolCallId": "c1",
            "toolCallName": "add",
            "parentMessageId": "m1",
        },
        {"type": "TOOL_CALL_ARGS", "toolCallId": "c1", "delta": "{}"},
        {"type": "TOOL_CALL_END", "toolCallId": "c1"},
        {"type": "TOOL_CALL_RESULT", "messageId": "r1", "toolCallId": "c1", "content": "2"},
        *text("m2", "Two."),
    )
    received = [
        ("reasoning", "t1", "Hm."),
        ("assistant", "m1", "Let me add."),
        ("tool", "r1", "2"),
        ("assistant", "m2", "Two."),
    ]
    async with (
        ag_ui_stub(first, *[run(*text("m3", "Bye."))] * 2) as stub,
        working(backend(stub, memory="context")),
    ):
        task = await submitter.start("b", "x")
        done = await folded(task)
        # Whoever goes on in A2A has the log; an AG-UI client names what it has as our log does.
        await (await submitter.start("b", "y", context=task.context)).ended()
        blocks = [artifact["artifactId"] for artifact in done["artifacts"]]
        messages: list[Json] = [
            {"id": "u1", "role": "user", "content": "x"},
            {
                "id": blocks[0],
                "role": "assistant",
                "content": "Let me add.",
                "toolCalls": [
                    {"id": "c1", "type": "function", "function": {"name": "add", "arguments": "{}"}}
                ],
            },
            {"id": "c1-result", "role": "tool", "toolCallId": "c1", "content": "2"},
            {"id": blocks[1], "role": "assistant", "content": "Two."},
            {"id": "u2", "role": "user"},
        ]
        agui = {"headrace.agui": {"messages": messages}}
        message = {"messageId": "u2", "role": "ROLE_USER", "parts": [{"text": "z"}]}
        last = await submitter.start("b", context=task.context, message=message, metadata=agui)
        await last.ended()
    by_log, by_client = (request["messages"] for request in stub.requests[1:])
    assert [(m["role"], m["id"], m["content"]) for m in by_log[1:-1]] == received
    assert by_log[2]["toolCalls"][0]["id"] == "c1"
    assert [(m["role"], m["id"], m["content"]) for m in by_client[1:-1]][-3:] == received[1:]
    assert (by_client[0]["id"], by_client[-1]["id"]) == ("u1", "u2")


@pytest.mark.usefixtures("task_state")
async def test_what_seals_reasoning_and_calls_comes_back_with_them(
    submitter: TaskSubmitter, working: Working
) -> None:
    def sealed(kind: str, entity: str, value: str) -> Json:
        named = {"subtype": kind, "entityId": entity, "encryptedValue": value}
        return {"type": "REASONING_ENCRYPTED_VALUE", **named}

    first = run(
        {"type": "REASONING_START", "messageId": "t1"},
        {"type": "REASONING_MESSAGE_START", "messageId": "t1", "role": "reasoning"},
        {"type": "REASONING_MESSAGE_CONTENT", "messageId": "t1", "delta": "Hm."},
        {"type": "REASONING_MESSAGE_END", "messageId": "t1"},
        sealed("message", "t1", "one"),
        {"type": "REASONING_END", "messageId": "t1"},
        {"type": "REASONING_START", "messageId": "t2"},
        sealed("message", "t2", "redacted"),
        {"type": "REASONING_END", "messageId": "t2"},
        {"type": "TOOL_CALL_START", "toolCallId": "c1", "toolCallName": "add"},
        sealed("tool-call", "c1", "three"),
        {"type": "TOOL_CALL_END", "toolCallId": "c1"},
        {"type": "TOOL_CALL_RESULT", "messageId": "r1", "toolCallId": "c1", "content": "2"},
        *text("m1", "Two."),
        sealed("message", "m1", "of another kind"),
    )
    async with (
        ag_ui_stub(first, run(*text("m2", "Bye."))) as stub,
        working(backend(stub, memory="context")),
    ):
        task = await submitter.start("b", "x")
        done = await folded(task)
        await (await submitter.start("b", "y", context=task.context)).ended()
    assert [part["data"]["encryptedValue"] for part in kinds(done, parts.RAW)] == [
        "of another kind"
    ]
    thoughts_ = [part for part in said(done) if parts.encrypted_value(part)]
    assert [parts.encrypted_value(part) for part in thoughts_] == ["one", "redacted", "three"]
    messages = stub.requests[1]["messages"][1:5]
    assert [(m["role"], m["id"], m.get("content", "")) for m in messages] == [
        ("reasoning", "t1", "Hm."),
        ("reasoning", "t2", ""),
        ("assistant", "c1", ""),
        ("tool", "r1", "2"),
    ]
    assert [m["encryptedValue"] for m in messages[:2]] == ["one", "redacted"]
    assert messages[2]["toolCalls"][0]["encryptedValue"] == "three"


@pytest.mark.usefixtures("task_state")
async def test_the_conversation_that_it_sets_is_the_next_runs(
    submitter: TaskSubmitter, working: Working
) -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "add", "arguments": "{}"}}
    short = [
        {"id": "s1", "role": "user", "content": "In short: x."},
        {"id": "s2", "role": "assistant", "content": "One.", "toolCalls": [call]},
    ]
    snapshot = {"type": "MESSAGES_SNAPSHOT", "messages": short}
    result = {"type": "TOOL_CALL_RESULT", "messageId": "r1", "toolCallId": "c1", "content": "2"}
    replies = [
        run(*text("m1", "Long."), *tool("c1", "add", "{}"), snapshot, result, *text("m2", "Two.")),
        run(*text("m3", "Three.")),
        run(),
    ]
    async with ag_ui_stub(*replies) as stub, working(backend(stub, memory="context")):
        task = await submitter.start("b", "x")
        await task.ended()
        for words_ in "yz":
            await (await submitter.start("b", words_, context=task.context)).ended()
    messages = stub.requests[2]["messages"]
    assert messages[:2] == short
    assert [(m["role"], m["content"]) for m in messages[2:]] == [
        ("tool", "2"),
        ("assistant", "Two."),
        ("user", "y"),
        ("assistant", "Three."),
        ("user", "z"),
    ]
    assert [m["id"] for m in messages[2:4]] == ["r1", "m2"]


@pytest.mark.usefixtures("task_state")
async def test_a_conversation_that_is_none_is_not_sent_back(
    submitter: TaskSubmitter, working: Working
) -> None:
    snapshot = {"type": "MESSAGES_SNAPSHOT", "messages": [{"id": "1", "role": "nobody"}]}
    async with (
        ag_ui_stub(run(*text("m", "a"), snapshot), run()) as stub,
        working(backend(stub, memory="context")),
    ):
        task = await submitter.start("b", "x")
        await task.ended()
        await (await submitter.start("b", "y", context=task.context)).ended()
    assert [m["content"] for m in stub.requests[1]["messages"]] == ["x", "a", "y"]


@pytest.mark.usefixtures("task_state")
async def test_no_two_messages_have_one_id(submitter: TaskSubmitter, working: Working) -> None:
    replies = [run(*text("m", "a")), run(*text("m", "b")), run(*text("n", "c"))]
    async with ag_ui_stub(*replies) as stub, working(backend(stub, memory="context")):
        task = await submitter.start("b", message={**user_message("x"), "messageId": "same"})
        await task.ended()
        for word in "yz":
            said_ = {**user_message(word), "messageId": "same"}
            await (await submitter.start("b", context=task.context, message=said_)).ended()
    second, third = (request["messages"] for request in stub.requests[1:])
    assert [m["content"] for m in third] == ["x", "a", "y", "b", "z"]
    assert len({m["id"] for m in third}) == 5
    assert third[:3] == second


@pytest.mark.usefixtures("task_state")
async def test_a_call_without_a_result_stays_open(
    submitter: TaskSubmitter, working: Working
) -> None:
    first = run(*tool("c1", "pay", '{"n":1}'))
    async with (
        ag_ui_stub(first, run(*text("m", "Fine."))) as stub,
        working(backend(stub, memory="context")),
    ):
        task = await submitter.start("b", "x")
        await task.ended()
        await (await submitter.start("b", "y", context=task.context)).ended()
    assert [m["role"] for m in stub.requests[1]["messages"]] == ["user", "assistant", "user"]


@pytest.mark.parametrize("character", ["\u0085", "\u2028", "\u2029"])
async def test_characters_that_end_lines_elsewhere_end_no_event(
    submitter: TaskSubmitter, working: Working, character: str
) -> None:
    said_ = f"a{character}b"
    async with ag_ui_stub(run(*text("m", said_))) as stub, working(backend(stub)):
        done = await folded(await submitter.start("b", "x"))
    assert (state(done), answer(done), len(stub.requests)) == ("COMPLETED", said_, 1)


@pytest.mark.usefixtures("task_state")
async def test_its_state_is_handed_back_and_goes_on(
    submitter: TaskSubmitter, working: Working
) -> None:
    replies = [
        run({"type": "STATE_SNAPSHOT", "snapshot": {"n": 1}}),
        run({"type": "STATE_DELTA", "delta": [{"op": "replace", "path": "/n", "value": 2}]}),
        run(),
    ]
    async with ag_ui_stub(*replies) as stub, working(backend(stub, memory="context")):
        task = await submitter.start("b", "x")
        await task.ended()
        for _ in range(2):
            await (await submitter.start("b", "y", context=task.context)).ended()
    assert [request["state"] for request in stub.requests] == [{}, {"n": 1}, {"n": 2}]


async def test_users_with_one_context_id_have_a_thread_each(
    submitter: TaskSubmitter, working: Working
) -> None:
    async def threads(*owners: str) -> list[str]:
        async with ag_ui_stub(*[run()] * len(owners)) as stub, working(backend(stub)):
            for owner in owners:
                await folded(await submitter.start("b", "x", context="same", owner=owner))
        return [request["threadId"] for request in stub.requests]

    first, other, again = await threads("ada", "eve", "ada")
    assert first == again
    assert len({first, other, "same"}) == 3


async def test_a_link_to_a_file_of_ours_is_malformed(
    submitter: TaskSubmitter, working: Working
) -> None:
    source = {"type": "url", "value": "headrace-file:a/tasks/b/files/0", "mimeType": "image/png"}
    message = {"id": "1", "role": "user", "content": [{"type": "image", "source": source}]}
    reply = run({"type": "MESSAGES_SNAPSHOT", "messages": [message]})
    async with ag_ui_stub(reply) as stub, working(backend(stub)):
        done = await folded(await submitter.start("b", "x"))
    assert (state(done), len(stub.requests)) == ("FAILED", 1)
    assert "messages.0.content.0.source.value" in words(done)


async def test_a_run_that_has_finished_is_not_requested_again(
    submitter: TaskSubmitter, working: Working, monkeypatch: pytest.MonkeyPatch
) -> None:
    ends = AguiEvents.finish
    failing = [True]

    async def fails_once(telling: AguiEvents, outcome: Json) -> None:
        if failing:
            failing.pop()
            raise Retryable("as if the worker had died")
        await ends(telling, outcome)

    monkeypatch.setattr(AguiEvents, "finish", fails_once)
    asks = {"id": "i1", "reason": "confirm", "message": "Sure?" * 2000}
    reply = run(*text("m", "Once."), outcome={"type": "interrupt", "interrupts": [asks]})
    async with ag_ui_stub(reply) as stub, working(backend(stub)):
        done = await folded(await submitter.start("b", "x"))
    assert (state(done), answer(done)) == ("INPUT_REQUIRED", "Once.")
    assert len(stub.requests) == 1


def start(call: str, **more: object) -> Json:
    return {"type": "TOOL_CALL_START", "toolCallId": call, "toolCallName": "city", **more}


def args(call: str, delta: str) -> Json:
    return {"type": "TOOL_CALL_ARGS", "toolCallId": call, "delta": delta}


def end(call: str) -> Json:
    return {"type": "TOOL_CALL_END", "toolCallId": call}


def chunk(delta: str, **more: object) -> Json:
    return {"type": "TOOL_CALL_CHUNK", "delta": delta, **more}


def result(call: str, content: str, message: str) -> Json:
    named = {"toolCallId": call, "messageId": message}
    return {"type": "TOOL_CALL_RESULT", **named, "content": content}


@pytest.mark.parametrize(
    "pieces",
    [
        [start("A"), start("B"), args("A", "[1"), args("B", "[2"), args("A", "]"), args("B", "]")],
        [
            chunk("[1", toolCallId="A", toolCallName="city"),
            chunk("]"),
            chunk("[2]", toolCallId="B", toolCallName="city"),
        ],
        [chunk("[1]", toolCallId="A", toolCallName="city"), start("B"), args("B", "[2]")],
    ],
    ids=["interleaved", "chunks", "a chunk, then a start"],
)
async def test_each_call_stands_in_the_log_with_its_arguments_and_result(
    submitter: TaskSubmitter, working: Working, pieces: list[Json]
) -> None:
    reply = run(*pieces, end("A"), end("B"), result("B", "two", "m2"), result("A", "one", "m1"))
    async with ag_ui_stub(reply) as stub, working(backend(stub)):
        task = await submitter.start("b", "x")
        turns = turns_of_log(await task.ended())
        assert state(await folded(task)) == "COMPLETED"
    calls = {call.id: call.arguments for turn in turns for call in turn.calls}
    assert calls == {"A": [1], "B": [2]}
    assert [(t.result.id, t.result.content) for t in turns if t.result] == [
        ("B", "two"),
        ("A", "one"),
    ]


@pytest.mark.usefixtures("task_state")
async def test_ids_that_recur_in_a_run_are_calls_of_their_own(
    submitter: TaskSubmitter, working: Working
) -> None:
    first = [start("call_1", parentMessageId="p1"), args("call_1", "[1]"), end("call_1")]
    second = [start("call_1", parentMessageId="p2"), args("call_1", "[2]"), end("call_1")]
    reply = run(*first, result("call_1", "one", "m1"), *second, result("call_1", "two", "m2"))
    replies = reply, run(*text("t", "Done."))
    async with ag_ui_stub(*replies) as stub, working(backend(stub, memory="context")):
        task = await submitter.start("b", "x")
        turns = turns_of_log(await task.ended())
        assert state(await folded(task)) == "COMPLETED"
        await (await submitter.start("b", "y", context=task.context)).ended()
    calls = {call.id: call.arguments for turn in turns for call in turn.calls}
    assert list(calls.values()) == [[1], [2]]
    assert [(t.result.id, t.result.content) for t in turns if t.result] == [
        *zip(calls, ["one", "two"], strict=True)
    ]
    sent = stub.requests[1]["messages"]
    assert [(m["id"], m["role"]) for m in sent[1:5]] == [
        *(("p1", "assistant"), ("m1", "tool")),
        *(("p2", "assistant"), ("m2", "tool")),
    ]
    assert [m["toolCallId"] for m in sent if m["role"] == "tool"] == list(calls)


@pytest.mark.usefixtures("task_state")
async def test_messages_whose_ids_recur_in_a_run_are_messages_of_their_own(
    submitter: TaskSubmitter, working: Working
) -> None:
    thought = {"messageId": "r1"}
    thoughts = [
        [
            {"type": "REASONING_MESSAGE_START", "role": "reasoning", **thought},
            {"type": "REASONING_MESSAGE_CONTENT", "delta": words, **thought},
            {"type": "REASONING_MESSAGE_END", **thought},
        ]
        for words in ("Why?", "Because.")
    ]
    reply = run(*thoughts[0], *text("m1", "One."), *thoughts[1], *text("m1", "Two."))
    async with ag_ui_stub(reply, run()) as stub, working(backend(stub, memory="context")):
        task = await submitter.start("b", "x")
        turns = turns_of_log(await task.ended())
        assert state(await folded(task)) == "COMPLETED"
        await (await submitter.start("b", "y", context=task.context)).ended()
    items = [item for turn in turns for item in turn.items]
    assert [item.text for item in items] == ["Why?", "One.", "Because.", "Two."]
    assert len({item.id for item in items}) == 4
    sent = [m for m in stub.requests[1]["messages"] if m["role"] != "user"]
    # The agent has one message of each id.
    assert [(m["id"], m["content"]) for m in sent] == [
        *(("r1", "Why?Because."), ("m1", "One.Two.")),
    ]


@pytest.mark.parametrize("names_them", [True, False])
async def test_calls_of_the_user_interfaces_tools_are_left_to_it(
    submitter: TaskSubmitter, working: Working, *, names_them: bool
) -> None:
    outcome = {"type": "success", "pendingToolCallIds": ["c1"]} if names_them else None
    first = run(*tool("c1", "paint", "{}"), outcome=outcome)
    agui: Json = {"tools": [{"name": "paint", "description": "", "parameters": {}}]}
    async with ag_ui_stub(first, run(*text("m", "Nice."))) as stub, working(backend(stub)):
        task = await submitter.start("b", "x", metadata={"headrace.agui": agui})
        last = (await task.events())[-1]["statusUpdate"]
        assert last["metadata"][PENDING_TOOL_CALLS] == ["c1"]
        result = parts.tool_result_part("c1", "painted")
        number = await task.follow_up_with(
            {"messageId": "r", "role": "ROLE_USER", "parts": [result]}
        )
        await task.reaches(number + 3)
        done = await folded(task)
    assert answer(done) == "Nice."
    messages = stub.requests[1]["messages"]
    assert [m["role"] for m in messages] == ["user", "assistant", "tool"]
    assert messages[1]["toolCalls"][0]["function"] == {"name": "paint", "arguments": "{}"}
    assert (messages[2]["toolCallId"], messages[2]["content"]) == ("c1", "painted")


@pytest.mark.parametrize(("code", "ends"), [("boom", "FAILED"), ("rejected", "REJECTED")])
async def test_its_error_ends_the_task(
    submitter: TaskSubmitter, working: Working, code: str, ends: str
) -> None:
    reply = Reply([{"type": "RUN_ERROR", "message": "no paint", "code": code}])
    async with ag_ui_stub(reply) as stub, working(backend(stub)):
        done = await folded(await submitter.start("b", "x"))
    assert (state(done), words(done)) == (ends, "no paint")


@pytest.mark.parametrize(
    "error",
    [
        Reply(status=503),
        Reply([{"type": "RUN_STARTED"}, *text("m", "lost")]),
        Reply([{"type": "RUN_STARTED"}], breaks=True),
        Reply([{"type": "TEXT_MESSAGE_END"}]),
    ],
    ids=["busy", "unfinished", "cut off", "malformed"],
)
async def test_a_temporary_error_is_retried(
    submitter: TaskSubmitter, working: Working, error: Reply
) -> None:
    async with ag_ui_stub(error, run(*text("m", "found"))) as stub, working(backend(stub)):
        done = await folded(await submitter.start("b", "x"))
    assert (state(done), answer(done), len(stub.requests)) == ("COMPLETED", "found", 2)


async def test_a_refused_run_rejects(submitter: TaskSubmitter, working: Working) -> None:
    async with ag_ui_stub(Reply(status=422)) as stub, working(backend(stub)):
        done = await folded(await submitter.start("b", "x"))
    assert (state(done), len(stub.requests)) == ("REJECTED", 1)


async def test_a_cancel_closes_the_stream(submitter: TaskSubmitter, working: Working) -> None:
    reply = Reply([{"type": "RUN_STARTED"}, *text("m", "and ")], hangs=True)
    async with ag_ui_stub(reply) as stub, working(backend(stub)):
        task = await submitter.start("b", "x")
        await task.reaches(3)
        await task.held()
        await task.ask("cancel")
        done = await folded(task)
        async with asyncio.timeout(60):
            await stub.left.wait()
    assert state(done) == "CANCELED"


async def test_the_example_speaks_to_its_agent(submitter: TaskSubmitter, working: Working) -> None:
    async with (
        ag_ui_stub(run(*text("m", "Painted."))) as stub,
        working(example("ag_ui_backend", PAINTER_URL=stub.url).painter),
    ):
        done = await folded(await submitter.start("painter", "x"))
    assert answer(done) == "Painted."
