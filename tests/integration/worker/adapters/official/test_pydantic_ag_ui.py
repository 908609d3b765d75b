"""AG-UI features in the style of pydantic-ai's examples, behind its own adapter and without it."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import httpx
import orjson
import pytest
from ag_ui.core import CustomEvent, EventType, StateDeltaEvent, StateSnapshotEvent
from pydantic import BaseModel, Field
from pydantic_ai import Agent as PydanticAgent
from pydantic_ai import DeferredToolRequests, RunContext
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider
from pydantic_ai.ui import StateDeps
from pydantic_ai.ui.ag_ui import AGUIAdapter
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from headrace_worker.adapters import ag_ui_agent, pydantic_ai_agent
from tests.integration.worker.adapters.official.users import AgUiUser, RecordedRun
from tests.integration.worker.adapters.wire import ChatModel, Script, calls, chat_model, says
from tests.integration.worker.conftest import Working
from tests.support.asgi_server import asgi_server

type Wrapped = PydanticAgent[Any, Any]
type Serve = Callable[..., AbstractAsyncContextManager[tuple[AgUiUser, ChatModel]]]


@pytest.fixture(params=["served by us", "backend"])
def serve(
    request: pytest.FixtureRequest,
    http: httpx.AsyncClient,
    working: Working,
    runs: list[RecordedRun],
) -> Serve:
    """Returns how to serve an agent whose model says what a test has it say."""
    name = "native" if request.param == "served by us" else "behind"

    @asynccontextmanager
    async def start(
        script: Script, make: Callable[[Any], Wrapped], deps: Callable[[], Any] = lambda: None
    ) -> AsyncIterator[tuple[AgUiUser, ChatModel]]:
        async with chat_model(script) as model:
            provider = OpenAIProvider(base_url=model.url, api_key="k")
            wrapped = make(OpenAIChatModel("small", provider=provider))
            user = AgUiUser(http, name, runs)
            if name == "native":
                served = pydantic_ai_agent(wrapped, name=name, deps=lambda _: deps())
                async with working(served):
                    yield user, model
                return

            async def run(asked: Request) -> Response:
                return await AGUIAdapter.dispatch_request(asked, agent=wrapped, deps=deps())

            app = Starlette(routes=[Route("/", run, methods=["POST"])])
            async with asgi_server(app) as url, working(ag_ui_agent(f"{url}/", name=name)):
                yield user, model

    return start


def talkative(model: Any) -> Wrapped:  # noqa: ANN401  # a pydantic-ai model
    """Return an agent with a tool of its own."""
    wrapped = PydanticAgent(model, instructions="Be brief.")

    @wrapped.tool_plain
    async def current_time(zone: str = "UTC") -> str:
        """Tell the time."""
        return f"12:00 {zone}"

    return wrapped


async def test_agentic_chat(serve: Serve) -> None:
    script = [
        calls(("c1", "current_time", {"zone": "CET"})),
        says("It is ", "noon."),
        calls(("p1", "change_background", {"background": "red"})),
        says("Red it is."),
    ]
    async with serve(script, talkative) as (user, model):
        parameters = {"type": "object", "properties": {"background": {"type": "string"}}}
        named = {"name": "change_background", "description": "Change it."}
        user.tools = [{**named, "parameters": parameters}]
        first = await user.says("What time is it?")
        assert (first["type"], user.last["content"]) == ("success", "It is noon.")
        [result] = user.told("TOOL_CALL_RESULT")
        assert result["content"] == "12:00 CET"
        pending = await user.says("Make it red.")
        assert pending == {"type": "success", "pendingToolCallIds": ["p1"]}
        await user.returns("p1", "done")
        assert user.last["content"] == "Red it is."
    assert [told.line for told in model.heard[3]] == [
        "user: What time is it?",
        "assistant: current_time(CET)",
        "tool: 12:00 CET",
        "assistant: It is noon.",
        "user: Make it red.",
        "assistant: change_background(red)",
        "tool: done",
    ]


class Recipe(BaseModel):
    """What agent and user work on together."""

    title: str = ""
    ingredients: list[str] = Field(default_factory=list)


class Kitchen(BaseModel):
    """The state that they share."""

    recipe: Recipe = Field(default_factory=Recipe)


def cook(model: Any) -> Wrapped:  # noqa: ANN401  # a pydantic-ai model
    """Return an agent that reads the state, and changes it by what a tool returns."""
    wrapped = PydanticAgent(model, deps_type=StateDeps[Kitchen])

    @wrapped.tool_plain
    async def display_recipe(recipe: Recipe) -> StateSnapshotEvent:
        """Show a recipe."""
        return StateSnapshotEvent(type=EventType.STATE_SNAPSHOT, snapshot={"recipe": recipe})

    @wrapped.instructions
    async def current(ctx: RunContext[StateDeps[Kitchen]]) -> str:
        return f"The recipe is {ctx.deps.state.recipe.model_dump_json()}"

    return wrapped


async def test_shared_state(serve: Serve) -> None:
    soup = {"title": "Soup", "ingredients": ["leek", "salt"]}
    script = [calls(("c1", "display_recipe", {"recipe": soup})), says("Salted.")]
    async with serve(script, cook, lambda: StateDeps(Kitchen())) as (user, model):
        user.state = {"recipe": {"title": "Soup", "ingredients": ["leek"]}}
        await user.says("Salt it.")
    assert '"ingredients":["leek"]' in str(model.requests[0]["messages"][0])
    assert user.state == {"recipe": soup}
    assert user.last["content"] == "Salted."


async def test_tool_based_generative_ui(serve: Serve) -> None:
    haiku = {"lines": ["old pond", "a frog leaps in", "the sound"]}
    script = [calls(("h1", "generate_haiku", haiku)), says("There.")]
    async with serve(script, PydanticAgent) as (user, _):
        array = {"type": "array", "items": {"type": "string"}}
        parameters = {"type": "object", "properties": {"lines": array}}
        user.tools = [{"name": "generate_haiku", "description": "x", "parameters": parameters}]
        pending = await user.says("A haiku.")
        assert pending["pendingToolCallIds"] == ["h1"]
        arguments = "".join(event["delta"] for event in user.told("TOOL_CALL_ARGS"))
        assert "a frog leaps in" in arguments
        done = await user.returns("h1", "shown")
    assert (done["type"], user.last["content"]) == ("success", "There.")


async def test_human_in_the_loop_by_a_tool_of_the_users(serve: Serve) -> None:
    steps = {"steps": [{"description": "boil", "status": "enabled"}]}
    script = [calls(("s1", "generate_task_steps", steps)), says("One step it is.")]
    async with serve(script, PydanticAgent) as (user, model):
        parameters = {"type": "object", "properties": {"steps": {"type": "array", "items": {}}}}
        user.tools = [{"name": "generate_task_steps", "description": "", "parameters": parameters}]
        await user.says("Plan tea.")
        await user.returns("s1", '{"accepted": true, "steps": ["boil"]}')
    assert user.last["content"] == "One step it is."
    assert orjson.loads(model.heard[1][-1].text) == {"accepted": True, "steps": ["boil"]}


def careful(model: Any) -> Wrapped:  # noqa: ANN401  # a pydantic-ai model
    """Return an agent whose tool needs approval."""
    wrapped: Wrapped = PydanticAgent(model, output_type=[str, DeferredToolRequests])

    @wrapped.tool_plain(requires_approval=True)
    def delete_file(path: str) -> str:
        """Delete a file."""
        return f"deleted {path}"

    return wrapped


async def test_tool_approval(serve: Serve) -> None:
    script = [calls(("d1", "delete_file", {"path": "a.txt"})), says("So be it.")]
    async with serve(script, careful) as (user, model):
        asked = await user.says("Delete it.")
        [interrupt] = asked["interrupts"]
        assert (asked["type"], interrupt["toolCallId"]) == ("interrupt", "d1")
        again = await user.resumes({interrupt["id"]: {"approved": "perhaps"}})
        assert again["interrupts"] == [interrupt]
        edited = {"approved": True, "editedArgs": {"path": "b.txt"}}
        await user.resumes({interrupt["id"]: edited})
    assert user.last["content"] == "So be it."
    assert model.heard[1][-1].text == "deleted b.txt"


class Document(BaseModel):
    """The state of an author's user interface."""

    document: str = ""


