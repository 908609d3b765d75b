"""The calls of models by agents of the frameworks are spans of the attempt."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind

from headrace import Retry
from headrace.sdk.agent import Agent
from tests.integration.worker.adapters.behaviour import until_printed
from tests.integration.worker.adapters.gemini_wire import MODEL, gemini_model
from tests.integration.worker.adapters.test_google_adk import gemini
from tests.integration.worker.adapters.wire import Refuses, Script, calls, chat_model, replies
from tests.integration.worker.conftest import Working
from tests.support.log_reading import folded, state
from tests.support.spans import RecordedSpans, parent, traceparent
from tests.support.task_submitter import TaskSubmitter

LOOKS = calls(("c1", "look", {}))


def look() -> str:
    """Look around."""
    return "a wall"


def agents_sdk(url: str) -> Agent:
    """Return an agent of the OpenAI Agents SDK."""
    from agents import Agent as SdkAgent
    from agents import OpenAIChatCompletionsModel, function_tool
    from openai import AsyncOpenAI

    from headrace.adapters import openai_agents_agent

    client = AsyncOpenAI(base_url=url, api_key="k", max_retries=0)
    wrapped: SdkAgent[Any] = SdkAgent(
        "a", model=OpenAIChatCompletionsModel("small", client), tools=[function_tool(look)]
    )
    return openai_agents_agent(wrapped, name="a", memory="task", retry=Retry(backoff=0.0))


def langgraph(url: str) -> Agent:
    """Return an agent of LangGraph."""
    from langchain.agents import create_agent
    from langchain_openai import ChatOpenAI

    from headrace.adapters import langgraph_agent

    request: Any = {"model": "small", "base_url": url, "api_key": "k", "max_retries": 0}
    graph: Any = create_agent(ChatOpenAI(**request, stream_usage=True), [look])
    return langgraph_agent(graph, name="a", memory="task", retry=Retry(backoff=0.0))


def pydantic(url: str) -> Agent:
    """Return an agent of pydantic-ai."""
    from openai import AsyncOpenAI
    from pydantic_ai import Agent as PydanticAgent
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.providers.openai import OpenAIProvider

    from headrace.adapters import pydantic_ai_agent

    client = AsyncOpenAI(base_url=url, api_key="k", max_retries=0)
    model = OpenAIChatModel("small", provider=OpenAIProvider(openai_client=client))
    return pydantic_ai_agent(
        PydanticAgent(model, tools=[look]), name="a", memory="task", retry=Retry(backoff=0.0)
    )


ADAPTERS = pytest.mark.parametrize("made", [agents_sdk, langgraph, pydantic])


@pytest.fixture
def spans(monkeypatch: pytest.MonkeyPatch) -> RecordedSpans:
    """The spans of the test."""
    return RecordedSpans(monkeypatch)


@asynccontextmanager
async def serving(
    working: Working, made: Callable[[str], Agent], script: Script
) -> AsyncIterator[None]:
    """Serve an agent whose model follows the script."""
    async with chat_model(script) as model, working(made(model.url)):
        yield


def of_calls(spans: RecordedSpans) -> list[ReadableSpan]:
    """Return the spans of the model's calls."""
    found = spans.named("chat small")
    assert all(span.kind is SpanKind.CLIENT for span in found)
    return found


@ADAPTERS
async def test_each_call_is_a_span_of_the_attempt_with_its_tokens(
    submitter: TaskSubmitter, working: Working, spans: RecordedSpans, made: Callable[[str], Agent]
) -> None:
    async with serving(working, made, [LOOKS, replies("A wall."), replies("Again.")]):
        for words in ("Look.", "And now?"):
            assert state(await folded(await submitter.start("a", words))) == "COMPLETED"
    found = of_calls(spans)
    first, second = spans.named("invoke_agent a")
    above = [traceparent(first), traceparent(first), traceparent(second)]
    assert [parent(span) for span in found] == above
    for span in found:
        attributes = dict(span.attributes or {})
        response_model = attributes.pop("gen_ai.response.model", "small")
        assert (attributes, response_model) == (
            {
                "gen_ai.operation.name": "chat",
                "gen_ai.provider.name": "openai",
                "gen_ai.request.model": "small",
                "gen_ai.usage.input_tokens": 10,
                "gen_ai.usage.output_tokens": 5,
            },
            "small",
        )


