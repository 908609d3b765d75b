"""AG-UI features in the style of pydantic-ai's examples, behind its own adapter and without it."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from types import ModuleType
from typing import Any

import httpx
import orjson
import pytest

from headrace.adapters import ag_ui_agent
from headrace.model.run_ids import own_id
from tests.integration.worker.adapters.official.users import AgUiUser, RecordedRun
from tests.integration.worker.adapters.wire import ChatModel, Script, calls, chat_model, replies
from tests.integration.worker.conftest import Working
from tests.support.asgi_server import asgi_server

type Serve = Callable[..., AbstractAsyncContextManager[tuple[AgUiUser, ChatModel]]]


@pytest.fixture(scope="module")
def examples() -> ModuleType:
    """The agents."""
    from tests.integration.worker.adapters.official import pydantic_examples

    return pydantic_examples


@pytest.fixture(params=["served by us", "backend"])
def serve(
    request: pytest.FixtureRequest,
    http: httpx.AsyncClient,
    working: Working,
    runs: list[RecordedRun],
    examples: ModuleType,
) -> Serve:
    """Returns how to serve an agent whose model says what a test has it say."""
    name = "native" if request.param == "served by us" else "behind"

    @asynccontextmanager
    async def start(
        script: Script, make: Callable[[Any], Any], deps: Callable[[], Any] = lambda: None
    ) -> AsyncIterator[tuple[AgUiUser, ChatModel]]:
        async with chat_model(script) as model:
            wrapped = make(examples.small_model(model.url))
            user = AgUiUser(http, name, runs)
            if name == "native":
                from headrace.adapters import pydantic_ai_agent

                served = pydantic_ai_agent(wrapped, name=name, deps=lambda _: deps())
                async with working(served):
                    yield user, model
                return
            app = examples.backend(wrapped, deps)
            async with asgi_server(app) as url, working(ag_ui_agent(f"{url}/", name=name)):
                yield user, model

    return start


async def test_agentic_chat(serve: Serve, examples: ModuleType) -> None:
    script = [
        calls(("c1", "current_time", {"zone": "CET"})),
        replies("It is ", "noon."),
        calls(("p1", "change_background", {"background": "red"})),
        replies("Red it is."),
    ]
    async with serve(script, examples.talkative) as (user, model):
        parameters = {"type": "object", "properties": {"background": {"type": "string"}}}
        named = {"name": "change_background", "description": "Change it."}
        user.tools = [{**named, "parameters": parameters}]
        first = await user.replies("What time is it?")
        assert (first["type"], user.last["content"]) == ("success", "It is noon.")
        [result] = user.told("TOOL_CALL_RESULT")
        assert result["content"] == "12:00 CET"
        pending = await user.replies("Make it red.")
        [call] = pending["pendingToolCallIds"]
        assert (pending["type"], own_id(call)) == ("success", "p1")
        await user.returns(call, "done")
        assert user.last["content"] == "Red it is."
    assert [received.line for received in model.conversations[3]] == [
        "user: What time is it?",
        "assistant: current_time(CET)",
        "tool: 12:00 CET",
        "assistant: It is noon.",
        "user: Make it red.",
        "assistant: change_background(red)",
        "tool: done",
    ]


async def test_shared_state(serve: Serve, examples: ModuleType) -> None:
    soup = {"title": "Soup", "ingredients": ["leek", "salt"]}
    script = [calls(("c1", "display_recipe", {"recipe": soup})), replies("Salted.")]
    async with serve(script, examples.cook, examples.kitchen) as (
        user,
        model,
    ):
        user.state = {"recipe": {"title": "Soup", "ingredients": ["leek"]}}
        await user.replies("Salt it.")
    assert '"ingredients":["leek"]' in str(model.requests[0]["messages"][0])
    assert user.state == {"recipe": soup}
    assert user.last["content"] == "Salted."


async def test_tool_based_generative_ui(serve: Serve, examples: ModuleType) -> None:
    haiku = {"lines": ["old pond", "a frog leaps in", "the sound"]}
    script = [calls(("h1", "generate_haiku", haiku)), replies("There.")]
    async with serve(script, examples.PydanticAgent) as (user, _):
        array = {"type": "array", "items": {"type": "string"}}
        parameters = {"type": "object", "properties": {"lines": array}}
        user.tools = [{"name": "generate_haiku", "description": "x", "parameters": parameters}]
        pending = await user.replies("A haiku.")
        [call] = pending["pendingToolCallIds"]
        assert own_id(call) == "h1"
        arguments = "".join(event["delta"] for event in user.told("TOOL_CALL_ARGS"))
        assert "a frog leaps in" in arguments
        done = await user.returns(call, "shown")
    assert (done["type"], user.last["content"]) == ("success", "There.")


async def test_human_in_the_loop_by_a_tool_of_the_users(serve: Serve, examples: ModuleType) -> None:
    steps = {"steps": [{"description": "boil", "status": "enabled"}]}
    script = [calls(("s1", "generate_task_steps", steps)), replies("One step it is.")]
    async with serve(script, examples.PydanticAgent) as (user, model):
        parameters = {"type": "object", "properties": {"steps": {"type": "array", "items": {}}}}
        user.tools = [{"name": "generate_task_steps", "description": "", "parameters": parameters}]
        await user.replies("Plan tea.")
        await user.returns("s1", '{"accepted": true, "steps": ["boil"]}')
    assert user.last["content"] == "One step it is."
    assert orjson.loads(model.conversations[1][-1].text) == {"accepted": True, "steps": ["boil"]}


async def test_tool_approval(serve: Serve, examples: ModuleType) -> None:
    script = [calls(("d1", "delete_file", {"path": "a.txt"})), replies("So be it.")]
    async with serve(script, examples.careful) as (user, model):
        request = await user.replies("Delete it.")
        [interrupt] = request["interrupts"]
        assert (request["type"], own_id(interrupt["toolCallId"])) == ("interrupt", "d1")
        again = await user.resumes({interrupt["id"]: {"approved": "perhaps"}})
        assert again["interrupts"] == [interrupt]
        edited = {"approved": True, "editedArgs": {"path": "b.txt"}}
        await user.resumes({interrupt["id"]: edited})
    assert user.last["content"] == "So be it."
    assert model.conversations[1][-1].text == "deleted b.txt"


async def test_predictive_state_updates(serve: Serve, examples: ModuleType) -> None:
    script = [
        calls(("c1", "document_predict_state", {})),
        calls(("w1", "write_document", {"document": "Once upon a time"})),
        replies("Written."),
    ]
    async with serve(script, examples.author, examples.document) as (
        user,
        model,
    ):
        user.state = {"document": "Once"}
        parameters = {"type": "object", "properties": {"document": {"type": "string"}}}
        user.tools = [{"name": "write_document", "description": "x", "parameters": parameters}]
        pending = await user.replies("Go on.")
        [call] = pending["pendingToolCallIds"]
        assert own_id(call) == "w1"
        kinds = [event["type"] for event in user.events]
        [custom] = user.told("CUSTOM")
        assert (custom["name"], custom["value"][0]["tool"]) == ("PredictState", "write_document")
        written = [event for event in user.told("TOOL_CALL_ARGS") if event["toolCallId"] == call]
        assert len(written) > 1
        assert kinds.index("CUSTOM") < user.events.index(written[0])
        await user.returns(call, "accepted")
    assert "'Once'" in str(model.requests[0]["messages"][0])
    assert user.last["content"] == "Written."


async def test_agentic_generative_ui(serve: Serve, examples: ModuleType) -> None:
    script = [
        calls(("c1", "create_plan", {"steps": ["boil", "pour"]})),
        calls(
            ("c2", "update_plan_step", {"index": 0, "status": "completed"}),
            ("c3", "update_plan_step", {"index": 1, "status": "completed"}),
        ),
        replies("Tea."),
    ]
    async with serve(script, examples.planner) as (user, _):
        await user.replies("Make tea.")
    assert [step["status"] for step in user.state["steps"]] == ["completed", "completed"]
    assert (len(user.told("STATE_SNAPSHOT")), len(user.told("STATE_DELTA"))) == (1, 2)
    assert user.last["content"] == "Tea."
