"""A LangGraph graph, unchanged, in a worker."""

import asyncio
import itertools
import operator
from typing import Annotated, Any, TypedDict

import pytest

from headrace import Status
from headrace.model import parts
from headrace.model.events import INTERRUPTS, PENDING_TOOL_CALLS
from tests.integration.worker.adapters.behaviour import answered, cancel_waiting, interrupts
from tests.integration.worker.conftest import Working
from tests.support.examples import example
from tests.support.log_reading import (
    answer,
    calls,
    folded,
    results,
    said,
    state,
    thoughts,
    words,
)
from tests.support.task_submitter import TaskSubmitter

pytestmark = pytest.mark.usefixtures("task_state")


def chain(schema: Any, *nodes: Any, **compiled: Any) -> Any:  # noqa: ANN401  # LangGraph's types
    """Return a graph of functions, one after the other."""
    from langgraph.graph import END, START, StateGraph

    graph = StateGraph(schema)
    places = [START, *(node.__name__ for node in nodes), END]
    for node in nodes:
        graph.add_node(node.__name__, node)
    for before, after in itertools.pairwise(places):
        graph.add_edge(before, after)
    return graph.compile(**compiled)


def kinds(task: Any, kind: str) -> list[Any]:  # noqa: ANN401  # a task's JSON
    return [part for part in said(task) if parts.event_type(part) == kind]


async def test_the_example_requests_input_and_goes_on_with_the_answer(
    submitter: TaskSubmitter, working: Working
) -> None:
    async with working(example("graph_approval").refunds):
        task = await submitter.start("refunds", "Order 7")
        entries = await task.ended()
        request = await folded(task)
        assert (state(request), words(request)) == ("INPUT_REQUIRED", "Refund it?")
        assert answer(request) == "The order is fine. "
        [custom] = kinds(request, parts.CUSTOM)
        assert custom["data"] == {"checking": "Order 7"}
        [events] = entries[-1].events[-1]["statusUpdate"]["metadata"][INTERRUPTS]
        run = await task.follow_up("yes")
        await task.reaches(run + 2)
        done = await folded(task)
    assert events["metadata"] == {"value": {"question": "Refund it?"}}
    assert (state(done), answer(done)) == ("COMPLETED", "The order is fine. Refunded.")


async def test_an_interrupt_is_answered_by_its_id(
    submitter: TaskSubmitter, working: Working
) -> None:
    async with working(example("graph_approval").refunds):
        task = await submitter.start("refunds", "Order 7")
        last = (await task.events())[-1]["statusUpdate"]["metadata"]
        named = {
            "agui_interrupt_id": last[INTERRUPTS][0]["id"],
            "agui_resume_status": "resolved",
        }
        part = {"text": "no", "metadata": named}
        run = await task.follow_up_with({"messageId": "r", "role": "ROLE_USER", "parts": [part]})
        await task.reaches(run + 2)
        done = await folded(task)
    assert answer(done) == "The order is fine. Not refunded."


async def test_tokens_reasoning_tools_and_steps_of_a_graph_are_emitted(
    submitter: TaskSubmitter, working: Working
) -> None:
    from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
    from langchain_core.messages import AIMessage, ToolMessage
    from langgraph.config import get_stream_writer
    from langgraph.graph import MessagesState

    from headrace.adapters import langgraph_agent

    model = GenericFakeChatModel(messages=iter([AIMessage("hello big world")]))

    async def talk(prompts: MessagesState) -> Any:  # noqa: ANN401  # an update
        get_stream_writer()(Status("talking"))
        return {"messages": [await model.ainvoke(prompts["messages"])]}

    def work(_: MessagesState) -> Any:  # noqa: ANN401  # an update
        thought: Any = [{"type": "reasoning", "reasoning": "Hm."}]
        call: Any = {"name": "add", "args": {"a": 1}, "id": "c1"}
        broken: Any = {"name": "add", "args": {}, "id": "c2"}
        return {
            "messages": [
                AIMessage(thought, tool_calls=[call, broken]),
                ToolMessage("2", tool_call_id="c1"),
                ToolMessage("no number", tool_call_id="c2", status="error"),
            ]
        }

    graph = chain(MessagesState, talk, work)
    async with working(langgraph_agent(graph, name="g", memory="task")):
        task = await submitter.start("g", "hi")
        events = await task.events()
        done = await folded(task)
    assert (state(done), answer(done), thoughts(done)) == ("COMPLETED", "hello big world", "Hm.")
    chunks = [event for event in events if "artifactUpdate" in event]
    assert len(chunks) > 3
    assert calls(done) == [("add", {"a": 1}), ("add", {})]
    assert results(done) == [("2", ""), ("", "no number")]
    assert kinds(done, parts.TASK)[0]["text"] == "talking"
    steps = [part["metadata"]["agui_step_name"] for part in kinds(done, parts.STEP_FINISHED)]
    assert steps == ["talk", "work"]


