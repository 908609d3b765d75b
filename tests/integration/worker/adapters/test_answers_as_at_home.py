"""What a framework's model is sent of a page's tools, shapes, edited arguments and links.

As in `test_as_at_home`, the requests are those that reach the model's server, compared whole.
"""

from typing import Any, cast

import pytest
from pydantic import BaseModel

from headrace.model import parts
from headrace.model.events import Json
from tests.integration.worker.adapters.behaviour import PAINT, answered, approval, interrupts
from tests.integration.worker.adapters.gemini_wire import gemini_model
from tests.integration.worker.adapters.test_as_at_home import assert_equal
from tests.integration.worker.adapters.test_google_adk import gemini
from tests.integration.worker.adapters.wire import calls, chat_model, replies
from tests.integration.worker.conftest import Working
from tests.support.log_reading import folded, state
from tests.support.task_submitter import TaskSubmitter

pytestmark = pytest.mark.usefixtures("task_state")

TOOLS: Json = {"headrace.agui": {"tools": [PAINT]}}
RESULTS = ["wet", '{"dry": 2.50, "wet": null}']
"""Of the page's tool: a text, and JSON as a page writes it."""
PAINTING = [
    calls(("p1", "paint", {"colour": "red"})),
    replies("Painted."),
    calls(("p2", "paint", {"colour": "blue"})),
    replies("Again."),
    replies("Bye."),
]
EDITED = [calls(("r1", "refund", {"order": "A1"})), replies("Refunded."), replies("Bye.")]
IMAGE_URL = "https://example.org/dot.png"


class Dice(BaseModel):
    """A shape."""

    sides: int
    colour: str | None = None


class Customer:
    """A user of an agent, whose tasks are of one context."""

    def __init__(self, submitter: TaskSubmitter) -> None:
        self._submitter = submitter

    async def say(self, *content: str | Json, metadata: Json | None = None) -> Any:  # noqa: ANN401  # a task
        """Send a message, and return its task when the run has ended."""
        sent = [{"text": part} if isinstance(part, str) else part for part in content]
        message = {"messageId": "m", "role": "ROLE_USER", "parts": sent}
        task = await self._submitter.start("a", message=message, metadata=metadata, context="c")
        await task.ended()
        return task

    async def paint(self) -> None:
        """Have the page's tool called twice, and say goodbye."""
        for number, result in enumerate(RESULTS, 1):
            task = await self.say("paint", metadata=TOOLS)
            part = parts.tool_result_part(f"p{number}", result)
            assert state(await answered(task, part, TOOLS)) == "COMPLETED"
        assert state(await folded(await self.say("thanks", metadata=TOOLS))) == "COMPLETED"

    async def edit(self) -> None:
        """Approve a call with other arguments."""
        task = await self.say("refund")
        [interrupt] = await interrupts(task)
        edited = {"approved": True, "editedArgs": {"order": "B2"}}
        assert state(await answered(task, approval(interrupt["id"], edited))) == "COMPLETED"
        assert state(await folded(await self.say("thanks"))) == "COMPLETED"

    async def talk(self, *messages: str | tuple[str | Json, ...]) -> None:
        """Send messages, each of which is answered."""
        for message in messages:
            content = (message,) if isinstance(message, str) else message
            assert state(await folded(await self.say(*content))) == "COMPLETED"


@pytest.fixture
def customer(submitter: TaskSubmitter) -> Customer:
    return Customer(submitter)


class PydanticHome:
    """An agent of pydantic-ai as its users run it."""

    def __init__(self, agent: Any) -> None:  # noqa: ANN401  # the library's
        self.agent, self.past = agent, list[Any]()

    async def turn(self, prompt: Any = None, **given: Any) -> Any:  # noqa: ANN401  # the library's
        running = self.agent.run_stream_events(prompt, message_history=self.past, **given)
        async with running as events:
            *_, last = [event async for event in events]
        self.past = last.result.all_messages()
        return last.result.output


def pydantic_agent(url: str, **options: Any) -> Any:  # noqa: ANN401  # the library's
    from pydantic_ai import Agent as PydanticAgent
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.providers.openai import OpenAIProvider

    model = OpenAIChatModel("small", provider=OpenAIProvider(base_url=url, api_key="k"))
    return PydanticAgent(model, instructions="Be brief.", **options)


