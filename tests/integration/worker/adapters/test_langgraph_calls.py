"""Tool calls of LangChain's models in every form that integrations give them."""

from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest

from headrace import Agent
from headrace.adapters.conversation.of_log import turns_of_log
from headrace.model import parts
from headrace.model.events import PENDING_TOOL_CALLS
from tests.integration.worker.adapters.behaviour import answered
from tests.integration.worker.conftest import Working
from tests.support.log_reading import answer, folded, state
from tests.support.task_submitter import Task, TaskSubmitter, user_message

pytestmark = pytest.mark.usefixtures("task_state")

type Piece = dict[str, Any]

OSLO = {"name": "city", "args": '{"name":"oslo"}', "id": "A"}
ROME = {"name": "city", "args": '{"name":"rome"}', "id": "B"}

FORMS: dict[str, list[list[Piece]]] = {
    "an index each": [[{**OSLO, "index": 0}], [{**ROME, "index": 1}]],
    "one index": [[{**OSLO, "index": 0}], [{**ROME, "index": 0}]],
    "one index, one chunk": [[{**OSLO, "index": 0}, {**ROME, "index": 0}]],
    "no index": [[{**OSLO, "index": None}], [{**ROME, "index": None}]],
    "no index, one chunk": [[{**OSLO, "index": None}, {**ROME, "index": None}]],
    "interleaved": [
        [{**OSLO, "args": '{"name":', "index": 0}, {**ROME, "args": "{", "index": 1}],
        [{"name": None, "args": '"oslo"}', "id": None, "index": 0}],
        [{"name": None, "args": '"name":"rome"}', "id": None, "index": 1}],
    ],
    "an id that comes late": [
        [{**OSLO, "args": '{"name":', "id": None, "index": 0}],
        [{"name": None, "args": '"oslo"}', "id": "A", "index": 0}],
        [{**ROME, "index": 1}],
    ],
    "a name that comes late": [
        [{"name": None, "args": "", "id": "A", "index": 0}],
        [{**OSLO, "id": None, "index": 0}, {**ROME, "index": 1}],
    ],
}


def agent(responses: Sequence[list[list[Piece]]], *, saves: bool = True) -> Agent:
    """Return an agent whose model calls tools as `responses` say, then says what it has read."""
    from langchain_core.language_models.chat_models import BaseChatModel
    from langchain_core.messages import AIMessage, AIMessageChunk, ToolMessage
    from langchain_core.outputs import ChatGenerationChunk, ChatResult
    from langchain_core.tools import tool
    from langgraph.checkpoint.memory import InMemorySaver
    from langgraph.graph import END, START, MessagesState, StateGraph
    from langgraph.prebuilt import ToolNode

    from headrace.adapters import langgraph_agent

    class Model(BaseChatModel):
        @property
        def _llm_type(self) -> str:
            return "scripted"

        def _generate(self, *_: object, **__: object) -> ChatResult:
            raise NotImplementedError

        async def _astream(
            self, messages: list[Any], *_: object, **__: object
        ) -> AsyncIterator[ChatGenerationChunk]:
            asked = sum(isinstance(each, AIMessage) for each in messages)
            if asked < len(responses):
                for pieces in responses[asked]:
                    chunk: Any = [{"type": "tool_call_chunk", **piece} for piece in pieces]
                    yield ChatGenerationChunk(
                        message=AIMessageChunk(content="", tool_call_chunks=chunk)
                    )
                return
            read = [f"{m.tool_call_id}={m.text}" for m in messages if isinstance(m, ToolMessage)]
            yield ChatGenerationChunk(message=AIMessageChunk(content=" ".join(read)))

    @tool
    def city(name: str) -> str:
        """Say it loudly."""
        return name.upper()

    async def ask(held: MessagesState) -> Any:  # noqa: ANN401  # an update
        return {"messages": [await Model().ainvoke(held["messages"])]}

    def goes_on(held: MessagesState) -> str:
        last: Any = held["messages"][-1]
        offered = {"city"}
        return "tools" if {call["name"] for call in last.tool_calls} & offered else END

    graph: Any = StateGraph(MessagesState)
    graph.add_node("model", ask)
    graph.add_node("tools", ToolNode([city]))
    graph.add_edge(START, "model")
    graph.add_conditional_edges("model", goes_on)
    graph.add_edge("tools", "model")
    saver = InMemorySaver() if saves else None
    return langgraph_agent(graph.compile(checkpointer=saver), name="g")


