"""An answer whose question the graph no longer knows: refused, with the question kept."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from headrace import Agent, Retry
from headrace.model.events import INTERRUPTS, REFUSED, Json
from tests.integration.worker.adapters.behaviour import answered, interrupts
from tests.integration.worker.adapters.office import Office
from tests.integration.worker.conftest import Spawn, Working
from tests.support.log_reading import answer, folded, state, words
from tests.support.task_submitter import Task, TaskSubmitter, user_message
from tests.support.waiting import eventually

pytestmark = pytest.mark.usefixtures("task_state")


def build(url: str, office: Office) -> Agent:
    """Make the agent for a process of its own."""
    del url, office
    return Desk().serve()


class Desk:
    """A graph that asks before it refunds; each `serve` is another process's own."""

    def __init__(self) -> None:
        """Note what its nodes are given."""
        self.heard: list[str] = []
        self.answers: list[str] = []
        self.gate: asyncio.Event | None = None

    def serve(self, saver: Any = None, node: str = "decide", **options: Any) -> Agent:  # noqa: ANN401  # LangGraph's
        """Return the agent, with a saver of its own."""
        from langchain_core.messages import AIMessage
        from langgraph.checkpoint.memory import InMemorySaver
        from langgraph.graph import END, START, MessagesState, StateGraph
        from langgraph.types import interrupt

        from headrace.adapters import langgraph_agent

        async def decide(held: MessagesState) -> Any:  # noqa: ANN401  # an update
            self.heard.append(held["messages"][-1].text)
            said = interrupt({"question": f"Refund {self.heard[-1]}?"})
            self.answers.append(said)
            if self.gate is not None:
                self.gate.set()
                await asyncio.Event().wait()
            return {"messages": [AIMessage(f"Refunded: {said}.")]}

        graph: Any = StateGraph(MessagesState)
        graph.add_node(node, decide)
        graph.add_edge(START, node)
        graph.add_edge(node, END)
        if saver is None:
            saver = InMemorySaver()
        compiled = graph.compile(checkpointer=saver or None, **options)
        own: Any = "graph"
        return langgraph_agent(compiled, name="desk", saver=own, retry=Retry(backoff=0.0))


async def refused(task: Task) -> Json:
    """Return the metadata of a task's last status, once that repeats a question."""
    last = (await task.events())[-1]["statusUpdate"]
    assert last["status"]["state"] == "TASK_STATE_INPUT_REQUIRED"
    metadata: Json = last["metadata"]
    return metadata


async def test_an_answer_elsewhere_is_refused_and_used_where_the_question_is_known(
    submitter: TaskSubmitter, working: Working
) -> None:
    desk = Desk()
    here, elsewhere = desk.serve(), desk.serve()
    async with working(here):
        task = await submitter.start("desk", "order 7")
        asked = await interrupts(task)
    async with working(elsewhere):
        for _ in range(2):
            again = await answered(task, {"text": "yes"})
            told = await refused(task)
            assert told[INTERRUPTS] == asked
            assert "InMemorySaver keeps it in one process" in told[REFUSED]
            assert 'use the fleet\'s (saver="fleet"), or one' in told[REFUSED]
            assert words(again) == f"{told[REFUSED]}\nRefund order 7?"
    assert (desk.heard, desk.answers) == (["order 7"], [])
    async with working(here):
        done = await answered(task, {"text": "yes"})
    assert (state(done), answer(done)) == ("COMPLETED", "Refunded: yes.")
    assert set(desk.heard) == {"order 7"}


async def test_an_answer_that_was_under_way_when_its_worker_died_keeps_the_question(
    submitter: TaskSubmitter, working: Working
) -> None:
    desk = Desk()
    desk.gate = asyncio.Event()
    async with working(desk.serve()):
        task = await submitter.start("desk", "order 7")
        asked = await interrupts(task)
        await task.follow_up("yes")
        async with asyncio.timeout(60):
            await desk.gate.wait()
    async with working(desk.serve()):
        told = await refused(task)
    assert told[INTERRUPTS] == asked
    assert "the graph's state is lost here" in told[REFUSED]
    assert (set(desk.heard), desk.answers) == ({"order 7"}, ["yes"])


