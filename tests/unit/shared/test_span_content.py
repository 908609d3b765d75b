"""Spans hold what users, agents and tools say only where that is asked for, and not too much."""

import json
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from typing import Any

import pytest
from opentelemetry.sdk.trace import ReadableSpan

from headrace import (
    Complete,
    Emission,
    Message,
    Retry,
    Retryable,
    RunContext,
    Text,
    ToolArguments,
    ToolError,
    ToolResult,
    agent,
    tool,
    tracing,
)
from headrace.span_content import LIMIT
from headrace.testing import TestFleet
from tests.support.spans import NUMBER, RecordedSpans

IN_SPANS = ["true", "True", "SPAN_ONLY", "span_and_event"]

ELSEWHERE = ["", "false", "NO_CONTENT", "EVENT_ONLY", "yes"]


@pytest.fixture
def spans(monkeypatch: pytest.MonkeyPatch) -> RecordedSpans:
    """The spans of the test."""
    return RecordedSpans(monkeypatch)


@pytest.fixture
def _content() -> Iterator[None]:
    """Content is asked for."""
    with asked("true"):
        yield


def asked(stated: str) -> Any:  # noqa: ANN401  # a context manager
    """Be a process whose environment has the variable with the value `stated`."""
    return tracing.exporting({tracing.CAPTURE_CONTENT: stated}, "headrace-worker")


def value(span: ReadableSpan, name: str) -> Any:  # noqa: ANN401  # any JSON
    """Return the JSON of an attribute."""
    return json.loads(str((span.attributes or {})[name]))


def said(span: ReadableSpan) -> str:
    """Return the text of the span's output messages."""
    [message] = value(span, "gen_ai.output.messages")
    return "".join(part["content"] for part in message["parts"])


@tool
def divide(dividend: int, divisor: int) -> float:
    """Divide."""
    if not divisor:
        raise ToolError("secret refusal")
    return dividend / divisor


@agent()
async def clerk(ctx: RunContext) -> AsyncIterator[Emission]:
    """Says and calls everything that may be in a span."""
    yield "secret "
    yield "words, "
    yield Text("secret block. ", block="b", end=True)
    await ctx.call(divide, dividend=NUMBER, divisor=1)
    with suppress(ToolError):
        await ctx.call(divide, dividend=NUMBER, divisor=0)
    await ctx.emit(ToolArguments("pieces", '{"x":', "stream"))
    await ctx.emit(ToolArguments("pieces", f"{NUMBER}}}", end=True))
    await ctx.emit(ToolResult("pieces", {"y": NUMBER}))
    yield Complete("secret end")


@pytest.mark.parametrize("stated", IN_SPANS)
async def test_on_request_a_span_holds_input_and_output_in_the_conventions_shape(
    spans: RecordedSpans, stated: str
) -> None:
    with asked(stated):
        async with TestFleet([clerk]) as fleet:
            await fleet.send("clerk", "secret question")
    [attempt] = spans.named("invoke_agent clerk")
    assert value(attempt, "gen_ai.input.messages") == [
        {"role": "user", "parts": [{"type": "text", "content": "secret question"}]}
    ]
    whole = "secret words, secret block. secret end"
    assert value(attempt, "gen_ai.output.messages") == [
        {
            "role": "assistant",
            "parts": [{"type": "text", "content": whole}],
            "finish_reason": "stop",
        }
    ]


@pytest.mark.usefixtures("_content")
async def test_on_request_tool_calls_hold_arguments_and_results(spans: RecordedSpans) -> None:
    async with TestFleet([clerk]) as fleet:
        await fleet.send("clerk", "x")
    calls = [*spans.named("execute_tool divide"), *spans.named("execute_tool stream")]
    seen = [
        (value(call, "gen_ai.tool.call.arguments"), value(call, "gen_ai.tool.call.result"))
        for call in calls
    ]
    assert seen[0] == ({"dividend": NUMBER, "divisor": 1}, float(NUMBER))
    assert seen[1][0] == {"dividend": NUMBER, "divisor": 0}
    assert "secret refusal" in seen[1][1]
    assert seen[2] == ({"x": NUMBER}, {"y": NUMBER})


