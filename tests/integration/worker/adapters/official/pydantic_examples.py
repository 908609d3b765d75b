"""Agents in the style of pydantic-ai's examples of AG-UI."""

from collections.abc import Callable
from typing import Any

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

type Wrapped = PydanticAgent[Any, Any]


def small_model(url: str) -> OpenAIChatModel:
    """Return a client of the model at `url`."""
    return OpenAIChatModel("small", provider=OpenAIProvider(base_url=url, api_key="k"))


def backend(wrapped: Wrapped, deps: Callable[[], Any]) -> Starlette:
    """Return a server of `wrapped` as pydantic-ai's own adapter makes it."""

    async def run(asked: Request) -> Response:
        return await AGUIAdapter.dispatch_request(asked, agent=wrapped, deps=deps())

    return Starlette(routes=[Route("/", run, methods=["POST"])])


def talkative(model: Any) -> Wrapped:  # noqa: ANN401  # a pydantic-ai model
    """Return an agent with a tool of its own."""
    wrapped = PydanticAgent(model, instructions="Be brief.")

    @wrapped.tool_plain
    async def current_time(zone: str = "UTC") -> str:
        """Tell the time."""
        return f"12:00 {zone}"

    return wrapped


class Recipe(BaseModel):
    """What agent and user work on together."""

    title: str = ""
    ingredients: list[str] = Field(default_factory=list)


class Kitchen(BaseModel):
    """The state that they share."""

    recipe: Recipe = Field(default_factory=Recipe)


def kitchen() -> StateDeps[Kitchen]:
    """Return an empty kitchen."""
    return StateDeps(Kitchen())


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


def careful(model: Any) -> Wrapped:  # noqa: ANN401  # a pydantic-ai model
    """Return an agent whose tool needs approval."""
    wrapped: Wrapped = PydanticAgent(model, output_type=[str, DeferredToolRequests])

    @wrapped.tool_plain(requires_approval=True)
    def delete_file(path: str) -> str:
        """Delete a file."""
        return f"deleted {path}"

    return wrapped


class Document(BaseModel):
    """The state of an author's user interface."""

    document: str = ""


def document() -> StateDeps[Document]:
    """Return an empty document."""
    return StateDeps(Document())


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
