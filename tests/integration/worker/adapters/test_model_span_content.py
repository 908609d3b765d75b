"""Spans of model calls hold what is said to models and by them only where that is asked for."""

import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from opentelemetry.sdk.trace import ReadableSpan

from headrace import Retry, tool, tracing
from headrace.sdk.agent import Agent
from headrace.span_content import LIMIT
from tests.integration.worker.adapters.wire import calls, chat_model, replies
from tests.integration.worker.conftest import Working
from tests.support.log_reading import folded, state
from tests.support.spans import RecordedSpans
from tests.support.task_submitter import TaskSubmitter

RULE = "secret rule"
LOOKS = calls(("c1", "look", {"where": "secret place"}))


def look(where: str) -> str:
    """Look around."""
    return f"secret wall of {where}"


def chat(url: str) -> Agent:
    """Return an agent of the adapter for chat endpoints."""
    from headrace.adapters import openai_agent

    given: Any = {
        "base_url": url,
        "api_key": "k",
        "memory": "task",
        "retry": Retry(backoff=0.0),
        "request_retries": 0,
    }
    return openai_agent(name="a", model="small", instruction=RULE, tools=[tool(look)], **given)


def agents_sdk(url: str) -> Agent:
    """Return an agent of the OpenAI Agents SDK."""
    from agents import Agent as SdkAgent
    from agents import OpenAIChatCompletionsModel, function_tool
    from openai import AsyncOpenAI

    from headrace.adapters import openai_agents_agent

    client = AsyncOpenAI(base_url=url, api_key="k", max_retries=0)
    model = OpenAIChatCompletionsModel("small", client)
    wrapped: SdkAgent[Any] = SdkAgent(
        "a", model=model, instructions=RULE, tools=[function_tool(look)]
    )
    return openai_agents_agent(wrapped, name="a", memory="task", retry=Retry(backoff=0.0))


def langgraph(url: str) -> Agent:
    """Return an agent of LangGraph."""
    from langchain.agents import create_agent
    from langchain_openai import ChatOpenAI

    from headrace.adapters import langgraph_agent

    request: Any = {"model": "small", "base_url": url, "api_key": "k", "max_retries": 0}
    graph: Any = create_agent(ChatOpenAI(**request, stream_usage=True), [look], system_prompt=RULE)
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
    wrapped = PydanticAgent(model, instructions=RULE, tools=[look])
    return pydantic_ai_agent(wrapped, name="a", memory="task", retry=Retry(backoff=0.0))


ADAPTERS = pytest.mark.parametrize("made", [chat, agents_sdk, langgraph, pydantic])


@pytest.fixture
def spans(monkeypatch: pytest.MonkeyPatch) -> RecordedSpans:
    """The spans of the test."""
    return RecordedSpans(monkeypatch)


@asynccontextmanager
async def asked(stated: str) -> AsyncIterator[None]:
    """Be a process whose environment has the variable with the value `stated`."""
    with tracing.exporting({tracing.CAPTURE_CONTENT: stated}, "headrace-worker"):
        yield


async def ran(
    submitter: TaskSubmitter, working: Working, made: Callable[[str], Agent], question: str
) -> None:
    """Have the agent answer, by a tool's call and a response."""
    async with chat_model([LOOKS, replies("secret ", "answer")]) as model, working(made(model.url)):
        task = await submitter.start("a", question)
        assert state(await folded(task)) == "COMPLETED"


def messages(span: ReadableSpan, name: str) -> Any:  # noqa: ANN401  # any JSON
    """Return the JSON of an attribute."""
    return json.loads(str((span.attributes or {}).get(f"gen_ai.{name}", "[]")))


def text(role: str, content: str) -> Any:  # noqa: ANN401  # any JSON
    """Return a message of one text."""
    return {"role": role, "parts": [{"type": "text", "content": content}]}


@ADAPTERS
async def test_on_request_a_call_holds_the_conversation_and_the_response(
    submitter: TaskSubmitter, working: Working, spans: RecordedSpans, made: Callable[[str], Agent]
) -> None:
    async with asked("true"):
        await ran(submitter, working, made, "secret question")
    first, second = spans.named("chat small")
    rule = messages(first, "system_instructions") or messages(first, "input.messages")[0]["parts"]
    assert rule == [{"type": "text", "content": RULE}]
    asked_first, asked_second = (
        [one for one in messages(call, "input.messages") if one["role"] != "system"]
        for call in (first, second)
    )
    assert asked_first == [text("user", "secret question")]
    question, called, answered = asked_second
    assert question == text("user", "secret question")
    [call], [result] = called["parts"], answered["parts"]
    assert (called["role"], answered["role"]) == ("assistant", "tool")
    [response] = messages(first, "output.messages")
    assert response["finish_reason"] == "tool_call"
    for one in (call, *response["parts"]):
        given = one["arguments"]
        is_text = isinstance(given, str)
        assert (one["type"], one["name"]) == ("tool_call", "look")
        assert (json.loads(given) if is_text else given) == {"where": "secret place"}
    assert (result["type"], result["id"]) == ("tool_call_response", call["id"])
    assert result["response"] == "secret wall of secret place"
    [last] = messages(second, "output.messages")
    assert last == {**text("assistant", "secret answer"), "finish_reason": "stop"}


@ADAPTERS
async def test_unless_requested_no_span_holds_any_of_it(
    submitter: TaskSubmitter, working: Working, spans: RecordedSpans, made: Callable[[str], Agent]
) -> None:
    async with asked("false"):
        await ran(submitter, working, made, "secret question")
    assert len(spans.named("chat small")) == 2
    assert "secret" not in "".join(span.to_json() for span in spans.all())


@ADAPTERS
async def test_what_is_too_long_is_cut_and_reports_it(
    submitter: TaskSubmitter, working: Working, spans: RecordedSpans, made: Callable[[str], Agent]
) -> None:
    async with asked("true"):
        await ran(submitter, working, made, "q" * LIMIT)
    _, second = spans.named("chat small")
    parts = [part for one in messages(second, "input.messages") for part in one["parts"]]
    assert sum(len(part["content"]) for part in parts[:-1]) == LIMIT
    assert parts[-1]["content"].endswith(" more characters]")