def author(model: Any) -> Wrapped:  # noqa: ANN401  # a pydantic-ai model
    """Return an agent that has the user interface predict the state by a call's arguments."""
    wrapped = PydanticAgent(model, deps_type=StateDeps[Document])

    @wrapped.tool_plain
    async def document_predict_state() -> list[CustomEvent]:
        """Have the state predicted."""
        value = [{"state_key": "document", "tool": "write_document", "tool_argument": "document"}]
        return [CustomEvent(type=EventType.CUSTOM, name="PredictState", value=value)]

    @wrapped.instructions()
    async def current(ctx: RunContext[StateDeps[Document]]) -> str:
        return f"The document is {ctx.deps.state.document!r}"

    return wrapped


async def test_predictive_state_updates(serve: Serve) -> None:
    script = [
        calls(("c1", "document_predict_state", {})),
        calls(("w1", "write_document", {"document": "Once upon a time"})),
        says("Written."),
    ]
    async with serve(script, author, lambda: StateDeps(Document())) as (user, model):
        user.state = {"document": "Once"}
        parameters = {"type": "object", "properties": {"document": {"type": "string"}}}
        user.tools = [{"name": "write_document", "description": "x", "parameters": parameters}]
        pending = await user.says("Go on.")
        assert pending["pendingToolCallIds"] == ["w1"]
        kinds = [event["type"] for event in user.events]
        [custom] = user.told("CUSTOM")
        assert (custom["name"], custom["value"][0]["tool"]) == ("PredictState", "write_document")
        written = [event for event in user.told("TOOL_CALL_ARGS") if event["toolCallId"] == "w1"]
        assert len(written) > 1
        assert kinds.index("CUSTOM") < user.events.index(written[0])
        await user.returns("w1", "accepted")
    assert "'Once'" in str(model.requests[0]["messages"][0])
    assert user.last["content"] == "Written."