async def test_the_model_of_pydantic_ai_is_sent_results_of_a_pages_tools_as_at_home(
    working: Working, customer: Customer
) -> None:
    from pydantic_ai import (
        DeferredToolRequests,
        DeferredToolResults,
        ExternalToolset,
        ToolDefinition,
    )

    from headrace.adapters import pydantic_ai_agent

    tool = ToolDefinition(
        name="paint",
        description=str(PAINT["description"]),
        parameters_json_schema=cast("Json", PAINT["parameters"]),
    )
    async with chat_model(PAINTING) as home:
        agent = PydanticHome(pydantic_agent(home.url, output_type=[str, DeferredToolRequests]))
        offered: Any = {"toolsets": [ExternalToolset([tool])]}
        for result in RESULTS:
            [call] = (await agent.turn("paint", **offered)).calls
            given = DeferredToolResults(calls={call.tool_call_id: result})
            await agent.turn(deferred_tool_results=given, **offered)
        await agent.turn("thanks", **offered)
    async with (
        chat_model(PAINTING) as model,
        working(pydantic_ai_agent(pydantic_agent(model.url), name="a")),
    ):
        await customer.paint()
    assert_equal(model.requests, home.requests, len(PAINTING))


SHAPES = {
    "tool": [
        calls(("f1", "final_result", {"sides": 6})),
        calls(("f2", "final_result", {"sides": 8})),
    ],
    "native": [replies('{"sides": 6}'), replies('{"sides": 8}')],
    "prompted": [replies('{"sides": 6}'), replies('{"sides": 8}')],
}


@pytest.mark.parametrize("form", SHAPES)
async def test_the_model_of_pydantic_ai_is_sent_its_structured_answers_as_at_home(
    working: Working, customer: Customer, form: str
) -> None:
    from pydantic_ai import NativeOutput, PromptedOutput

    from headrace.adapters import pydantic_ai_agent

    shape = {"tool": Dice, "native": NativeOutput(Dice), "prompted": PromptedOutput(Dice)}[form]
    async with chat_model(SHAPES[form]) as home:
        agent = PydanticHome(pydantic_agent(home.url, output_type=shape))
        await agent.turn("Six sides.")
        await agent.turn("Eight.")
    async with chat_model(SHAPES[form]) as model:
        wrapped = pydantic_agent(model.url, output_type=shape)
        async with working(pydantic_ai_agent(wrapped, name="a")):
            await customer.talk("Six sides.", "Eight.")
    assert_equal(model.requests, home.requests, 2)


def refund(order: str) -> str:
    """Refund an order."""
    return f"refunded {order}"


async def test_the_model_of_pydantic_ai_is_sent_edited_arguments_as_at_home(
    working: Working, customer: Customer
) -> None:
    from pydantic_ai import DeferredToolRequests, DeferredToolResults, ToolApproved

    from headrace.adapters import pydantic_ai_agent

    def build(url: str) -> Any:  # noqa: ANN401  # the library's
        agent = pydantic_agent(url, output_type=[str, DeferredToolRequests])
        agent.tool_plain(requires_approval=True)(refund)
        return agent

    async with chat_model(EDITED) as home:
        agent = PydanticHome(build(home.url))
        [call] = (await agent.turn("refund")).approvals
        edited = ToolApproved(override_args={"order": "B2"})
        decided = DeferredToolResults(approvals={call.tool_call_id: edited})
        await agent.turn(deferred_tool_results=decided)
        await agent.turn("thanks")
    async with chat_model(EDITED) as model, working(pydantic_ai_agent(build(model.url), name="a")):
        await customer.edit()
    assert_equal(model.requests, home.requests, len(EDITED))


async def test_the_model_of_pydantic_ai_is_sent_links_as_at_home(
    working: Working, customer: Customer
) -> None:
    from pydantic_ai import ImageUrl

    from headrace.adapters import pydantic_ai_agent

    script = [replies("Seen."), replies("Bye.")]
    async with chat_model(script) as home:
        agent = PydanticHome(pydantic_agent(home.url))
        await agent.turn(["look", ImageUrl(IMAGE_URL)])
        await agent.turn("thanks")
    async with (
        chat_model(script) as model,
        working(pydantic_ai_agent(pydantic_agent(model.url), name="a")),
    ):
        await customer.talk(("look", {"url": IMAGE_URL, "mediaType": "image/png"}), "thanks")
    assert_equal(model.requests, home.requests, 2)