class Shop(TypedDict, total=False):
    """A graph that takes no messages."""

    prompts: str
    price: int
    verdict: str


async def test_a_graph_of_another_shape_has_its_input_output_and_state_named(
    submitter: TaskSubmitter, working: Working
) -> None:
    from headrace.adapters import langgraph_agent

    def price(_: Shop) -> Shop:
        return {"price": 3}

    def judge(shop: Shop) -> Shop:
        return {"verdict": f"{shop['prompts']} costs {shop['price']}"}

    served = langgraph_agent(
        chain(Shop, price, judge),
        name="g",
        input_of=lambda ctx: {"prompts": ctx.prompt},
        output="verdict",
        state_keys=["price"],
    )
    async with working(served):
        done = await folded(await submitter.start("g", "tea"))
    assert answer(done) == "tea costs 3"
    assert [part["data"] for part in kinds(done, parts.STATE_SNAPSHOT)] == [{"price": 3}]


async def test_output_that_is_no_json_becomes_text(
    submitter: TaskSubmitter, working: Working
) -> None:
    from langchain_core.messages import AIMessage
    from langgraph.config import get_stream_writer
    from langgraph.graph import MessagesState

    from headrace.adapters import langgraph_agent

    class Odd:
        def __str__(self) -> str:
            return "odd"

    class Box(MessagesState):
        thing: Any

    def put(_: Box) -> Any:  # noqa: ANN401  # an update
        get_stream_writer()({"thing": Odd()})
        return {"messages": [AIMessage("Put.")], "thing": Odd()}

    served = langgraph_agent(
        chain(Box, put), name="g", memory="task", state_keys=["thing"], saver="graph"
    )
    async with working(served):
        done = await folded(await submitter.start("g", "x"))
    assert (state(done), answer(done)) == ("COMPLETED", "Put.")
    assert kinds(done, parts.STATE_SNAPSHOT)[-1]["data"] == {"thing": "odd"}


async def test_state_is_emitted_after_reducers_and_taken_from_the_client(
    submitter: TaskSubmitter, working: Working
) -> None:
    from langgraph.checkpoint.memory import InMemorySaver
    from langgraph.graph import MessagesState

    from headrace.adapters import langgraph_agent

    class Basket(MessagesState):
        """A graph that shares a list with user interfaces."""

        items: Annotated[list[str], operator.add]
        tools: list[Any]

    offered: list[list[str]] = []

    def add(basket: Basket) -> Any:  # noqa: ANN401  # an update
        offered.append([each["name"] for each in basket["tools"]])
        return {"items": [f"tea {len(basket['items'])}"]}

    served = langgraph_agent(
        chain(Basket, add, checkpointer=InMemorySaver()), name="g", state_keys=["items"]
    )

    def sent(*items: str) -> Any:  # noqa: ANN401  # metadata
        tools = [{"name": "paint", "description": "", "parameters": {}}]
        state = {"items": [*items], "page": 1, "messages": ["forged"]}
        return {"headrace.agui": {"state": state, "tools": tools}}

    async with working(served):
        turns = [("milk",), ("milk", "tea 1"), ("tea 1",)]
        done = [
            await folded(await submitter.start("g", "tea", context="c", metadata=sent(*items)))
            for items in turns
        ]
    received = [kinds(task, parts.STATE_SNAPSHOT)[-1]["data"]["items"] for task in done]
    assert received == [["milk", "tea 1"], ["milk", "tea 1", "tea 2"], ["tea 1", "tea 1"]]
    assert offered == [["paint"]] * 3


