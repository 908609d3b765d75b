"""What a framework's model is sent here, over a conversation, is what it is sent at home.

The requests are those that reach the model's server, compared whole.
"""

import asyncio
import json
from base64 import b64encode
from collections.abc import Callable
from difflib import unified_diff
from typing import Any

import pytest

from headrace import Agent
from headrace.model.events import Json
from tests.integration.worker.adapters.behaviour import answered, approval, interrupts
from tests.integration.worker.adapters.gemini_wire import gemini_model
from tests.integration.worker.adapters.test_google_adk import gemini
from tests.integration.worker.adapters.wire import ModelReply, calls, chat_model, replies
from tests.integration.worker.conftest import Working
from tests.support.log_reading import folded, state
from tests.support.task_submitter import TaskSubmitter

PNG = ("dot.png", "image/png", b"\x89PNG\r\n\x1a\n1")
PDF = ("a.pdf", "application/pdf", b"%PDF-1.4 x")
TEXT = ("notes.txt", "text/plain", "some nötes".encode())
FILES = (PNG, PDF, TEXT)

BEFORE_APPROVALS = [
    replies("Hi ", "you."),
    replies("Seen."),
    ModelReply(("Let me see.",), (("call_1", "in_stock", {"item": "nails"}),)),
    replies("Three."),
    calls(("call_2", "in_stock", {"item": "é"}), ("call_3", "order", {"item": "nails"})),
    replies("Both."),
]
APPROVALS = [
    calls(("call_4", "refund", {"order": "A1"})),
    replies("Refunded."),
    calls(("call_5", "refund", {"order": "A2"})),
    replies("Not refunded."),
]
SCRIPT = [*BEFORE_APPROVALS, *APPROVALS, replies("Bye.")]
SCRIPT_WITHOUT_APPROVALS = [*BEFORE_APPROVALS, replies("Bye.")]

TOO_MUCH = "It is too much."

type Requests = list[Json]


def base64(content: bytes) -> str:
    return b64encode(content).decode()


class Shop:
    """The tools. The second of two parallel calls is answered first."""

    def __init__(self) -> None:
        self._ordered = asyncio.Event()

    async def in_stock(self, item: str) -> int:
        """Count what is in stock."""
        if item == "é":
            async with asyncio.timeout(60):
                await self._ordered.wait()
        return 3

    async def order(self, item: str) -> list[str]:
        """Order more."""
        self._ordered.set()
        return [item, "ordered"]

    async def refund(self, order: str) -> dict[str, Any]:
        """Refund an order."""
        return {"order": order, "ok": True, "fee": None}


@pytest.fixture
def here(submitter: TaskSubmitter, working: Working, task_state: None) -> Callable[..., Any]:
    """Returns how to have the conversation with an agent of the fleet."""
    del task_state

    async def converse(agent: Agent, *, approves: bool = True) -> None:
        async with working(agent):
            for text in ("hello", "look", "work", "both"):
                files = FILES if text == "look" else ()
                parts = [{"text": text}, *map(_part, files)]
                message = {"messageId": text, "role": "ROLE_USER", "parts": parts}
                task = await submitter.start("a", message=message, context="c")
                assert state(await folded(task)) == "COMPLETED"
            for approved in (True, False) if approves else ():
                task = await submitter.start("a", "refund", context="c")
                [interrupt] = await interrupts(task)
                payload = {"approved": approved, "reason": TOO_MUCH}
                given = payload if not approved else {"approved": True}
                done = await answered(task, approval(interrupt["id"], given))
                assert state(done) == "COMPLETED"
            done = await folded(await submitter.start("a", "thanks", context="c"))
            assert state(done) == "COMPLETED"

    return converse


def _part(file: tuple[str, str, bytes]) -> Json:
    name, media, content = file
    return {"raw": base64(content), "filename": name, "mediaType": media}


def assert_equal(here: Requests, home: Requests, number: int) -> None:
    """Compare requests one by one: the first difference is the one to understand."""
    assert len(home) == number
    for sent_here, sent_home in zip(here, home, strict=True):
        before, after = _lines(sent_home), _lines(sent_here)
        assert "\n".join(unified_diff(before, after, "at home", "here", lineterm="")) == ""


def _lines(request: Json) -> list[str]:
    return json.dumps(request, indent=1).splitlines()