@ADAPTERS
async def test_a_call_that_fails_is_an_errors_span_and_the_next_attempts_is_another(
    submitter: TaskSubmitter, working: Working, spans: RecordedSpans, made: Callable[[str], Agent]
) -> None:
    async with serving(working, made, [Refuses(500), replies("x"), Refuses(500), replies("y")]):
        for words in ("One.", "Two."):
            assert state(await folded(await submitter.start("a", words))) == "COMPLETED"
    found = of_calls(spans)
    attempts = spans.named("invoke_agent a")
    assert [parent(span) for span in found] == [traceparent(span) for span in attempts]
    kinds = [(span.attributes or {}).get("error.type") for span in found]
    assert [kind is not None for kind in kinds] == [True, False, True, False]
    assert all(kind != "_OTHER" for kind in kinds)


@ADAPTERS
async def test_a_call_that_the_user_cancels_is_ended(
    submitter: TaskSubmitter, working: Working, spans: RecordedSpans, made: Callable[[str], Agent]
) -> None:
    async with chat_model([replies("Well,", hangs=True)]) as model, working(made(model.url)):
        task = await submitter.start("a", "Go on.")
        await until_printed(task, "Well,")
        await task.held()
        await task.ask("cancel")
        assert state(await folded(task)) == "CANCELED"
        await model.until_left()
    [call] = of_calls(spans)
    assert "error.type" in (call.attributes or {})


async def test_a_call_is_one_span_where_pydantic_ai_is_instrumented_itself(
    submitter: TaskSubmitter, working: Working, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pydantic_ai import Agent as PydanticAgent
    from pydantic_ai.models.instrumented import InstrumentationSettings

    provider = TracerProvider()
    spans = RecordedSpans(monkeypatch, provider)
    settings = InstrumentationSettings(tracer_provider=provider)
    monkeypatch.setattr(PydanticAgent, "_instrument_default", settings)
    async with serving(working, pydantic, [LOOKS, replies("A wall.")]):
        assert state(await folded(await submitter.start("a", "Look."))) == "COMPLETED"
    made = spans.of_libraries("chat small")
    assert (len(made), spans.named("chat small")) == (2, [])
    [attempt] = spans.named("invoke_agent a")
    assert attempt.context is not None
    traces = {span.context.trace_id for span in made if span.context is not None}
    assert traces == {attempt.context.trace_id}


async def test_adks_own_spans_are_of_the_attempt_and_hold_no_content(
    submitter: TaskSubmitter,
    working: Working,
    spans: RecordedSpans,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from google.adk.agents import LlmAgent
    from google.adk.telemetry import tracing as adk_tracing

    from headrace.adapters import adk_agent

    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    # A process' provider can be set only once.
    monkeypatch.setattr(adk_tracing, "tracer", provider.get_tracer("adk"))
    async with gemini_model([replies("secret one"), replies("secret two")]) as model:
        wrapped = LlmAgent(name="a", instruction="secret rule", model=gemini(model.url))
        async with working(adk_agent(wrapped, name="a", memory="task")):
            for words in ("secret ask", "secret again"):
                assert state(await folded(await submitter.start("a", words))) == "COMPLETED"
    ended = exporter.get_finished_spans()
    found = [span for span in ended if span.name == f"generate_content {MODEL}"]
    attempts = spans.named("invoke_agent a")
    assert len(found) == len(attempts) == 2
    for span, attempt in zip(found, attempts, strict=True):
        assert span.context is not None
        assert attempt.context is not None
        assert span.context.trace_id == attempt.context.trace_id
        attributes = dict(span.attributes or {})
        assert attributes["gen_ai.request.model"] == MODEL
        assert attributes["gen_ai.usage.input_tokens"] == 10
        assert attributes["gen_ai.usage.output_tokens"] == 5
    assert "secret" not in "".join(span.to_json() for span in ended)