async def test_a_call_of_the_clients_tool_is_left_to_the_client(
    submitter: TaskSubmitter, working: Working
) -> None:
    from langchain_core.messages import AIMessage, ToolMessage
    from langgraph.checkpoint.memory import InMemorySaver
    from langgraph.graph import MessagesState

    from headrace.adapters import langgraph_agent

    received: list[str] = []

    def talk(prompts: MessagesState) -> Any:  # noqa: ANN401  # an update
        last = prompts["messages"][-1]
        received.append(f"{last.type}: {last.text}")
        call: Any = {"name": "paint", "args": {"colour": "red"}, "id": "p1"}
        is_answered = isinstance(last, ToolMessage)
        return {
            "messages": [AIMessage("Done.") if is_answered else AIMessage("", tool_calls=[call])]
        }

    served = langgraph_agent(chain(MessagesState, talk, checkpointer=InMemorySaver()), name="g")
    agui = {"headrace.agui": {"tools": [{"name": "paint", "description": "", "parameters": {}}]}}
    async with working(served):
        task = await submitter.start("g", "Paint.", metadata=agui)
        waits = (await task.events())[-1]["statusUpdate"]
        assert waits["metadata"][PENDING_TOOL_CALLS] == ["p1"]
        result = {
            "data": {"tool_call_id": "p1", "content": "wet", "error": ""},
            "metadata": {"agui_event_type": "tool_call", "agui_is_error": False},
        }
        done = await answered(task, result, agui)
    assert (state(done), answer(done)) == ("COMPLETED", "Done.")
    assert received == ["human: Paint.", "tool: wet"]


async def test_a_graph_without_a_checkpointer_gets_the_earlier_messages(
    submitter: TaskSubmitter, working: Working
) -> None:
    from langchain_core.messages import AIMessage
    from langgraph.graph import MessagesState

    from headrace.adapters import langgraph_agent

    received: list[list[str]] = []

    class Count(MessagesState):
        counted: dict[str, int]

    def listen(prompts: Count) -> Any:  # noqa: ANN401  # an update
        received.append([message.text for message in prompts["messages"]])
        return {"messages": [AIMessage(f"{len(received)}.")], "counted": {"n": len(received)}}

    graph = chain(Count, listen)
    async with working(langgraph_agent(graph, name="g", output="counted", saver="graph")):
        task = await submitter.start("g", "one")
        await task.ended()
        await (await submitter.start("g", "two", context=task.context)).ended()
    assert received == [["one"], ["one", "1.", "two"]], "as a graph with a checkpointer has them"


async def test_a_new_attempt_goes_on_behind_the_graphs_last_step(
    submitter: TaskSubmitter, working: Working
) -> None:
    from langchain_core.messages import AIMessage
    from langgraph.checkpoint.memory import InMemorySaver
    from langgraph.graph import MessagesState

    from headrace.adapters import langgraph_agent

    received: list[list[str]] = []
    reached = asyncio.Event()

    async def count(prompts: MessagesState) -> Any:  # noqa: ANN401  # an update
        received.append([message.text for message in prompts["messages"]])
        return {"messages": [AIMessage(f"answer {len(prompts['messages'])}. ")]}

    async def pause(_: MessagesState) -> Any:  # noqa: ANN401  # an update
        if len(received) == 2 and not reached.is_set():
            reached.set()
            await asyncio.Event().wait()
        return {"messages": [AIMessage("Over. ")]}

    graph = chain(MessagesState, count, pause, checkpointer=InMemorySaver())
    served = langgraph_agent(graph, name="g")
    async with working(served):
        await (await submitter.start("g", "one", context="c")).ended()
        task = await submitter.start("g", "two", context="c")
        async with asyncio.timeout(60):
            await reached.wait()
    # That worker has left amid the second run; another takes it up.
    async with working(served):
        await task.ended()
        done = await folded(task)
    assert received == [["one"], ["one", "answer 1. ", "Over. ", "two"]]
    assert answer(done) == "answer 4. Over. "