async def test_the_model_of_pydantic_ai_is_sent_the_same(here: Callable[..., Any]) -> None:
    from pydantic_ai import Agent as PydanticAgent
    from pydantic_ai import BinaryContent, DeferredToolRequests, DeferredToolResults, ToolDenied
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.providers.openai import OpenAIProvider

    from headrace.adapters import pydantic_ai_agent

    def build(url: str) -> Any:  # noqa: ANN401  # the library's
        shop = Shop()
        agent = PydanticAgent(
            OpenAIChatModel("small", provider=OpenAIProvider(base_url=url, api_key="k")),
            system_prompt="Be brief.",
            instructions="Be kind.",
            output_type=[str, DeferredToolRequests],
        )
        agent.tool_plain(shop.in_stock)
        agent.tool_plain(shop.order)
        agent.tool_plain(requires_approval=True)(shop.refund)
        return agent

    async with chat_model(SCRIPT) as home:
        agent, past = build(home.url), list[Any]()

        async def turn(prompt: Any, **given: Any) -> Any:  # noqa: ANN401  # the library's
            nonlocal past
            async with agent.run_stream_events(prompt, message_history=past, **given) as events:
                *_, last = [event async for event in events]
            past = last.result.all_messages()
            return last.result.output

        await turn("hello")
        files = [BinaryContent(content, media_type=media) for _, media, content in FILES]
        await turn(["look", *files])
        await turn("work")
        await turn("both")
        for decision in (True, ToolDenied(TOO_MUCH)):
            [call] = (await turn("refund")).approvals
            decided = DeferredToolResults(approvals={call.tool_call_id: decision})
            await turn(None, deferred_tool_results=decided)
        await turn("thanks")
    async with chat_model(SCRIPT) as model:
        await here(pydantic_ai_agent(build(model.url), name="a"))
    assert_equal(model.requests, home.requests, len(SCRIPT))


async def test_the_model_of_the_agents_sdk_is_sent_the_same(here: Callable[..., Any]) -> None:
    from agents import Agent as SdkAgent
    from agents import OpenAIChatCompletionsModel, RunConfig, Runner, function_tool
    from openai import AsyncOpenAI

    from headrace.adapters import openai_agents_agent

    def build(url: str) -> Any:  # noqa: ANN401  # the library's
        shop = Shop()
        return SdkAgent(
            "clerk",
            instructions="Be brief.",
            model=OpenAIChatCompletionsModel("small", AsyncOpenAI(base_url=url, api_key="k")),
            tools=[
                function_tool(shop.in_stock),
                function_tool(shop.order),
                function_tool(shop.refund, needs_approval=True),
            ],
        )

    def linked(file: tuple[str, str, bytes]) -> str:
        return f"data:{file[1]};base64,{base64(file[2])}"

    async with chat_model(SCRIPT) as home:
        agent, past = build(home.url), list[Any]()

        async def turn(prompt: Any) -> Any:  # noqa: ANN401  # the library's
            nonlocal past
            given = prompt
            if isinstance(prompt, str | list):
                given = [*past, {"role": "user", "content": prompt}]
            config = RunConfig(tracing_disabled=True)
            result = Runner.run_streamed(agent, given, run_config=config)
            assert [event async for event in result.stream_events()]
            past = result.to_input_list()
            return result

        await turn("hello")
        await turn(
            [
                {"type": "input_text", "text": "look"},
                {"type": "input_image", "image_url": linked(PNG), "detail": "auto"},
                {"type": "input_file", "filename": PDF[0], "file_data": linked(PDF)},
                {"type": "input_text", "text": TEXT[2].decode()},
            ]
        )
        await turn("work")
        await turn("both")
        for approved in (True, False):
            asking = await turn("refund")
            [item], decided = asking.interruptions, asking.to_state()
            if approved:
                decided.approve(item)
            else:
                decided.reject(item, rejection_message=TOO_MUCH)
            await turn(decided)
        await turn("thanks")
    async with chat_model(SCRIPT) as model:
        await here(openai_agents_agent(build(model.url), name="a"))
    assert_equal(model.requests, home.requests, len(SCRIPT))


