"""What users of the OpenAI Agents SDK write at home and find unchanged here."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest
from pydantic import BaseModel

from headrace import Retry, RunContext
from headrace.sdk.errors import Retryable
from tests.integration.worker.adapters.behaviour import answered, approval, interrupts
from tests.integration.worker.adapters.wire import (
    ChatModel,
    ModelOutput,
    Refuses,
    Script,
    calls,
    chat_model,
    replies,
)
from tests.integration.worker.conftest import Working
from tests.support.chat_stub import Reply, chat_stub, deltas
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
    from agents import OpenAIChatCompletionsModel


@asynccontextmanager
async def model(script: Script) -> "AsyncIterator[tuple[ChatModel, OpenAIChatCompletionsModel]]":
    """Serve a model for the length of a block."""
    from agents import OpenAIChatCompletionsModel
    from openai import AsyncOpenAI

    async with chat_model(script) as served:
        client = AsyncOpenAI(base_url=served.url, api_key="k")
        yield served, OpenAIChatCompletionsModel("small", client)


class Shape(BaseModel):
    """An answer in a shape."""

    sides: int


async def test_the_example_hands_over_and_answers(
    submitter: TaskSubmitter, working: Working
) -> None:
    script = [calls(("h1", "transfer_to_refunds", {})), replies("Refunded.")]
    async with (
        chat_model(script) as served,
        working(example("agents_handoff", URL=served.url).desk),
    ):
        done = await folded(await submitter.start("desk", "My money!"))
    assert (state(done), answer(done)) == ("COMPLETED", "Refunded.")
    assert [name for name, _ in called(done)] == ["transfer_to_refunds"]


@pytest.mark.parametrize("made", [False, True], ids=["agent", "handoff"])
async def test_the_agent_that_was_handed_over_to_goes_on(
    submitter: TaskSubmitter, working: Working, *, made: bool
) -> None:
    from agents import Agent as SdkAgent
    from agents import function_tool, handoff

    from headrace.adapters import openai_agents_agent

    script = [
        calls(("h1", "transfer_to_refunds", {})),
        calls(("c1", "refund", {"order": "A1"})),
        replies("Done."),
    ]
    refunded: list[str] = []

    def refund(order: str) -> str:
        """Refund an order."""
        refunded.append(order)
        return "refunded"

    async with model(script) as (served, llm):
        tools = [function_tool(refund, needs_approval=True)]
        target: SdkAgent[None] = SdkAgent(
            "refunds", instructions="Refund.", model=llm, tools=[*tools]
        )
        over = handoff(target) if made else target
        entry: SdkAgent[None] = SdkAgent(
            "desk", instructions="Hand over.", model=llm, handoffs=[over]
        )
        async with working(openai_agents_agent(entry, name="a", memory="task")):
            task = await submitter.start("a", "Refund A1.")
            [interrupt] = await interrupts(task)
            done = await answered(task, approval(interrupt["id"], {"approved": True}))
    assert speakers(done) == [
        ("started", "refunds"),
        ("finished", "suspended"),
        ("started", "refunds"),
        ("finished", "success"),
    ]
    assert (state(done), answer(done), refunded) == ("COMPLETED", "Done.", ["A1"])
    assert [content for content, _ in results(done)] == ['{"assistant": "refunds"}', "refunded"]
    systems = [request["messages"][0]["content"] for request in served.requests]
    assert systems == ["Hand over.", "Refund.", "Refund."]


async def test_agents_that_hand_over_to_each_other_may_number_their_calls_alike(
    submitter: TaskSubmitter, working: Working
) -> None:
    from agents import Agent as SdkAgent
    from agents import function_tool

    from headrace.adapters import openai_agents_agent

    names = ["transfer_to_refunds", "refund", "transfer_to_desk"]
    script = [*(calls(("c1", name, {})) for name in names), replies("Done.")]
    refunded: list[str] = []

    def refund() -> str:
        """Refund the order."""
        refunded.append("A1")
        return "refunded"

    async with model(script) as (served, llm):
        target: SdkAgent[None] = SdkAgent("refunds", model=llm, tools=[function_tool(refund)])
        entry: SdkAgent[None] = SdkAgent("desk", model=llm, handoffs=[target])
        target.handoffs.append(entry)
        async with working(openai_agents_agent(entry, name="a", memory="task")):
            task = await submitter.start("a", "Refund A1.")
            log = await task.ended()
            done = await folded(task)
    assert (state(done), answer(done), refunded) == ("COMPLETED", "Done.", ["A1"])
    assert max(entry.stamp.attempt for entry in log) == 1
    assert [name for name, _ in called(done)] == names
    results = [received for received in served.conversations[-1] if received.role == "tool"]
    assert len({received.answers for received in results}) == len(names)


async def test_a_retry_goes_on_with_the_agent_that_was_handed_over_to(
    submitter: TaskSubmitter, working: Working
) -> None:
    from agents import Agent as SdkAgent

    from headrace.adapters import openai_agents_agent

    over = calls(("h1", "transfer_to_refunds", {}))
    script: list[ModelOutput] = [over, *[Refuses(429)] * 3, replies("Done.")]
    async with model(script) as (served, llm):
        target: SdkAgent[None] = SdkAgent("refunds", instructions="Refund.", model=llm)
        entry: SdkAgent[None] = SdkAgent(
            "desk", instructions="Hand over.", model=llm, handoffs=[target]
        )
        served_agent = openai_agents_agent(entry, name="a", memory="task", retry=Retry(backoff=0.0))
        async with working(served_agent):
            done = await folded(await submitter.start("a", "Refund A1."))
    assert (state(done), answer(done)) == ("COMPLETED", "Done.")
    systems = [request["messages"][0]["content"] for request in served.requests]
    assert systems == ["Hand over.", *["Refund."] * 4]
    assert [received.line for received in served.conversations[4]] == [
        received.line for received in served.conversations[1]
    ]


async def test_a_tool_that_is_an_agent_answers_and_its_own_approvals_are_refused_clearly(
    submitter: TaskSubmitter, working: Working
) -> None:
    from agents import Agent as SdkAgent
    from agents import function_tool

    from headrace.adapters import openai_agents_agent

    def pay() -> str:
        """Pay."""
        return "paid"

    script = [
        calls(("c1", "ask_payer", {"input": "Pay."})),
        replies("I paid."),
        replies("Done."),
        calls(("c2", "ask_payer", {"input": "Pay."})),
        calls(("n1", "pay", {})),
    ]
    async with model(script) as (_, llm):
        inner: SdkAgent[None] = SdkAgent(
            "payer", model=llm, tools=[function_tool(pay, needs_approval=True)]
        )
        outer: SdkAgent[None] = SdkAgent(
            "a",
            model=llm,
            tools=[inner.as_tool("ask_payer", "Ask the payer.", on_stream=lambda _: None)],
        )
        async with working(openai_agents_agent(outer, name="a", memory="task")):
            done = await folded(await submitter.start("a", "Pay."))
            failed = await folded(await submitter.start("a", "Pay."))
    assert (state(done), answer(done)) == ("COMPLETED", "Done.")
    assert [content for content, _ in results(done)] == ["I paid."]
    assert state(failed) == "FAILED"
    assert "needs approval" in str(failed["status"]["message"])


async def test_text_beside_an_approval_is_sent_after_the_result(
    submitter: TaskSubmitter, working: Working
) -> None:
    from agents import Agent as SdkAgent
    from agents import function_tool

    from headrace.adapters import openai_agents_agent

    def pay() -> str:
        """Pay."""
        return "paid"

    script = [calls(("c1", "pay", {})), calls(("c2", "pay", {})), replies("Done.")]
    async with model(script) as (served, llm):
        wrapped: SdkAgent[None] = SdkAgent(
            "a", model=llm, tools=[function_tool(pay, needs_approval=True)]
        )
        async with working(openai_agents_agent(wrapped, name="a", memory="task")):
            task = await submitter.start("a", "Pay.")
            [interrupt] = await interrupts(task)
            part = approval(interrupt["id"], {"approved": True})
            await answered(task, part, more=[{"text": "And again."}])
    assert [received.line for received in served.conversations[1]][-2:] == [
        "tool: paid",
        "user: And again.",
    ]


async def test_reasoning_is_shown(submitter: TaskSubmitter, working: Working) -> None:
    from agents import Agent as SdkAgent
    from agents import OpenAIChatCompletionsModel
    from openai import AsyncOpenAI

    from headrace.adapters import openai_agents_agent

    outputs: list[dict[str, Any]] = [{"reasoning_content": "Hm."}, {"content": "Six."}]
    async with chat_stub(Reply(deltas(*outputs))) as stub:
        client = AsyncOpenAI(base_url=stub.url, api_key="k")
        llm = OpenAIChatCompletionsModel("deepseek-small", client)
        wrapped: SdkAgent[None] = SdkAgent("a", model=llm)
        async with working(openai_agents_agent(wrapped, name="a", memory="task")):
            done = await folded(await submitter.start("a", "How many?"))
    assert (thoughts(done), answer(done)) == ("Hm.", "Six.")


async def test_a_structured_answer_that_was_kept_is_emitted_by_the_next_attempt(
    submitter: TaskSubmitter, working: Working, monkeypatch: pytest.MonkeyPatch
) -> None:
    from agents import Agent as SdkAgent

    from headrace.adapters import openai_agents_agent
    from headrace.adapters.openai_agents.events import AgentsEvents

    failures = [Retryable("once")]
    whole = AgentsEvents.end

    async def end(self: AgentsEvents, *, suspended: bool = False) -> None:
        if failures:
            raise failures.pop()
        await whole(self, suspended=suspended)

    monkeypatch.setattr(AgentsEvents, "end", end)
    async with model([replies('{"sides": 6}')]) as (served, llm):
        wrapped: SdkAgent[None] = SdkAgent("a", model=llm, output_type=Shape)
        served_agent = openai_agents_agent(
            wrapped, name="a", memory="task", retry=Retry(backoff=0.0)
        )
        async with working(served_agent):
            done = await folded(await submitter.start("a", "How many?"))
    [artifact] = done["artifacts"]
    assert artifact["parts"][0]["data"] == {"sides": 6}
    assert len(served.requests) == 1


@pytest.mark.parametrize("image_urls", [False, True])
async def test_the_model_gets_links_of_images_only_if_allowed(
    submitter: TaskSubmitter, working: Working, *, image_urls: bool
) -> None:
    from agents import Agent as SdkAgent

    from headrace.adapters import openai_agents_agent

    url = "http://169.254.169.254/latest/meta-data/a.jpg"
    message: dict[str, Any] = {
        "messageId": "m",
        "role": "ROLE_USER",
        "parts": [{"text": "Look."}, {"url": url, "mediaType": "image/jpeg"}],
    }
    async with model([replies("Nice.")]) as (served, llm):
        wrapped: SdkAgent[None] = SdkAgent("a", model=llm)
        async with working(
            openai_agents_agent(wrapped, name="a", memory="task", image_urls=image_urls)
        ):
            await (await submitter.start("a", message=message)).ended()
    [sent] = [one for one in served.requests[0]["messages"] if one["role"] == "user"]
    linked = {"type": "image_url", "image_url": {"url": url, "detail": "auto"}}
    with_link = [{"type": "text", "text": "Look."}, linked]
    assert sent["content"] == (with_link if image_urls else f"Look.[file {url}]")


async def test_images_that_a_tool_returns_are_sent_again(
    submitter: TaskSubmitter, working: Working
) -> None:
    from agents import Agent as SdkAgent
    from agents import ToolOutputImage, ToolOutputText, function_tool

    from headrace.adapters import openai_agents_agent

    image = ToolOutputImage(image_url="data:image/png;base64,iVBO")

    def look(words: str = "") -> object:
        return [ToolOutputText(text=words), image] if words else image

    both = calls(("c1", "look", {}), ("c2", "look", {"words": "Again."}))
    script: list[ModelOutput] = [both, *[Refuses(429)] * 4, replies("Nice.")]
    async with model(script) as (served, llm):
        wrapped: SdkAgent[None] = SdkAgent("a", model=llm, tools=[function_tool(look)])
        async with working(
            openai_agents_agent(wrapped, name="a", memory="task", retry=Retry(backoff=0.0))
        ):
            done = await folded(await submitter.start("a", "Look."))
    assert (state(done), answer(done)) == ("COMPLETED", "Nice.")
    # What runs side by side ends in any order.
    first, retold = (sorted(served.requests[n]["messages"], key=str) for n in (1, -1))
    assert retold == first
    assert sorted(results(done), key=str) == [("Again.\n[image]", ""), ("[image]", "")]


@pytest.mark.parametrize("fails", [False, True], ids=["at once", "in the next attempt"])
async def test_a_tools_result_can_be_the_answer(
    submitter: TaskSubmitter, working: Working, monkeypatch: pytest.MonkeyPatch, *, fails: bool
) -> None:
    from agents import Agent as SdkAgent
    from agents import function_tool

    from headrace.adapters import openai_agents_agent
    from headrace.adapters.openai_agents.events import AgentsEvents

    failures = [Retryable("once")] * fails
    whole, carried_out = AgentsEvents.end, list[str]()

    async def end(self: AgentsEvents, *, suspended: bool = False) -> None:
        if failures:
            raise failures.pop()
        await whole(self, suspended=suspended)

    def price(item: str) -> str:
        carried_out.append(item)
        return f"{item} costs 3"

    monkeypatch.setattr(AgentsEvents, "end", end)
    async with model([calls(("c1", "price", {"item": "tea"}))]) as (served, llm):
        wrapped: SdkAgent[None] = SdkAgent(
            "a", model=llm, tools=[function_tool(price)], tool_use_behavior="stop_on_first_tool"
        )
        async with working(
            openai_agents_agent(wrapped, name="a", memory="task", retry=Retry(backoff=0.0))
        ):
            done = await folded(await submitter.start("a", "What is tea?"))
    assert (state(done), answer(done)) == ("COMPLETED", "tea costs 3")
    assert (carried_out, len(served.requests)) == (["tea"], 1)


async def test_output_of_a_shape_is_data_and_usage_is_counted(
    submitter: TaskSubmitter, working: Working
) -> None:
    from agents import Agent as SdkAgent

    from headrace.adapters import openai_agents_agent

    async with model([replies('{"sides"', ": 6}")]) as (_, llm):
        wrapped: SdkAgent[None] = SdkAgent("a", model=llm, output_type=Shape)
        async with working(openai_agents_agent(wrapped, name="a", memory="task")):
            done = await folded(await submitter.start("a", "How many?"))
    [artifact] = done["artifacts"]
    assert artifact["parts"][0]["data"] == {"sides": 6}
    assert done["metadata"]["tokens_used"] == 15


async def test_tools_get_the_runs_context_and_guardrails_reject(
    submitter: TaskSubmitter, working: Working
) -> None:
    from agents import Agent as SdkAgent
    from agents import (
        GuardrailFunctionOutput,
        RunContextWrapper,
        TResponseInputItem,
        function_tool,
        input_guardrail,
    )

    from headrace.adapters import openai_agents_agent

    @function_tool
    def whoami(ctx: RunContextWrapper[RunContext]) -> str:
        """Tell who asks."""
        return ctx.context.owner

    @input_guardrail
    def polite(
        ctx: RunContextWrapper[RunContext],
        agent: SdkAgent[RunContext],
        output: str | list[TResponseInputItem],
    ) -> GuardrailFunctionOutput:
        del ctx, agent
        return GuardrailFunctionOutput(None, tripwire_triggered="damn" in str(output))

    script = [calls(("c1", "whoami", {})), replies("You."), replies("x")]
    async with model(script) as (served, llm):
        wrapped = SdkAgent("a", model=llm, tools=[whoami], input_guardrails=[polite])
        async with working(openai_agents_agent(wrapped, name="a", memory="task")):
            await folded(await submitter.start("a", "Who?", owner="ada"))
            rejected = await folded(await submitter.start("a", "damn"))
    assert served.conversations[1][-1].text == "ada"
    assert state(rejected) == "REJECTED"


async def test_nothing_is_traced(submitter: TaskSubmitter, working: Working) -> None:
    from agents import Agent as SdkAgent
    from agents import trace
    from agents.tracing import TracingProcessor, set_trace_processors

    from headrace.adapters import openai_agents_agent

    class Seen(TracingProcessor):
        traces = 0

        def on_trace_start(self, trace: object) -> None:
            del trace
            self.traces += 1

        def on_trace_end(self, trace: object) -> None: ...

        def on_span_start(self, span: object) -> None: ...

        def on_span_end(self, span: object) -> None: ...

        def shutdown(self) -> None: ...

        def force_flush(self) -> None: ...

    seen = Seen()
    set_trace_processors([seen])
    try:
        async with model([replies("x")]) as (_, llm):
            wrapped: SdkAgent[None] = SdkAgent("a", model=llm)
            async with working(openai_agents_agent(wrapped, name="a", memory="task")):
                await folded(await submitter.start("a", "x"))
        assert seen.traces == 0
        with trace("control"):
            pass
        assert seen.traces == 1
    finally:
        set_trace_processors([])