@pytest.mark.parametrize("stated", ELSEWHERE)
async def test_unless_requested_no_span_holds_any_of_it(spans: RecordedSpans, stated: str) -> None:
    with asked(stated):
        async with TestFleet([clerk]) as fleet:
            await fleet.send("clerk", "secret question")
    everything = "".join(span.to_json() for span in spans.all())
    calls = [span.name for span in spans.all() if span.name.startswith("execute_tool ")]
    assert calls == ["execute_tool divide", "execute_tool divide", "execute_tool stream"]
    assert len(spans.named("invoke_agent clerk")) == 1
    assert "secret" not in everything
    assert str(NUMBER) not in everything


@pytest.mark.parametrize("stated", ["true", "false"])
async def test_a_process_that_is_not_headraces_own_captures_by_the_same_variable(
    spans: RecordedSpans, monkeypatch: pytest.MonkeyPatch, stated: str
) -> None:
    monkeypatch.setenv(tracing.CAPTURE_CONTENT, stated)
    async with TestFleet([clerk]) as fleet:
        await fleet.send("clerk", "secret question")
    [attempt] = spans.named("invoke_agent clerk")
    everything = "".join(span.to_json() for span in spans.all())
    assert ("gen_ai.input.messages" in (attempt.attributes or {})) is (stated == "true")
    assert ("secret question" in everything) is (stated == "true")


@pytest.mark.usefixtures("_content")
async def test_what_is_too_long_is_cut_and_reports_it(spans: RecordedSpans) -> None:
    @agent()
    async def verbose(ctx: RunContext) -> AsyncIterator[Emission]:
        for _ in range(40):
            yield "o" * 1000
        await ctx.tool_call("long", {"x": "a" * 40_000}, "call")
        await ctx.emit(ToolResult("call", "r" * 40_000))
        for end in (False, True):
            await ctx.emit(ToolArguments("pieces", "p" * 10_000, "long", end=end))
        await ctx.emit(ToolResult("pieces", 1))

    async with TestFleet([verbose]) as fleet:
        await fleet.send("verbose", "i" * 40_000)
    [attempt] = spans.named("invoke_agent verbose")
    whole, pieces = spans.named("execute_tool long")
    cut = f"… [{40_000 - LIMIT} more characters]"
    [asked_] = value(attempt, "gen_ai.input.messages")
    assert [part["content"] for part in asked_["parts"]] == ["i" * LIMIT, cut]
    assert said(attempt) == "o" * LIMIT + cut
    for name in ("arguments", "result"):
        assert value(whole, f"gen_ai.tool.call.{name}")[LIMIT:].startswith("… [")
    streamed = value(pieces, "gen_ai.tool.call.arguments")
    assert streamed == "p" * LIMIT + f"… [{20_000 - LIMIT} more characters]"


@pytest.mark.usefixtures("_content")
async def test_each_attempt_holds_what_it_emitted_itself(spans: RecordedSpans) -> None:
    @agent(retry=Retry(backoff=0.01))
    async def flaky(ctx: RunContext) -> AsyncIterator[Emission]:
        yield f"try {ctx.attempt}"
        if ctx.attempt == 1:
            raise Retryable("not now")

    async with TestFleet([flaky]) as fleet:
        await fleet.send("flaky", "x")
    found = spans.named("invoke_agent flaky")
    assert [said(span) for span in found] == ["try 1", "try 2"]
    reasons = [value(span, "gen_ai.output.messages")[0]["finish_reason"] for span in found]
    assert reasons == ["error", "stop"]


@pytest.mark.usefixtures("_content")
async def test_a_bare_message_is_output_and_parts_of_the_input_are_distinguished(
    spans: RecordedSpans,
) -> None:
    @agent(bare_message=True)
    async def short(_: RunContext) -> Message:
        return Message("brief")

    asked_ = {
        "messageId": "m",
        "role": "ROLE_USER",
        "parts": [
            {"data": {"n": 1}},
            {"raw": "c2VjcmV0", "filename": "a.png", "mediaType": "image/png"},
        ],
    }
    async with TestFleet([short]) as fleet:
        await fleet.send("short", asked_)
    [attempt] = spans.named("invoke_agent short")
    assert said(attempt) == "brief"
    [message] = value(attempt, "gen_ai.input.messages")
    assert message["parts"] == [
        {"type": "data", "content": '{"n":1}'},
        {"type": "file_name", "content": '{"name":"a.png","mime_type":"image/png"}'},
    ]