def planner(model: Any) -> Wrapped:  # noqa: ANN401  # a pydantic-ai model
    """Return an agent whose tools change the state that the user interface shows."""
    wrapped = PydanticAgent(model)

    @wrapped.tool_plain
    async def create_plan(steps: list[str]) -> StateSnapshotEvent:
        """Begin a plan."""
        plan = {"steps": [{"description": step, "status": "pending"} for step in steps]}
        return StateSnapshotEvent(type=EventType.STATE_SNAPSHOT, snapshot=plan)

    @wrapped.tool_plain
    async def update_plan_step(index: int, status: str) -> StateDeltaEvent:
        """Change a step."""
        change: Any = {"op": "replace", "path": f"/steps/{index}/status", "value": status}
        return StateDeltaEvent(type=EventType.STATE_DELTA, delta=[change])

    return wrapped


async def test_agentic_generative_ui(serve: Serve) -> None:
    script = [
        calls(("c1", "create_plan", {"steps": ["boil", "pour"]})),
        calls(
            ("c2", "update_plan_step", {"index": 0, "status": "completed"}),
            ("c3", "update_plan_step", {"index": 1, "status": "completed"}),
        ),
        says("Tea."),
    ]
    async with serve(script, planner) as (user, _):
        await user.says("Make tea.")
    assert [step["status"] for step in user.state["steps"]] == ["completed", "completed"]
    assert (len(user.told("STATE_SNAPSHOT")), len(user.told("STATE_DELTA"))) == (1, 2)
    assert user.last["content"] == "Tea."