async def test_agents_that_share_a_saver_share_no_thread(
    submitter: TaskSubmitter, working: Working
) -> None:
    from langchain_core.messages import AIMessage
    from langgraph.checkpoint.memory import InMemorySaver
    from langgraph.graph import MessagesState

    from headrace.adapters import langgraph_agent

    received: list[list[str]] = []

    def listen(prompts: MessagesState) -> Any:  # noqa: ANN401  # an update
        received.append([message.text for message in prompts["messages"]])
        return {"messages": [AIMessage("Noted.")]}

    saver = InMemorySaver()
    graphs = [chain(MessagesState, listen, checkpointer=saver) for _ in "ab"]
    served = [langgraph_agent(graph, name=name) for graph, name in zip(graphs, "ab", strict=True)]
    async with working(*served):
        await (await submitter.start("a", "It is 1234.", context="c")).ended()
        await (await submitter.start("b", "What is it?", context="c")).ended()
        await (await submitter.start("a", "What is it?", context="c", owner="eve")).ended()
    assert received == [["It is 1234."], ["What is it?"], ["What is it?"]]


async def test_a_canceled_tasks_interrupt_is_nobodys(
    submitter: TaskSubmitter, working: Working
) -> None:
    async with working(example("graph_approval").refunds):
        first = await submitter.start("refunds", "Order 7", context="c")
        await interrupts(first)
        await cancel_waiting(first)
        second = await submitter.start("refunds", "yes", context="c")
        await interrupts(second)
        request = await folded(second)
    assert (state(request), answer(request)) == ("INPUT_REQUIRED", "The order is fine. ")


async def test_an_interrupt_is_resumed_by_its_own_task_alone(
    submitter: TaskSubmitter, working: Working
) -> None:
    async with working(example("graph_approval").refunds):
        tasks = [await submitter.start("refunds", f"Order {n}", context="c") for n in "12"]
        [first], [second] = [await interrupts(task) for task in tasks]
        part = {"text": "yes", "metadata": {"agui_interrupt_id": first["id"]}}
        request = await answered(tasks[1], part)
        assert (state(request), answer(request)) == ("INPUT_REQUIRED", "The order is fine. ")
        part["metadata"] = {"agui_interrupt_id": second["id"]}
        done = await answered(tasks[1], part)
    assert answer(done) == "The order is fine. Refunded."


async def test_only_the_named_nodes_answer(submitter: TaskSubmitter, working: Working) -> None:
    from langchain_core.messages import AIMessage
    from langgraph.graph import MessagesState

    from headrace.adapters import langgraph_agent

    def inner(_: MessagesState) -> Any:  # noqa: ANN401  # an update
        return {"messages": [AIMessage("draft")]}

    def outer(_: MessagesState) -> Any:  # noqa: ANN401  # an update
        return {"messages": [AIMessage("final")]}

    served = langgraph_agent(
        chain(MessagesState, inner, outer), name="g", answer_from=["outer"], memory="task"
    )
    async with working(served):
        done = await folded(await submitter.start("g", "x"))
    assert answer(done) == "final"


async def test_several_interrupts_are_all_emitted(
    submitter: TaskSubmitter, working: Working
) -> None:
    from langchain_core.messages import AIMessage
    from langgraph.checkpoint.memory import InMemorySaver
    from langgraph.graph import START, MessagesState, StateGraph
    from langgraph.types import interrupt

    from headrace.adapters import langgraph_agent

    def first(_: MessagesState) -> Any:  # noqa: ANN401  # an update
        return {"messages": [AIMessage(f"a={interrupt('a?')} ")]}

    def second(_: MessagesState) -> Any:  # noqa: ANN401  # an update
        return {"messages": [AIMessage(f"b={interrupt('b?')} ")]}

    graph: Any = StateGraph(MessagesState)
    graph.add_node("first", first)
    graph.add_node("second", second)
    graph.add_edge(START, "first")
    graph.add_edge(START, "second")
    served = langgraph_agent(graph.compile(checkpointer=InMemorySaver()), name="g")
    async with working(served):
        task = await submitter.start("g", "x")
        request = (await task.events())[-1]["statusUpdate"]["metadata"][INTERRUPTS]
        answers = [
            {"text": each["message"].upper(), "metadata": {"agui_interrupt_id": each["id"]}}
            for each in request
        ]
        run = await task.follow_up_with({"messageId": "r", "role": "ROLE_USER", "parts": answers})
        await task.reaches(run + 3)
        done = await folded(task)
    assert sorted(answer(done).split()) == ["a=A?", "b=B?"]
