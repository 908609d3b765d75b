"""What users of Google's ADK write at home and find unchanged here."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest
from pydantic import BaseModel

from headrace import Retry
from headrace.model import parts
from headrace.model.events import Json
from headrace.sdk.errors import Retryable
from tests.integration.worker.adapters.behaviour import answered, approval, interrupts
from tests.integration.worker.adapters.gemini_wire import GeminiModel, chunk, gemini_model, last
from tests.integration.worker.adapters.test_google_adk import gemini
from tests.integration.worker.adapters.wire import ModelOutput, Refuses, Script, calls, replies
from tests.integration.worker.conftest import Working
from tests.support.chat_stub import Reply
from tests.support.examples import example
from tests.support.log_reading import (
    answer,
    folded,
    results,
    speakers,
    state,
    thoughts,
)
from tests.support.log_reading import calls as called
from tests.support.task_submitter import TaskSubmitter

if TYPE_CHECKING:
    from google.adk.agents import LlmAgent


OVER = calls(("t1", "transfer_to_agent", {"agent_name": "refunds"}))
PAY = calls(("c1", "pay", {"amount": 5}))

type Served = Callable[..., Any]


@pytest.fixture
def served(working: Working) -> Served:
    """Returns how to serve what `made` makes of a model that follows a script."""
    from headrace.adapters import adk_agent

    @asynccontextmanager
    async def serve(
        script: Script,
        made: Callable[[Any], Any],
        **options: Any,  # noqa: ANN401  # adk_agent's
    ) -> AsyncIterator[GeminiModel]:
        async with gemini_model(script) as model:
            agent = adk_agent(
                made(gemini(model.url)),
                name="a",
                memory="task",
                retry=Retry(backoff=0.0),
                **options,
            )
            async with working(agent):
                yield model

    return serve


class Shape(BaseModel):
    """An answer in a shape."""

    sides: int


def pay(amount: int) -> str:
    """Pay."""
    return f"paid {amount}"


def desk_of(llm: Any, *tools: Any) -> "LlmAgent":  # noqa: ANN401  # the library's
    """Return an agent that may hand over to another, which has the tools."""
    from google.adk.agents import LlmAgent

    refunds = LlmAgent(
        name="refunds", description="Refunds.", instruction="Refund.", model=llm, tools=[*tools]
    )
    return LlmAgent(name="front", instruction="Hand over.", model=llm, sub_agents=[refunds])


def instructions(model: GeminiModel) -> list[str]:
    """Return the beginning of each request's instruction."""
    received = [request["systemInstruction"]["parts"][0]["text"] for request in model.requests]
    return [text.partition(".")[0] for text in received]