class AgentsHome:
    """An agent of the OpenAI Agents SDK as its users run it."""

    def __init__(self, agent: Any) -> None:  # noqa: ANN401  # the library's
        self.agent, self.past = agent, list[Any]()

    async def turn(self, content: Any) -> None:  # noqa: ANN401  # the library's
        from agents import RunConfig, Runner

        given = [*self.past, {"role": "user", "content": content}]
        config = RunConfig(tracing_disabled=True)
        result = Runner.run_streamed(self.agent, given, run_config=config)
        assert [event async for event in result.stream_events()]
        self.past = result.to_input_list()


def sdk_agent(url: str, **options: Any) -> Any:  # noqa: ANN401  # the library's
    from agents import Agent as SdkAgent
    from agents import OpenAIChatCompletionsModel
    from openai import AsyncOpenAI

    model = OpenAIChatCompletionsModel("small", AsyncOpenAI(base_url=url, api_key="k"))
    return SdkAgent("clerk", instructions="Be brief.", model=model, **options)


async def test_the_model_of_the_agents_sdk_is_sent_its_structured_answers_as_at_home(
    working: Working, customer: Customer
) -> None:
    from headrace.adapters import openai_agents_agent

    async with chat_model(SHAPES["native"]) as home:
        agent = AgentsHome(sdk_agent(home.url, output_type=Dice))
        await agent.turn("Six sides.")
        await agent.turn("Eight.")
    async with chat_model(SHAPES["native"]) as model:
        wrapped = sdk_agent(model.url, output_type=Dice)
        async with working(openai_agents_agent(wrapped, name="a")):
            await customer.talk("Six sides.", "Eight.")
    assert_equal(model.requests, home.requests, 2)


async def test_the_model_of_the_agents_sdk_is_sent_links_as_at_home(
    working: Working, customer: Customer
) -> None:
    from headrace.adapters import openai_agents_agent

    script = [replies("Seen."), replies("Bye.")]
    async with chat_model(script) as home:
        agent = AgentsHome(sdk_agent(home.url))
        image = {"type": "input_image", "image_url": IMAGE_URL, "detail": "auto"}
        await agent.turn([{"type": "input_text", "text": "look"}, image])
        await agent.turn("thanks")
    async with chat_model(script) as model:
        wrapped = openai_agents_agent(sdk_agent(model.url), name="a", image_urls=True)
        async with working(wrapped):
            await customer.talk(("look", {"url": IMAGE_URL, "mediaType": "image/png"}), "thanks")
    assert_equal(model.requests, home.requests, 2)


async def test_the_model_of_the_agents_sdk_is_sent_results_of_a_pages_tools_as_of_its_own(
    working: Working, customer: Customer
) -> None:
    from agents import FunctionTool

    from headrace.adapters import openai_agents_agent

    results = iter(RESULTS)

    async def painted(*_: object) -> str:
        return next(results)

    tool = FunctionTool("paint", "Paint it.", {"type": "object"}, painted, strict_json_schema=False)
    async with chat_model(PAINTING) as home:
        agent = AgentsHome(sdk_agent(home.url, tools=[tool]))
        for text in ("paint", "paint", "thanks"):
            await agent.turn(text)
    async with (
        chat_model(PAINTING) as model,
        working(openai_agents_agent(sdk_agent(model.url), name="a")),
    ):
        await customer.paint()
    assert_equal(model.requests, home.requests, len(PAINTING))


class GraphHome:
    """A graph as its users run it."""

    def __init__(self, graph: Any, *, saves: bool) -> None:  # noqa: ANN401  # the library's
        self.graph, self.saves, self.past = graph, saves, list[Any]()

    async def turn(self, content: Any, **more: Any) -> None:  # noqa: ANN401  # the library's
        from langchain_core.messages import HumanMessage, ToolMessage
        from langgraph.types import Command

        given = content
        if isinstance(content, ToolMessage):
            given = {"messages": [*self.past, content], **more}
        elif not isinstance(content, Command):
            sent = {"content" if isinstance(content, str) else "content_blocks": content}
            given = {"messages": [*self.past, HumanMessage(**sent)], **more}
        thread: Any = {"configurable": {"thread_id": "1"}}
        *_, last = [each async for each in self.graph.astream(given, thread, stream_mode="values")]
        self.past = [] if self.saves else last["messages"]