@pytest.mark.parametrize("when", ["interrupt_before", "interrupt_after"])
async def test_an_answer_to_a_breakpoint_that_is_gone_is_refused(
    submitter: TaskSubmitter, working: Working, when: str
) -> None:
    from langgraph.checkpoint.memory import InMemorySaver
    from langgraph.graph import START, MessagesState, StateGraph

    from headrace.adapters import langgraph_agent

    heard: list[str] = []

    def serve() -> Agent:
        def hear(held: MessagesState) -> Any:  # noqa: ANN401  # an update
            heard.append(held["messages"][-1].text)
            return {}

        graph: Any = StateGraph(MessagesState)
        for name in "ab":
            graph.add_node(name, hear)
        graph.add_edge(START, "a")
        graph.add_edge("a", "b")
        stops: Any = {when: ["b" if when == "interrupt_before" else "a"]}
        compiled = graph.compile(checkpointer=InMemorySaver(), **stops)
        return langgraph_agent(compiled, name="desk", saver="graph")

    async with working(serve()):
        task = await submitter.start("desk", "order 7")
        asked = await interrupts(task)
    async with working(serve()):
        await answered(task, {"text": "yes"})
        told = await refused(task)
    assert (told[INTERRUPTS], heard) == (asked, ["order 7"])
    assert "the graph's state is lost here" in told[REFUSED]


async def test_an_answer_to_a_node_that_the_graph_no_longer_has_is_refused(
    submitter: TaskSubmitter, working: Working
) -> None:
    from langgraph.checkpoint.memory import InMemorySaver

    desk, saver = Desk(), InMemorySaver()
    async with working(desk.serve(saver)):
        task = await submitter.start("desk", "order 7")
        asked = await interrupts(task)
    async with working(desk.serve(saver, "resolve")):
        await answered(task, {"text": "yes"})
        told = await refused(task)
    assert (told[INTERRUPTS], desk.heard) == (asked, ["order 7"])
    assert "in a node that the graph no longer has" in told[REFUSED]
    async with working(desk.serve(saver)):
        done = await answered(task, {"text": "yes"})
    assert (state(done), answer(done)) == ("COMPLETED", "Refunded: yes.")


async def test_a_shared_checkpointer_without_the_thread_is_named(
    submitter: TaskSubmitter, working: Working, tmp_path: Path
) -> None:
    from tests.integration.worker.adapters.file_saver import FileSaver

    desk = Desk()
    async with working(desk.serve(FileSaver(tmp_path / "one"))):
        task = await submitter.start("desk", "order 7")
        await interrupts(task)
    async with working(desk.serve(FileSaver(tmp_path / "another"))):
        await answered(task, {"text": "yes"})
        told = await refused(task)
    assert "the checkpointer FileSaver does not have the graph's state" in told[REFUSED]
    async with working(desk.serve(FileSaver(tmp_path / "one"))):
        done = await answered(task, {"text": "yes"})
    assert answer(done) == "Refunded: yes."


async def test_a_question_without_a_checkpointer_fails_the_task_with_that_reason(
    submitter: TaskSubmitter, working: Working
) -> None:
    desk = Desk()
    async with working(desk.serve(saver=False)):
        task = await submitter.start("desk", "order 7")
        await task.ended()
        done = await folded(task)
    assert state(done) == "FAILED"
    assert "has no checkpointer to resume from; use the fleet's" in words(done)


async def test_a_question_of_a_graph_that_has_lost_its_checkpointer_stays_open(
    submitter: TaskSubmitter, working: Working
) -> None:
    from langgraph.checkpoint.memory import InMemorySaver

    desk, saver = Desk(), InMemorySaver()
    async with working(desk.serve(saver)):
        task = await submitter.start("desk", "order 7")
        asked = await interrupts(task)
    async with working(desk.serve(saver=False)):
        await answered(task, {"text": "yes"})
        told = await refused(task)
    assert (told[INTERRUPTS], desk.heard) == (asked, ["order 7"])
    async with working(desk.serve(saver)):
        done = await answered(task, {"text": "yes"})
    assert answer(done) == "Refunded: yes."


