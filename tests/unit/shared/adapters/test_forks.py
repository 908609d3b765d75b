"""Adapters that remember go on, in a fork, from what they knew at its generation."""

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any, override

from a2a.helpers import get_message_text
from a2a.types import Part, Role

from headrace import Agent
from headrace.adapters.a2a.remote_events import remote_of
from headrace.model.events import Json
from headrace.model.fork import FORK_OF, ForkOf
from headrace.testing import TestFleet

if TYPE_CHECKING:
    from langgraph.checkpoint.memory import InMemorySaver


def listener() -> Agent:
    """Return an agent that says what it has heard."""
    from pydantic_ai import Agent as PydanticAgent
    from pydantic_ai.messages import ModelMessage, TextPart, UserPromptPart
    from pydantic_ai.models.function import AgentInfo, FunctionModel

    from headrace.adapters import pydantic_ai_agent

    def heard(messages: list[ModelMessage]) -> str:
        parts = [part for message in messages for part in message.parts]
        outputs = [p.content for p in parts if isinstance(p, TextPart | UserPromptPart)]
        return " | ".join(
            one if isinstance(one, str) else "".join(map(str, one)) for one in outputs
        )

    async def stream(messages: list[ModelMessage], _: AgentInfo) -> AsyncIterator[str]:
        yield f"[{heard(messages)}]"

    wrapped = PydanticAgent(FunctionModel(stream_function=stream))
    return pydantic_ai_agent(wrapped, name="listener")


def grocer(*, finishes: bool = True, saver: "InMemorySaver | None" = None) -> Agent:
    """Return a graph that asks twice, and keeps the list in its own state."""
    from langchain_core.messages import AIMessage, HumanMessage
    from langgraph.checkpoint.memory import InMemorySaver
    from langgraph.graph import END, START, MessagesState, StateGraph
    from langgraph.types import interrupt

    from headrace.adapters import langgraph_agent

    def ask(_: MessagesState) -> MessagesState:
        first = interrupt("What?")
        second = interrupt("What else?")
        return {"messages": [AIMessage(f"{first} and {second}")]}

    def count(state: MessagesState) -> MessagesState:
        users = [m for m in state["messages"] if isinstance(m, HumanMessage)]
        return {"messages": [AIMessage(f"after {len(users)} orders")]}

    graph: Any = StateGraph(MessagesState)
    graph.add_node("ask", ask)
    graph.add_node("count", count)
    graph.add_edge(START, "ask" if finishes else "count")
    graph.add_edge("ask", "count")
    graph.add_edge("count", END)
    compiled = graph.compile(checkpointer=saver or InMemorySaver())
    return langgraph_agent(compiled, name="grocer", memory="context")


async def test_a_model_gets_the_past_of_the_fork_and_nothing_after_it() -> None:
    async with TestFleet([listener()]) as fleet:
        first = (await fleet.send("listener", "one")).handle
        fork = await first.fork(None, "two")
        forked = await fork.result()
        other = await (await first.fork(1, "zwei")).result()
    assert forked.text.endswith("[one | [one] | two]")
    assert other.text == "[one | zwei]"


async def test_earlier_tasks_of_the_sources_conversation_belong_to_the_fork() -> None:
    async with TestFleet([listener()]) as fleet:
        before = await fleet.send("listener", "before", context="talk")
        source = (await fleet.send("listener", "one", context="talk")).handle
        fork = await source.fork(None, "two")
        await fork.result()
        after = await fleet.send("listener", "after", context="talk")
        again = await (await source.fork(1)).result()
        forked = await fork.now()
        beyond = await fleet.send("listener", "three", context=fork.context)
    assert before.text == "[before]"
    assert forked.text.endswith("[before | [before] | one | [before | [before] | one] | two]")
    # As it was then, not as it has become.
    assert again.text == "[before | [before] | one]"
    assert "two" not in after.text
    assert beyond.text.endswith(
        "two | [before | [before] | one | [before | [before] | one] | two] | three]"
    )


def historian() -> Agent:
    """Return an agent that answers with what its users have said in the task."""
    from a2a.server.agent_execution import AgentExecutor, RequestContext
    from a2a.server.events import EventQueue
    from a2a.server.tasks import TaskUpdater

    from headrace.adapters import executor_agent

    class Historian(AgentExecutor):
        @override
        async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
            assert context.task_id
            assert context.context_id
            received = context.current_task.history if context.current_task is not None else []
            text = [get_message_text(one) for one in received if one.role == Role.ROLE_USER]
            updater = TaskUpdater(event_queue, context.task_id, context.context_id)
            await updater.add_artifact([Part(text=f"[{' | '.join(text)}]")])
            await updater.complete()

        @override
        async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
            raise AssertionError(context.task_id)

    return executor_agent(Historian(), name="historian")


async def test_an_executor_sees_the_task_as_of_the_forks_generation() -> None:
    async with TestFleet([historian()]) as fleet:
        first = await fleet.send("historian", "one")
        # The fork of a task that is over is a task of two turns.
        source = await first.handle.fork(None, "two")
        before = await source.result()
        generation = first.task["metadata"]["headrace.generation"]
        forked = await (await source.fork(generation, "three")).result()
        after = await source.now()
    assert before.text.endswith("[one | two]")
    assert forked.text.endswith("[one | three]")
    assert after.task == before.task


async def test_a_graph_goes_on_from_the_checkpoint_of_the_generation() -> None:
    async with TestFleet([grocer()]) as fleet:
        task = (await fleet.send("grocer", "shop")).handle
        request = (await task.now()).task["metadata"]["headrace.generation"]
        second = (await task.reply("milk")).task["metadata"]["headrace.generation"]
        whole = await task.reply("bread")
        fork = await task.fork(request, "eggs")
        question = await fork.result()
        forked = await fork.reply("butter")
        later = await (await task.fork(second, "cheese")).result()
        same = await task.now()
    assert whole.text.startswith("milk and bread")
    assert question.state == "input-required"
    assert forked.text.startswith("eggs and butter")
    assert later.text.startswith("milk and cheese")
    assert same.text == whole.text


async def test_a_graph_that_was_finished_goes_on_from_its_last_state() -> None:
    async with TestFleet([grocer(finishes=False)]) as fleet:
        task = (await fleet.send("grocer", "one")).handle
        fork = await task.fork(None, "two")
        forked = await (await (await fork.result()).handle.fork(None, "three")).result()
    assert forked.text.endswith("after 3 orders")


async def test_a_graph_whose_own_memory_is_gone_gets_the_past_from_the_log() -> None:
    from langgraph.checkpoint.memory import InMemorySaver

    saver = InMemorySaver()
    async with TestFleet([grocer(finishes=False, saver=saver)]) as fleet:
        task = (await fleet.send("grocer", "one")).handle
        for thread in list(saver.storage):
            saver.delete_thread(thread)
        forked = await (await task.fork(None, "two")).result()
    assert forked.text.endswith("after 2 orders")


def test_the_outside_task_of_the_past_is_the_sources() -> None:
    def named(task: str) -> Json:
        status = {"state": "TASK_STATE_WORKING"}
        return {"statusUpdate": {"status": status, "metadata": {"remote_task": task}}}

    fork = ForkOf("0-" + "0" * 32, "c", 3, "2026-01-01T00:00:00Z", 3, "TASK_STATE_WORKING")
    log = [(1, {"task": {"metadata": {FORK_OF: fork.to_json()}}}), (2, named("theirs"))]
    assert remote_of(log) == ("", "")
    assert remote_of([*log, (4, named("own"))]) == ("own", "")