async def test_the_example_requests_approval_and_refunds(
    submitter: TaskSubmitter, working: Working, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = [OVER, calls(("c1", "refund", {"order": "A1"})), replies("Refunded.")]
    async with gemini_model(script) as model:
        monkeypatch.setenv("GOOGLE_API_KEY", "k")
        monkeypatch.setenv("GOOGLE_GEMINI_BASE_URL", model.url)
        async with working(example("adk_transfer").desk):
            task = await submitter.start("desk", "My money!")
            [interrupt] = await interrupts(task)
            done = await answered(task, approval(interrupt["id"], {"approved": True}))
    assert (state(done), answer(done)) == ("COMPLETED", "Refunded.")


async def test_the_agent_that_was_transferred_to_goes_on_as_a_subagent(
    submitter: TaskSubmitter, served: Served
) -> None:
    from google.adk.tools.function_tool import FunctionTool

    script = [OVER, PAY, replies("Done.")]
    tool = FunctionTool(pay, require_confirmation=True)
    async with served(script, lambda llm: desk_of(llm, tool)) as model:
        task = await submitter.start("a", "Refund A1.")
        [interrupt] = await interrupts(task)
        done = await answered(task, approval(interrupt["id"], {"approved": True}))
    assert (state(done), answer(done)) == ("COMPLETED", "Done.")
    assert results(done)[-1] == ("paid 5", "")
    assert [name for name, _ in called(done)] == ["transfer_to_agent", "pay"]
    assert instructions(model) == ["Hand over", "Refund", "Refund"]
    assert speakers(done) == [
        ("started", "refunds"),
        ("finished", "suspended"),
        ("started", "refunds"),
        ("finished", "success"),
    ]


async def test_a_retry_goes_on_with_the_agent_that_was_transferred_to(
    submitter: TaskSubmitter, served: Served
) -> None:
    script: list[ModelOutput] = [OVER, *[Refuses(429)] * 2, replies("Done.")]
    async with served(script, desk_of) as model:
        done = await folded(await submitter.start("a", "Refund A1."))
    assert (state(done), answer(done)) == ("COMPLETED", "Done.")
    assert instructions(model) == ["Hand over", *["Refund"] * 3]
    assert [received.line for received in model.conversations[3]] == [
        received.line for received in model.conversations[1]
    ]


async def test_a_long_running_tools_result_is_the_users_to_give(
    submitter: TaskSubmitter, served: Served
) -> None:
    from google.adk.agents import LlmAgent
    from google.adk.tools.long_running_tool import LongRunningFunctionTool

    started: list[str] = []

    def order(item: str) -> Json:
        """Order an item; somebody tells when it has come."""
        started.append(item)
        return {"status": "pending", "ticket": "T1"}

    script = [calls(("c1", "order", {"item": "pear"})), replies("Ordered."), replies(" It came.")]
    made = LongRunningFunctionTool(order)
    async with served(script, lambda llm: LlmAgent(name="a", model=llm, tools=[made])) as model:
        task = await submitter.start("a", "A pear.")
        [interrupt] = await interrupts(task)
        assert "T1" in interrupt["message"]
        done = await answered(task, approval(interrupt["id"], {"status": "here"}))
    assert (state(done), answer(done), started) == ("COMPLETED", "Ordered. It came.", ["pear"])
    assert "{'status': 'here'}" in [received.text for received in model.conversations[2]]
    assert results(done) == [({"status": "here"}, "")]


async def test_a_request_for_input_takes_an_answer_of_its_schema(
    submitter: TaskSubmitter, served: Served
) -> None:
    from google.adk.agents import LlmAgent
    from google.adk.tools import request_input  # type: ignore[attr-defined]

    asks = {"message": "How many?", "response_schema": {"type": "integer"}}
    script = [calls(("c1", "adk_request_input", asks)), replies("Three.")]
    async with served(
        script, lambda llm: LlmAgent(name="a", model=llm, tools=[request_input])
    ) as model:
        task = await submitter.start("a", "Pears.")
        [interrupt] = await interrupts(task)
        assert (interrupt["message"], interrupt["responseSchema"]) == (
            "How many?",
            {"type": "integer"},
        )
        again = await answered(task, {"text": "many"})
        assert state(again) == "INPUT_REQUIRED"
        done = await answered(task, {"text": "3"})
    assert (state(done), answer(done), results(done)) == ("COMPLETED", "Three.", [(3, "")])
    assert model.conversations[1][-1].text == "3"


async def test_a_retry_behind_an_approval_carries_it_out_once(
    submitter: TaskSubmitter, served: Served
) -> None:
    from google.adk.agents import LlmAgent
    from google.adk.tools.function_tool import FunctionTool

    paid: list[int] = []

    def pay_out(amount: int) -> str:
        """Pay."""
        paid.append(amount)
        return "paid"

    script: list[ModelOutput] = [
        calls(("c1", "pay_out", {"amount": 2})),
        *[Refuses(503)] * 2,
        replies("Done."),
    ]
    tool = FunctionTool(pay_out, require_confirmation=True)
    async with served(script, lambda llm: LlmAgent(name="a", model=llm, tools=[tool])) as model:
        task = await submitter.start("a", "Pay.")
        [interrupt] = await interrupts(task)
        done = await answered(task, approval(interrupt["id"], {"approved": True}))
    assert (state(done), answer(done), paid) == ("COMPLETED", "Done.", [2])
    assert model.conversations[3] == model.conversations[1]


async def test_a_tool_that_requests_more_is_given_it(
    submitter: TaskSubmitter, served: Served
) -> None:
    from google.adk.agents import LlmAgent
    from google.adk.tools.tool_context import ToolContext

    def book(days: int, tool_context: ToolContext) -> Json:
        """Book days off."""
        if tool_context.tool_confirmation is None:
            tool_context.request_confirmation(hint="How many?", payload={"days": 0})
            return {"status": "asked"}
        payload: Any = tool_context.tool_confirmation.payload
        return {"booked": payload["days"], "of": days}

    script = [calls(("c1", "book", {"days": 5})), replies("Booked.")]
    async with served(script, lambda llm: LlmAgent(name="a", model=llm, tools=[book])):
        task = await submitter.start("a", "Five days.")
        [interrupt] = await interrupts(task)
        assert interrupt["metadata"] == {"hint": "How many?"}
        assert interrupt["responseSchema"]["properties"]["payload"] == {"default": {"days": 0}}
        given = {"approved": True, "payload": {"days": 3}}
        done = await answered(task, approval(interrupt["id"], given))
    assert (state(done), results(done)) == ("COMPLETED", [({"booked": 3, "of": 5}, "")])


async def test_approvals_and_plain_calls_of_one_response_are_each_carried_out_once(
    submitter: TaskSubmitter, served: Served
) -> None:
    from google.adk.agents import LlmAgent
    from google.adk.tools.function_tool import FunctionTool

    paid: list[int] = []

    def note(amount: int) -> str:
        """Take a note."""
        paid.append(-amount)
        return "noted"

    def pay_out(amount: int) -> str:
        """Pay."""
        paid.append(amount)
        return "paid"

    script = [
        calls(("c1", "note", {"amount": 1}), ("c2", "pay_out", {"amount": 2})),
        replies("Done."),
    ]
    tools: list[Any] = [note, FunctionTool(pay_out, require_confirmation=True)]
    async with served(script, lambda llm: LlmAgent(name="a", model=llm, tools=tools)) as model:
        task = await submitter.start("a", "Pay.")
        [interrupt] = await interrupts(task)
        done = await answered(task, approval(interrupt["id"], {"approved": True}))
    assert (state(done), paid) == ("COMPLETED", [-1, 2])
    assert sorted(received.text for received in model.conversations[1][2:]) == ["noted", "paid"]


async def test_text_beside_an_approval_is_sent_after_the_result(
    submitter: TaskSubmitter, served: Served
) -> None:
    from google.adk.agents import LlmAgent
    from google.adk.tools.function_tool import FunctionTool

    script = [PAY, calls(("c2", "pay", {"amount": 6})), replies("Done.")]
    tool = FunctionTool(pay, require_confirmation=True)
    async with served(script, lambda llm: LlmAgent(name="a", model=llm, tools=[tool])) as model:
        task = await submitter.start("a", "Pay.")
        [interrupt] = await interrupts(task)
        part = approval(interrupt["id"], {"approved": True})
        await answered(task, part, more=[{"text": "And again."}])
        [again] = await interrupts(task)
        await answered(task, approval(again["id"], {"approved": True}))
    assert [received.line for received in model.conversations[1]][-2:] == [
        "tool: paid 5",
        "user: And again.",
    ]
    assert [received.line for received in model.conversations[2]][-3:] == [
        "user: And again.",
        "assistant: pay(6)",
        "tool: paid 6",
    ]


async def test_reasoning_is_shown_and_signatures_are_sent_again(
    submitter: TaskSubmitter, served: Served
) -> None:
    from google.adk.agents import LlmAgent

    signed = {"functionCall": {"id": "c1", "name": "pay", "args": {"amount": 1}}}
    script = [
        Reply(
            [
                chunk({"text": "Hm.", "thought": True}),
                chunk({**signed, "thoughtSignature": "c2lnbmVk"}),
                last(),
            ]
        ),
        Reply([chunk({"text": "Paid."}), last()]),
    ]
    async with served(script, lambda llm: LlmAgent(name="a", model=llm, tools=[pay])) as received:
        done = await folded(await submitter.start("a", "Pay 1."))
    assert (thoughts(done), answer(done)) == ("Hm.", "Paid.")
    sent = [p for content in received.requests[1]["contents"] for p in content["parts"]]
    assert [p["thoughtSignature"] for p in sent if "functionCall" in p] == ["c2lnbmVk"]
    assert done["metadata"]["tokens_used"] == 30


async def test_output_of_a_shape_is_data(submitter: TaskSubmitter, served: Served) -> None:
    from google.adk.agents import LlmAgent

    async with served(
        [replies('{"sides"', ": 6}")],
        lambda llm: LlmAgent(name="a", model=llm, output_schema=Shape),
    ):
        done = await folded(await submitter.start("a", "How many?"))
    [artifact] = done["artifacts"]
    assert artifact["parts"][0]["data"] == {"sides": 6}


def steps_of(llm: Any) -> "list[LlmAgent]":  # noqa: ANN401  # the library's
    """Return two agents."""
    from google.adk.agents import LlmAgent

    return [LlmAgent(name=name, model=llm, instruction=name) for name in ("one", "two")]


@pytest.mark.filterwarnings("ignore:SequentialAgent is deprecated")
async def test_agents_in_sequence_each_emit_their_part(
    submitter: TaskSubmitter, served: Served
) -> None:
    from google.adk.agents import SequentialAgent

    def made(llm: Any) -> SequentialAgent:  # noqa: ANN401  # the library's
        return SequentialAgent(name="both", sub_agents=[*steps_of(llm)])

    async with served([replies("First."), replies("Second.")], made):
        task = await submitter.start("a", "Go.")
        done = await folded(task)
    assert (state(done), answer(done)) == ("COMPLETED", "First.Second.")
    assert [name for event, name in speakers(done) if event == "started"] == ["one", "two"]


async def test_a_workflow_runs_each_of_its_agents_once_over_attempts(
    submitter: TaskSubmitter, served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    from google.adk.workflow import Workflow

    from headrace.adapters.adk.events import AdkEvents

    def made(llm: Any) -> Workflow:  # noqa: ANN401  # the library's
        return Workflow(name="both", edges=[("START", *steps_of(llm))])

    failures = [Retryable("once")]
    whole = AdkEvents.relay

    async def relay(self: AdkEvents, event: Any) -> None:  # noqa: ANN401  # the library's
        await whole(self, event)
        if failures and event.author == "one" and event.is_final_response() and event.content:
            raise failures.pop()

    monkeypatch.setattr(AdkEvents, "relay", relay)

    async with served([replies("First."), replies("Second.")], made) as model:
        task = await submitter.start("a", "Go.")
        done = await folded(task)
    assert (state(done), answer(done)) == ("COMPLETED", "First.Second.")
    assert len(model.requests) == 2


async def test_an_answer_that_was_kept_is_not_requested_again(
    submitter: TaskSubmitter, served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    from google.adk.agents import LlmAgent

    from headrace.adapters.adk.events import AdkEvents

    failures = [Retryable("once")]
    whole = AdkEvents.end

    async def end(self: AdkEvents) -> None:
        if failures:
            raise failures.pop()
        await whole(self)

    monkeypatch.setattr(AdkEvents, "end", end)
    async with served([replies("Six.")], lambda llm: LlmAgent(name="a", model=llm)) as model:
        done = await folded(await submitter.start("a", "How many?"))
    assert (state(done), answer(done), len(model.requests)) == ("COMPLETED", "Six.", 1)


# ADK hands its runner's plugins on to the agent in a way of which it warns.
@pytest.mark.filterwarnings("ignore:The `plugins` argument is deprecated")
async def test_a_tool_that_is_an_agent_is_one_call(
    submitter: TaskSubmitter, served: Served
) -> None:
    from google.adk.agents import LlmAgent
    from google.adk.tools.agent_tool import AgentTool

    script = [
        calls(("c1", "payer", {"request": "Pay."})),
        calls(("n1", "pay", {"amount": 1})),
        replies("I paid."),
        replies("Done."),
    ]

    def made(llm: Any) -> LlmAgent:  # noqa: ANN401  # the library's
        payer = LlmAgent(name="payer", model=llm, tools=[pay])
        return LlmAgent(name="a", model=llm, tools=[AgentTool(payer)])

    async with served(script, made):
        done = await folded(await submitter.start("a", "Pay."))
    assert (state(done), answer(done)) == ("COMPLETED", "Done.")
    assert results(done) == [("I paid.", "")]


async def test_callbacks_and_plugins_of_the_agent_decide_what_a_tool_has_answered(
    submitter: TaskSubmitter, served: Served
) -> None:
    from google.adk.agents import LlmAgent
    from google.adk.apps import App
    from google.adk.plugins import BasePlugin

    class Shouting(BasePlugin):
        async def after_tool_callback(self, **kwargs: Any) -> Json:  # noqa: ANN401  # the library's
            return {"result": kwargs["result"].upper()}

    def made(llm: Any) -> App:  # noqa: ANN401  # the library's
        wrapped = LlmAgent(name="a", model=llm, tools=[pay])
        return App(name="shop", root_agent=wrapped, plugins=[Shouting("shouting")])

    async with served([PAY, replies("Done.")], made) as model:
        done = await folded(await submitter.start("a", "Pay."))
    assert results(done) == [("PAID 5", "")]
    assert model.conversations[1][-1].text == "PAID 5"


async def test_ids_that_a_model_uses_again_are_distinguished(
    submitter: TaskSubmitter, served: Served
) -> None:
    from google.adk.agents import LlmAgent

    script = [PAY, calls(("c1", "pay", {"amount": 6})), replies("Done.")]
    async with served(script, lambda llm: LlmAgent(name="a", model=llm, tools=[pay])):
        done = await folded(await submitter.start("a", "Pay twice."))
    assert [content for content, _ in results(done)] == ["paid 5", "paid 6"]


async def test_a_model_that_refuses_rejects_and_a_wrong_request_fails(
    submitter: TaskSubmitter, served: Served
) -> None:
    from google.adk.agents import LlmAgent

    blocked = {"promptFeedback": {"blockReason": "SAFETY"}, "modelVersion": "x"}
    script: Any = [Reply([blocked]), Refuses(400)]
    async with served(script, lambda llm: LlmAgent(name="a", model=llm)):
        rejected = await folded(await submitter.start("a", "No."))
        failed = await folded(await submitter.start("a", "No."))
    assert (state(rejected), state(failed)) == ("REJECTED", "FAILED")
    assert "secret" not in str(failed["status"])


async def test_arguments_stream_where_the_model_streams_them(
    submitter: TaskSubmitter, served: Served
) -> None:
    from google.adk.agents import LlmAgent

    def piece(*pieces: Json, **more: Any) -> Json:  # noqa: ANN401  # any JSON
        call = {"partialArgs": [*pieces], "willContinue": True, **more}
        return chunk({"functionCall": call})

    def note(order: str, amount: int, lines: list[str], sent: bool) -> str:  # noqa: FBT001  # a tool's
        """Note."""
        return f"{order} {amount} {lines} {sent}"

    def text(path: str, value: str, *, goes_on: bool = True) -> Json:
        return {"jsonPath": path, "stringValue": value, "willContinue": goes_on}

    streamed = [
        piece(id="c1", name="note"),
        piece(text("$.order", 'A"')),
        piece(text("$.order", "1é", goes_on=False)),
        piece({"jsonPath": "$.amount", "numberValue": 5}),
        piece(text("$.lines[0]", "x"), text("$.lines[1]", "y")),
        piece({"jsonPath": "$.sent", "boolValue": True}),
        chunk({"functionCall": {"willContinue": False}}),
    ]
    whole = [Reply([*streamed, last()]), Reply([*streamed, last()]), replies("Done.")]
    async with served(whole, lambda llm: LlmAgent(name="a", model=llm, tools=[note])) as model:
        task = await submitter.start("a", "Note it.")
        done = await folded(task)
    received = {"order": 'A"1é', "amount": 5, "lines": ["x", "y"], "sent": True}
    assert (state(done), answer(done)) == ("COMPLETED", "Done.")
    assert called(done) == [("note", received)] * 2
    assert results(done) == [("A\"1é 5 ['x', 'y'] True", "")] * 2
    updates = [event.get("statusUpdate", {}) for event in await task.events()]
    messages = [update.get("status", {}).get("message") or {} for update in updates]
    pieces = [
        part
        for message in messages
        for part in message.get("parts", ())
        if parts.is_partial_tool_call(part)
    ]
    assert len({parts.tool_call_id(part) for part in pieces}) == 2
    assert [part["text"] for part in pieces[:4]] == ["", '{"order":"A\\"', "1é", '","amount":5']
    assert len(model.conversations) == 3


async def test_what_an_agent_keeps_of_its_user_is_known_in_other_conversations(
    submitter: TaskSubmitter, served: Served
) -> None:
    from google.adk.agents import LlmAgent
    from google.adk.tools.load_memory_tool import load_memory_tool
    from google.adk.tools.tool_context import ToolContext
    from google.genai import types

    async def keep(tool_context: ToolContext) -> str:
        """Keep it."""
        tool_context.state["user:name"] = "Ada"
        tool_context.state["topic"] = "cats"
        await tool_context.save_artifact("user:note", types.Part(text="likes cats"))
        await tool_context.add_session_to_memory()
        return "kept"

    async def recall(tool_context: ToolContext) -> list[str]:
        """Recall it."""
        note = await tool_context.load_artifact("user:note")
        state = tool_context.state.to_dict()
        return [state.get("user:name", ""), state.get("topic", ""), (note and note.text) or ""]

    script = [
        *(calls(("c1", "keep", {})), replies("Kept.")),
        *(calls(("c2", "recall", {})), calls(("c3", "load_memory", {"query": "remember"}))),
        replies("Known."),
        *(calls(("c4", "recall", {})), replies("Unknown.")),
    ]

    def made(llm: Any) -> Any:  # noqa: ANN401  # the library's
        return LlmAgent(name="clerk", model=llm, tools=[keep, recall, load_memory_tool])

    async with served(script, made) as model:
        for context, owner in (("one", "ada"), ("two", "ada"), ("three", "eve")):
            task = await submitter.start("a", "Remember.", context=context, owner=owner)
            assert state(await folded(task)) == "COMPLETED"
    told = [received[-1].text for received in model.conversations]
    assert told[3] == "['Ada', '', 'likes cats']"
    assert "'text': 'Remember.'" in told[4]
    assert told[6] == "['', '', '']"