@pytest.mark.parametrize("saves", [True, False], ids=["saver", "no saver"])
@pytest.mark.parametrize("form", FORMS)
async def test_each_call_of_a_response_stands_in_the_log_with_its_result(
    submitter: TaskSubmitter, working: Working, form: str, *, saves: bool
) -> None:
    async with working(agent([FORMS[form]], saves=saves)):
        task = await submitter.start("g", "Go.")
        found, done = await logged(task), await folded(task)
    assert (state(done), answer(done)) == ("COMPLETED", "A=OSLO B=ROME")
    assert found == {"A": ({"name": "oslo"}, "OSLO"), "B": ({"name": "rome"}, "ROME")}


@pytest.mark.parametrize("saves", [True, False], ids=["saver", "no saver"])
@pytest.mark.parametrize("index", [0, None])
async def test_ids_that_recur_in_a_run_are_unique_in_the_log(
    submitter: TaskSubmitter, working: Working, index: int | None, *, saves: bool
) -> None:
    first = {**OSLO, "id": "call_1", "index": index}
    second = {**ROME, "id": "call_1", "index": index}
    async with working(agent([[[first]], [[second]]], saves=saves)):
        task = await submitter.start("g", "Go.")
        found, done = await logged(task), await folded(task)
    assert (state(done), answer(done)) == ("COMPLETED", "call_1=OSLO call_1=ROME")
    assert found == {
        "call_1": ({"name": "oslo"}, "OSLO"),
        "call_1.2": ({"name": "rome"}, "ROME"),
    }


async def test_one_id_for_two_calls_of_a_response_is_two_in_the_log(
    submitter: TaskSubmitter, working: Working
) -> None:
    both = [{**OSLO, "id": "call_1", "index": 0}, {**ROME, "id": "call_1", "index": 1}]
    async with working(agent([[both]])):
        found = await logged(await submitter.start("g", "Go."))
    assert list(found) == ["call_1", "call_1.2"]
    assert sorted(result for _, result in found.values()) == ["OSLO", "ROME"]


async def test_a_clients_result_reaches_the_call_whose_id_recurs(
    submitter: TaskSubmitter, working: Working
) -> None:
    paint = {"name": "paint", "args": "{}", "id": "call_1", "index": 0}
    tools = [{"name": "paint", "description": "", "parameters": {"type": "object"}}]
    agui = {"headrace.agui": {"tools": tools}}
    script = [[[{**OSLO, "id": "call_1", "index": 0}]], [[paint]]]
    async with working(agent(script)):
        task = await submitter.start("g", message=user_message("Go."), metadata=agui)
        waits = (await task.events())[-1]["statusUpdate"]["metadata"]
        assert waits[PENDING_TOOL_CALLS] == ["call_1.2"]
        done = await answered(task, parts.tool_result_part("call_1.2", "wet"), agui)
    assert (state(done), answer(done)) == ("COMPLETED", "call_1=OSLO call_1=wet")


async def logged(task: Task) -> dict[str, tuple[Any, Any]]:
    """Return the arguments and the result of each call in a task's log, by id, once it rests."""
    turns = turns_of_log(await task.ended())
    found = {turn.result.id: turn.result.content for turn in turns if turn.result is not None}
    given = [call for turn in turns for call in turn.calls]
    assert len(given) == len({call.id for call in given})
    return {call.id: (call.arguments, found.get(call.id)) for call in given}