def graph_of(url: str, *, saves: bool, tools: Any = (), **options: Any) -> Any:  # noqa: ANN401  # the library's
    from langchain.agents import create_agent
    from langchain_openai import ChatOpenAI
    from langgraph.checkpoint.memory import InMemorySaver

    request: Any = {"model": "small", "base_url": url, "api_key": "k", "streaming": True}
    saver = InMemorySaver() if saves else None
    prompt = "Be brief."
    return create_agent(
        ChatOpenAI(**request), [*tools], system_prompt=prompt, checkpointer=saver, **options
    )


both = pytest.mark.parametrize("saves", [True, False], ids=["saver", "no saver"])


@both
@pytest.mark.parametrize("form", ["tool", "native"])
async def test_the_model_of_langgraph_is_sent_its_structured_answers_as_at_home(
    working: Working, customer: Customer, form: str, *, saves: bool
) -> None:
    from langchain.agents.structured_output import ProviderStrategy, ToolStrategy

    from headrace.adapters import langgraph_agent

    shape: Any = {"tool": ToolStrategy(Dice), "native": ProviderStrategy(Dice)}[form]
    script = SHAPES["native"]
    if form == "tool":
        script = [calls(("f1", "Dice", {"sides": 6})), calls(("f2", "Dice", {"sides": 8}))]
    async with chat_model(script) as home:
        graph = GraphHome(graph_of(home.url, saves=saves, response_format=shape), saves=saves)
        await graph.turn("Six sides.")
        await graph.turn("Eight.")
    async with chat_model(script) as model:
        wrapped = graph_of(model.url, saves=saves, response_format=shape)
        agent = langgraph_agent(wrapped, name="a", output="structured_response")
        async with working(agent):
            await customer.talk("Six sides.", "Eight.")
    assert_equal(model.requests, home.requests, 2)


async def test_the_model_of_langgraph_is_sent_edited_arguments_as_at_home(
    working: Working, customer: Customer
) -> None:
    from langchain.agents.middleware import HumanInTheLoopMiddleware
    from langchain_core.tools import tool
    from langgraph.types import Command

    from headrace.adapters import langgraph_agent

    def build(url: str) -> Any:  # noqa: ANN401  # the library's
        review: Any = HumanInTheLoopMiddleware({"refund": True}, interrupt_mode="per_call")
        return graph_of(url, saves=True, tools=[tool(refund)], middleware=[review])

    async with chat_model(EDITED) as home:
        graph = GraphHome(build(home.url), saves=True)
        await graph.turn("refund")
        edited = {"name": "refund", "args": {"order": "B2"}}
        await graph.turn(Command(resume={"type": "edit", "edited_action": edited}))
        await graph.turn("thanks")
    async with chat_model(EDITED) as model, working(langgraph_agent(build(model.url), name="a")):
        await customer.edit()
    assert_equal(model.requests, home.requests, len(EDITED))


@both
async def test_the_model_of_langgraph_is_sent_links_as_at_home(
    working: Working, customer: Customer, *, saves: bool
) -> None:
    from headrace.adapters import langgraph_agent

    script = [replies("Seen."), replies("Bye.")]
    async with chat_model(script) as home:
        graph = GraphHome(graph_of(home.url, saves=saves), saves=saves)
        image = {"type": "image", "url": IMAGE_URL, "mime_type": "image/png"}
        await graph.turn([{"type": "text", "text": "look"}, image])
        await graph.turn("thanks")
    async with (
        chat_model(script) as model,
        working(langgraph_agent(graph_of(model.url, saves=saves), name="a")),
    ):
        await customer.talk(("look", {"url": IMAGE_URL, "mediaType": "image/png"}), "thanks")
    assert_equal(model.requests, home.requests, 2)