@pytest.mark.parametrize("has_saver", [True, False], ids=["saver", "no saver"])
async def test_the_model_of_langgraph_is_sent_the_same(
    here: Callable[..., Any], *, has_saver: bool
) -> None:
    from langchain.agents import create_agent
    from langchain.agents.middleware import HumanInTheLoopMiddleware
    from langchain_core.messages import HumanMessage
    from langchain_core.tools import tool
    from langchain_openai import ChatOpenAI
    from langgraph.checkpoint.memory import InMemorySaver
    from langgraph.types import Command

    from headrace.adapters import langgraph_agent

    def build(url: str) -> Any:  # noqa: ANN401  # the library's
        shop = Shop()
        request: Any = {"model": "small", "base_url": url, "api_key": "k", "streaming": True}
        review: Any = HumanInTheLoopMiddleware({"refund": True}, interrupt_mode="per_call")
        return create_agent(
            ChatOpenAI(**request),
            [tool(shop.in_stock), tool(shop.order), tool(shop.refund)],
            middleware=[review] if has_saver else [],
            system_prompt="Be brief.",
            checkpointer=InMemorySaver() if has_saver else None,
        )

    script = SCRIPT if has_saver else SCRIPT_WITHOUT_APPROVALS
    async with chat_model(script) as home:
        graph, past, thread = build(home.url), list[Any](), {"configurable": {"thread_id": "1"}}

        async def turn(content: Any) -> None:  # noqa: ANN401  # the library's
            nonlocal past
            given = content
            if not isinstance(content, Command):
                sent = {"content" if isinstance(content, str) else "content_blocks": content}
                given = {"messages": [*past, HumanMessage(**sent)]}
            *_, last = [each async for each in graph.astream(given, thread, stream_mode="values")]
            past = [] if has_saver else last["messages"]

        await turn("hello")
        image = {"type": "image", "base64": base64(PNG[2]), "mime_type": PNG[1]}
        pdf = {"base64": base64(PDF[2]), "mime_type": PDF[1], "filename": PDF[0]}
        texts = [{"type": "text", "text": text} for text in ("look", TEXT[2].decode())]
        await turn([texts[0], image, {"type": "file", **pdf}, texts[1]])
        await turn("work")
        await turn("both")
        if has_saver:
            for decision in ({"type": "approve"}, {"type": "reject", "message": TOO_MUCH}):
                await turn("refund")
                await turn(Command(resume=decision))
        await turn("thanks")
    async with chat_model(script) as model:
        await here(langgraph_agent(build(model.url), name="a"), approves=has_saver)
    assert_equal(model.requests, home.requests, len(script))


async def test_the_model_of_adk_is_sent_the_same_but_for_a_refusals_reason(
    here: Callable[..., Any],
) -> None:
    from google.adk.agents import LlmAgent, RunConfig
    from google.adk.agents.run_config import StreamingMode  # type: ignore[attr-defined]
    from google.adk.runners import InMemoryRunner
    from google.adk.tools.function_tool import FunctionTool
    from google.genai import types

    from headrace.adapters import adk_agent

    def build(url: str) -> Any:  # noqa: ANN401  # the library's
        shop = Shop()
        tools: Any = [
            shop.in_stock,
            shop.order,
            FunctionTool(shop.refund, require_confirmation=True),
        ]
        return LlmAgent(name="clerk", instruction="Be brief.", model=gemini(url), tools=tools)

    async with gemini_model(SCRIPT) as home:
        runner = InMemoryRunner(build(home.url), app_name="shop")
        session = await runner.session_service.create_session(app_name="shop", user_id="u")

        async def turn(*parts: types.Part) -> list[types.FunctionCall]:
            content = types.Content(role="user", parts=[*parts])
            named: Any = {"user_id": "u", "session_id": session.id, "new_message": content}
            config = RunConfig(streaming_mode=StreamingMode.SSE)
            events = [each async for each in runner.run_async(**named, run_config=config)]
            asked = [call for event in events for call in event.get_function_calls()]
            return [call for call in asked if call.name == "adk_request_confirmation"]

        await turn(types.Part(text="hello"))
        files = [
            types.Part(inline_data=types.Blob(data=content, mime_type=media, display_name=name))
            for name, media, content in FILES
        ]
        await turn(types.Part(text="look"), *files)
        await turn(types.Part(text="work"))
        await turn(types.Part(text="both"))
        for confirmed in (True, False):
            *_, call = await turn(types.Part(text="refund"))
            response = {"confirmed": confirmed}
            decided = types.FunctionResponse(id=call.id, name=call.name, response=response)
            await turn(types.Part(function_response=decided))
        await turn(types.Part(text="thanks"))
    async with gemini_model(SCRIPT) as model:
        await here(adk_agent(build(model.url), name="a"))
    refused = "This tool call is rejected."
    assert refused in str(home.requests[-1])
    sent_here = [_replaced(request, TOO_MUCH, refused) for request in model.requests]
    assert_equal(sent_here, home.requests, len(SCRIPT))


def _replaced(value: Any, old: str, new: str) -> Any:  # noqa: ANN401  # any JSON
    if isinstance(value, dict):
        return {name: _replaced(each, old, new) for name, each in value.items()}
    if isinstance(value, list):
        return [_replaced(each, old, new) for each in value]
    return new if value == old else value