async def test_the_worker_names_at_its_start_memory_that_lives_in_one_process(
    spawn: Spawn, tmp_path: Path
) -> None:
    target = "tests.integration.worker.adapters.serving:agents"
    worker = spawn(target, adapter=__name__, model="none", office=tmp_path)
    said = "WARNING agent desk: InMemorySaver keeps the graph's state in one process"

    async def is_said() -> bool:
        return said in worker.output()

    await eventually(is_said, said)
    assert '(use the fleet\'s (saver="fleet"), or one that all workers' in worker.output()


async def test_a_client_tools_result_elsewhere_continues_from_the_log(
    submitter: TaskSubmitter, working: Working
) -> None:
    from langchain_core.messages import AIMessage
    from langgraph.checkpoint.memory import InMemorySaver
    from langgraph.graph import END, START, MessagesState, StateGraph

    from headrace.adapters import langgraph_agent
    from headrace.model import parts

    received: list[list[str]] = []

    def serve() -> Agent:
        def model(held: MessagesState) -> Any:  # noqa: ANN401  # an update
            received.append([f"{each.type}: {each.text}" for each in held["messages"]])
            if held["messages"][-1].type == "tool":
                return {"messages": [AIMessage("Painted.")]}
            call: Any = {"name": "paint", "args": {}, "id": "p1"}
            return {"messages": [AIMessage("", tool_calls=[call])]}

        graph: Any = StateGraph(MessagesState)
        graph.add_node("model", model)
        graph.add_edge(START, "model")
        graph.add_edge("model", END)
        return langgraph_agent(graph.compile(checkpointer=InMemorySaver()), name="desk")

    paint = {"name": "paint", "description": "", "parameters": {"type": "object"}}
    agui = {"headrace.agui": {"tools": [paint]}}
    async with working(serve()):
        task = await submitter.start("desk", message=user_message("Paint it."), metadata=agui)
        await task.ended()
    async with working(serve()):
        done = await answered(task, parts.tool_result_part("p1", "wet"), agui)
    assert (state(done), answer(done)) == ("COMPLETED", "Painted.")
    assert received[1] == ["human: Paint it.", "ai: ", "tool: wet"]


async def test_a_first_run_that_another_worker_takes_over_begins_again(
    submitter: TaskSubmitter, working: Working
) -> None:
    from langchain_core.messages import AIMessage
    from langgraph.checkpoint.memory import InMemorySaver
    from langgraph.graph import END, START, MessagesState, StateGraph

    from headrace.adapters import langgraph_agent

    received: list[list[str]] = []
    reached = asyncio.Event()

    def serve(*, hangs: bool) -> Agent:
        async def hear(held: MessagesState) -> Any:  # noqa: ANN401  # an update
            received.append([each.text for each in held["messages"]])
            if hangs and received[-1][-1] == "two":
                reached.set()
                await asyncio.Event().wait()
            return {"messages": [AIMessage("Heard.")]}

        graph: Any = StateGraph(MessagesState)
        graph.add_node("hear", hear)
        graph.add_edge(START, "hear")
        graph.add_edge("hear", END)
        return langgraph_agent(graph.compile(checkpointer=InMemorySaver()), name="desk")

    async with working(serve(hangs=True)):
        await (await submitter.start("desk", "one", context="c")).ended()
        task = await submitter.start("desk", "two", context="c")
        async with asyncio.timeout(60):
            await reached.wait()
    async with working(serve(hangs=False)):
        await task.ended()
        done = await folded(task)
    assert (state(done), answer(done)) == ("COMPLETED", "Heard.")
    assert received[-1] == ["one", "Heard.", "two"]