@both
async def test_the_model_of_langgraph_is_sent_results_of_a_pages_tools_as_at_home(
    working: Working, customer: Customer, *, saves: bool
) -> None:
    from langchain_core.messages import ToolMessage
    from langchain_openai import ChatOpenAI
    from langgraph.checkpoint.memory import InMemorySaver
    from langgraph.graph import END, START, MessagesState, StateGraph

    from headrace.adapters import langgraph_agent

    class Page(MessagesState):
        tools: list[Any]

    def build(url: str) -> Any:  # noqa: ANN401  # the library's
        request: Any = {"model": "small", "base_url": url, "api_key": "k", "streaming": True}

        async def talk(held: Page) -> Any:  # noqa: ANN401  # an update
            model = ChatOpenAI(**request).bind_tools(held["tools"])
            return {"messages": [await model.ainvoke(held["messages"])]}

        graph: Any = StateGraph(Page)
        graph.add_node("talk", talk)
        graph.add_edge(START, "talk")
        graph.add_edge("talk", END)
        return graph.compile(checkpointer=InMemorySaver() if saves else None)

    async with chat_model(PAINTING) as home:
        graph, tools = GraphHome(build(home.url), saves=saves), {"tools": [PAINT]}
        for number, result in enumerate(RESULTS, 1):
            await graph.turn("paint", **tools)
            await graph.turn(ToolMessage(result, tool_call_id=f"p{number}"), **tools)
        await graph.turn("thanks", **tools)
    async with chat_model(PAINTING) as model, working(langgraph_agent(build(model.url), name="a")):
        await customer.paint()
    assert_equal(model.requests, home.requests, len(PAINTING))


class AdkHome:
    """An agent of ADK as its users run it."""

    def __init__(self, agent: Any) -> None:  # noqa: ANN401  # the library's
        from google.adk.runners import InMemoryRunner

        self.runner = InMemoryRunner(agent, app_name="shop")
        self.session = ""

    async def turn(self, *content: Any) -> Any:  # noqa: ANN401  # the library's
        from google.adk.agents import RunConfig
        from google.adk.agents.run_config import StreamingMode  # type: ignore[attr-defined]
        from google.genai import types

        if not self.session:
            made = await self.runner.session_service.create_session(app_name="shop", user_id="u")
            self.session = made.id
        sent = types.Content(role="user", parts=[*content])
        named: Any = {"user_id": "u", "session_id": self.session, "new_message": sent}
        config = RunConfig(streaming_mode=StreamingMode.SSE)
        events = [each async for each in self.runner.run_async(**named, run_config=config)]
        return [call for event in events for call in event.get_function_calls()]


def adk_clerk(url: str, **options: Any) -> Any:  # noqa: ANN401  # the library's
    from google.adk.agents import LlmAgent

    return LlmAgent(name="clerk", instruction="Be brief.", model=gemini(url), **options)


@pytest.mark.parametrize("has_tools", [False, True], ids=["alone", "beside tools"])
async def test_the_model_of_adk_is_sent_its_structured_answers_as_at_home(
    working: Working, customer: Customer, *, has_tools: bool
) -> None:
    from google.genai import types

    from headrace.adapters import adk_agent

    options: Any = {"output_schema": Dice, "tools": [refund] if has_tools else []}
    async with gemini_model(SHAPES["native"]) as home:
        agent = AdkHome(adk_clerk(home.url, **options))
        await agent.turn(types.Part(text="Six sides."))
        await agent.turn(types.Part(text="Eight."))
    async with (
        gemini_model(SHAPES["native"]) as model,
        working(adk_agent(adk_clerk(model.url, **options), name="a")),
    ):
        await customer.talk("Six sides.", "Eight.")
    assert_equal(model.requests, home.requests, 2)


async def test_the_model_of_adk_is_sent_links_as_at_home(
    working: Working, customer: Customer
) -> None:
    from google.genai import types

    from headrace.adapters import adk_agent

    script = [replies("Seen."), replies("Bye.")]
    async with gemini_model(script) as home:
        agent = AdkHome(adk_clerk(home.url))
        image = types.FileData(file_uri=IMAGE_URL, mime_type="image/png")
        await agent.turn(types.Part(text="look"), types.Part(file_data=image))
        await agent.turn(types.Part(text="thanks"))
    async with gemini_model(script) as model, working(adk_agent(adk_clerk(model.url), name="a")):
        await customer.talk(("look", {"url": IMAGE_URL, "mediaType": "image/png"}), "thanks")
    assert_equal(model.requests, home.requests, 2)


