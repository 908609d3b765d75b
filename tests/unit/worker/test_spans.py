"""What the spans of attempts descend from, link to and record."""

from collections.abc import AsyncIterator
from contextlib import suppress

import pytest
from opentelemetry import trace

from headrace import (
    Emission,
    Retry,
    Retryable,
    RunContext,
    ToolArguments,
    ToolError,
    ToolResult,
    Usage,
    agent,
    tool,
    tracing,
)
from headrace.model.memory import MemoryChanged
from headrace.testing import TestFleet
from tests.support.spans import NUMBER, RecordedSpans, links, parent, traceparent

INVOKE = "invoke_agent "


@pytest.fixture
def spans(monkeypatch: pytest.MonkeyPatch) -> RecordedSpans:
    """The spans of the test."""
    return RecordedSpans(monkeypatch)


@agent()
async def leaf(_: RunContext) -> str:
    """Says its trace context, as an instrumented library finds it."""
    return f"{tracing.traceparent_of(trace.get_current_span())}"


@agent()
async def root(ctx: RunContext) -> str:
    """Says its trace context and its child's."""
    return f"{ctx.traceparent} {(await ctx.delegate('leaf', 'x')).text}"


async def test_an_attempt_is_a_span_of_the_genai_conventions(spans: RecordedSpans) -> None:
    @agent()
    async def thrifty(_: RunContext) -> AsyncIterator[Emission]:
        yield "secret"
        yield Usage(model="small", input_tokens=3, output_tokens=4)
        yield Usage(model="small", input_tokens=10, output_tokens=20)

    async with TestFleet([thrifty]) as fleet:
        result = await fleet.send("thrifty", "whisper")
    [span] = spans.named(INVOKE + "thrifty")
    attributes = dict(span.attributes or {})
    conversation = attributes.pop("gen_ai.conversation.id")
    assert conversation
    assert attributes == {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.agent.name": "thrifty",
        "gen_ai.usage.input_tokens": 13,
        "gen_ai.usage.output_tokens": 24,
        "gen_ai.response.model": "small",
        "headrace.task.id": result.task["id"],
        "headrace.run": 1,
        "headrace.attempt": 1,
        "headrace.task.state": "TASK_STATE_COMPLETED",
    }
    assert span.instrumentation_scope is not None
    assert span.instrumentation_scope.schema_url == "https://opentelemetry.io/schemas/1.41.0"


async def test_a_childs_attempt_is_below_its_parents_attempt(spans: RecordedSpans) -> None:
    async with TestFleet([root, leaf]) as fleet:
        result = await fleet.send("root", "x")
    [above], [below] = spans.named(INVOKE + "root"), spans.named(INVOKE + "leaf")
    assert result.text == f"{traceparent(above)} {traceparent(below)}"
    assert (parent(above), parent(below)) == (None, traceparent(above))


async def test_an_attempt_links_to_the_one_before_and_states_why_that_failed(
    spans: RecordedSpans,
) -> None:
    @agent(retry=Retry(backoff=0.01, on=(TimeoutError,)))
    async def flaky(ctx: RunContext) -> str:
        match ctx.attempt:
            case 1:
                raise Retryable("not now")
            case 2:
                raise TimeoutError("secret")
            case _:
                raise ValueError("secret")

    async with TestFleet([flaky]) as fleet:
        await fleet.send("flaky", "x")
    attempts = spans.named(INVOKE + "flaky")
    first, second, _ = map(traceparent, attempts)
    assert [*map(links, attempts)] == [[], [first], [second]]
    kinds = [(span.attributes or {}).get("error.type") for span in attempts]
    assert kinds == ["Retryable", "TimeoutError", "ValueError"]
    assert not any("secret" in span.to_json() for span in attempts)


async def test_tool_calls_are_spans_below_the_attempt_without_their_content(
    spans: RecordedSpans,
) -> None:
    @tool
    def divide(dividend: int, divisor: int) -> float:
        return dividend / divisor

    @agent()
    async def clerk(ctx: RunContext) -> str:
        await ctx.call(divide, dividend=NUMBER, divisor=1)
        with suppress(ToolError):
            await ctx.call(divide, dividend=NUMBER, divisor=0)
        await ctx.emit(ToolArguments("pieces", '{"x":', "stream"))
        await ctx.emit(ToolArguments("pieces", f"{NUMBER}}}", end=True))
        await ctx.emit(ToolResult("pieces", NUMBER))
        await ctx.tool_call("clients_own", {"x": NUMBER})
        return "done"

    async with TestFleet([clerk]) as fleet:
        await fleet.send("clerk", "x")
    [attempt] = spans.named(INVOKE + "clerk")
    calls = [span for span in spans.all() if span.name.startswith("execute_tool ")]
    seen = [(call.name, (call.attributes or {}).get("error.type")) for call in calls]
    assert seen == [
        ("execute_tool divide", None),
        ("execute_tool divide", "_OTHER"),
        ("execute_tool stream", None),
    ]
    assert {parent(call) for call in calls} == {traceparent(attempt)}
    assert dict(calls[2].attributes or {}) == {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "stream",
        "gen_ai.tool.call.id": "pieces",
    }
    assert str(NUMBER) not in "".join(call.to_json() for call in calls)


async def test_without_traces_agents_get_the_trace_context_of_the_request() -> None:
    async with TestFleet([root, leaf]) as fleet:
        result = await fleet.send("root", "x")
    assert result.text == "None None"


async def test_a_write_to_the_memory_is_a_span(spans: RecordedSpans) -> None:
    @agent
    async def writing(ctx: RunContext) -> None:
        await ctx.memory.save("secret key", 1)
        with suppress(MemoryChanged):
            await ctx.memory.of_task.put("n", b"1", revision=7)

    async with TestFleet([writing]) as fleet:
        await fleet.send("writing", "x")
    [saved, refused] = spans.named("memory write")
    [attempt] = spans.named(INVOKE + "writing")
    assert parent(saved) == parent(refused) == traceparent(attempt)
    assert dict(saved.attributes or {}) == {"headrace.memory.of": "conversation"}
    assert (refused.attributes or {})["error.type"] == "MemoryChanged"


async def test_a_step_is_a_span_and_its_function_s_are_below_it(spans: RecordedSpans) -> None:
    @agent(retry=Retry(backoff=0.0))
    async def stepping(ctx: RunContext) -> str:
        found = await ctx.step("look", lambda: tracing.traceparent_of(trace.get_current_span()))
        with suppress(OSError):
            await ctx.step("fail", fail)
        if ctx.attempt == 1:
            raise Retryable
        return f"{found}"

    def fail() -> None:
        raise OSError

    async with TestFleet([stepping]) as fleet:
        result = await fleet.send("stepping", "x")
    [look], [attempt, _] = spans.named("step look"), spans.named(INVOKE + "stepping")
    assert result.text == traceparent(look)
    assert parent(look) == traceparent(attempt)
    assert (look.attributes or {})["headrace.step.name"] == "look"
    failed = [(span.attributes or {})["error.type"] for span in spans.named("step fail")]
    assert failed == ["OSError", "OSError"]