async def test_the_model_of_adk_is_sent_results_of_a_pages_tools_as_at_home(
    working: Working, customer: Customer
) -> None:
    from google.adk.tools.base_tool import BaseTool
    from google.genai import types

    from headrace.adapters import adk_agent

    class Page(BaseTool):
        def _get_declaration(self) -> Any:  # noqa: ANN401  # the library's
            return types.FunctionDeclaration(
                name=self.name,
                description=self.description,
                parameters_json_schema=PAINT["parameters"],
            )

        async def run_async(self, **_: Any) -> Any:  # noqa: ANN401  # the library's
            return None

    async with gemini_model(PAINTING) as home:
        tool = Page(name="paint", description="Paint it.", is_long_running=True)
        agent = AdkHome(adk_clerk(home.url, tools=[tool]))
        for result in RESULTS:
            *_, call = await agent.turn(types.Part(text="paint"))
            named: Any = {"id": call.id, "name": "paint", "response": {"result": result}}
            response = types.FunctionResponse(**named)
            await agent.turn(types.Part(function_response=response))
        await agent.turn(types.Part(text="thanks"))
    async with gemini_model(PAINTING) as model, working(adk_agent(adk_clerk(model.url), name="a")):
        await customer.paint()
    assert_equal(model.requests, home.requests, len(PAINTING))


async def test_the_model_of_pydantic_ai_is_sent_no_text_of_an_output_function(
    working: Working, customer: Customer
) -> None:
    from headrace.adapters import pydantic_ai_agent

    def praise(dice: Dice) -> str:
        """Praise dice."""
        return f"{dice.sides} fine sides"

    script = SHAPES["tool"]
    async with chat_model(script) as home:
        agent = PydanticHome(pydantic_agent(home.url, output_type=praise))
        await agent.turn("Six sides.")
        await agent.turn("Eight.")
    async with chat_model(script) as model:
        wrapped = pydantic_agent(model.url, output_type=praise)
        async with working(pydantic_ai_agent(wrapped, name="a")):
            await customer.talk("Six sides.", "Eight.")
    assert_equal(model.requests, home.requests, 2)


async def test_the_model_of_the_agents_sdk_is_sent_a_result_that_is_the_answer_once(
    working: Working, customer: Customer
) -> None:
    from agents import function_tool

    from headrace.adapters import openai_agents_agent

    script = [calls(("c1", "refund", {"order": "A1"})), replies("Bye.")]
    given: Any = {"tools": [function_tool(refund)], "tool_use_behavior": "stop_on_first_tool"}
    async with chat_model(script) as home:
        agent = AgentsHome(sdk_agent(home.url, **given))
        await agent.turn("refund")
        await agent.turn("thanks")
    async with (
        chat_model(script) as model,
        working(openai_agents_agent(sdk_agent(model.url, **given), name="a")),
    ):
        await customer.talk("refund", "thanks")
    assert_equal(model.requests, home.requests, 2)


async def test_the_model_of_pydantic_ai_is_sent_no_file_that_a_tool_emits_itself(
    working: Working, customer: Customer
) -> None:
    from pydantic_ai import RunContext as PydanticContext

    from headrace import File, RunContext
    from headrace.adapters import pydantic_ai_agent

    script = [calls(("c1", "draw", {})), replies("Drawn."), replies("Bye.")]

    def build(url: str) -> Any:  # noqa: ANN401  # the library's
        agent = pydantic_agent(url, deps_type=object)

        async def draw(ctx: PydanticContext[RunContext | None]) -> str:
            """Draw."""
            if ctx.deps is not None:
                await ctx.deps.emit(File("a.png", b"png", "image/png"))
            return "a picture"

        agent.tool(draw)
        return agent

    async with chat_model(script) as home:
        agent = PydanticHome(build(home.url))
        await agent.turn("draw")
        await agent.turn("thanks")
    async with (
        chat_model(script) as model,
        working(pydantic_ai_agent(build(model.url), name="a", deps=lambda ctx: ctx)),
    ):
        await customer.talk("draw", "thanks")
    assert_equal(model.requests, home.requests, 3)
