"""The checkpointer of the fleet: LangGraph's conformance suite, and what is the fleet's own."""

import asyncio
from collections.abc import AsyncGenerator
from typing import Any, cast

import pytest
from langchain_core.messages import AIMessage
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.base.id import uuid6
from langgraph.checkpoint.conformance import checkpointer_test, validate
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import interrupt

from headrace import Agent, RunContext, agent
from headrace.adapters import langgraph_agent
from headrace.adapters.langgraph.saver import FleetSaver
from headrace.adapters.langgraph.store import FleetStore
from headrace.jetstream.agent_memory import AgentMemory
from headrace.jetstream.api import request, stream_info
from headrace.jetstream.connection import Bus
from headrace.model.memory import MemoryScope
from headrace.model.task import TaskKey, mint_task_id
from headrace.sdk.errors import Misused, RunOver
from headrace_worker.memory import AttemptMemory
from tests.integration.worker.conftest import Working
from tests.support.in_run import in_run
from tests.support.log_reading import answer, folded, state, words
from tests.support.task_submitter import TaskSubmitter

METADATA: Any = {"source": "loop", "step": 0, "parents": {}}


def attempt(submitter: TaskSubmitter, before: AttemptMemory | None = None) -> AttemptMemory:
    """Return the memory of an attempt at a new task's run, or at the one of an attempt `before`."""
    scope = before.scope if before else MemoryScope("default", "any", "ann", "c", mint_task_id(0))
    store, is_first = AgentMemory(submitter.bus), before is None
    writer = f"w{is_first}"
    return AttemptMemory(store, scope, writer, lambda: None, is_first=is_first, owner_seconds=None)


async def test_langgraphs_conformance_suite_passes(submitter: TaskSubmitter) -> None:
    @checkpointer_test(name="FleetSaver")
    async def fleet() -> AsyncGenerator[BaseCheckpointSaver[Any]]:
        yield FleetSaver()

    with in_run(attempt(submitter)):
        report = await validate(fleet)
    failures = {name: one.failures for name, one in report.results.items() if one.failures}
    assert failures == {}
    assert report.passed_all()


@pytest.fixture
def counted(submitter: TaskSubmitter, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The sizes of what is stored in the fleet's memory."""
    request, sizes = Bus.request, list[int]()

    async def noting(bus: Bus, subject: str, payload: bytes, *more: Any) -> Any:  # noqa: ANN401
        if subject.startswith(f"$KV.{submitter.bus.streams.memory}."):
            sizes.append(len(payload))
        return await request(bus, subject, payload, *more)

    monkeypatch.setattr(Bus, "request", noting)
    return sizes


async def test_a_step_is_one_message_without_large_values_that_stay(
    submitter: TaskSubmitter, counted: list[int]
) -> None:
    values: dict[str, Any] = {"large": "x" * 100_000, "small": "y", "count": 0}
    saver, config = FleetSaver(), at("t")
    with in_run(attempt(submitter)):
        for number in range(3):
            values["count"] = number
            versions: Any = {"large": 1, "small": 1, "count": number + 1}
            changed = versions if number == 0 else {"count": number + 1}
            config = await saver.aput(config, checkpoint(values, versions), METADATA, changed)
        first, *others = counted
        assert first > 100_000
        assert len(others) == 2
        assert max(others) < 2_000
        # As another process finds it.
        found = await FleetSaver().aget_tuple(at("t"))
    assert found is not None
    assert found.checkpoint["channel_values"] == values


async def test_what_later_checkpoints_need_of_removed_ones_stays(submitter: TaskSubmitter) -> None:
    values: dict[str, Any] = {"large": "x" * 100_000}
    saver, config = FleetSaver(), at("t")
    with in_run(attempt(submitter)):
        for number in range(4):
            about: Any = {**METADATA, "run_id": f"run{number}"}
            changed: Any = {} if number else {"large": 1}
            config = await saver.aput(config, checkpoint(values, {"large": 1}), about, changed)
        await saver.adelete_for_runs(["run0", "run2"])
        left = [one async for one in saver.alist(at("t"))]
        assert [one.metadata.get("run_id") for one in left] == ["run3", "run1"]
        assert [one.checkpoint["channel_values"] for one in left] == [values, values]
        await saver.aprune(["t"])
        [last] = [one async for one in saver.alist(at("t"))]
        assert last.config == config
        assert last.checkpoint["channel_values"] == values
        with pytest.raises(ValueError, match="must be 'keep_latest' or 'delete'"):
            await saver.aprune(["t"], strategy="some")


async def test_a_list_reads_as_many_large_checkpoints_as_are_asked_for(
    submitter: TaskSubmitter, monkeypatch: pytest.MonkeyPatch
) -> None:
    get, read = AgentMemory.get, list[str]()

    async def noting(memory: AgentMemory, scope: MemoryScope, key: str) -> Any:  # noqa: ANN401
        read.append(key)
        return await get(memory, scope, key)

    saver, config, stored = FleetSaver(), at("t"), list[RunnableConfig]()
    with in_run(attempt(submitter)):
        for number in range(4):
            values, versions = {"large": f"{number}" * 1_000_000}, cast("Any", {"large": number})
            config = await saver.aput(config, checkpoint(values, versions), METADATA, versions)
            stored.append(config)
        monkeypatch.setattr(AgentMemory, "get", noting)
        found = [one async for one in saver.alist(at("t"), limit=2)]
    assert [one.config for one in found] == stored[:1:-1]
    assert len(read) == 2


async def test_a_thread_goes_on_where_another_worker_has_removed_checkpoints(
    submitter: TaskSubmitter,
) -> None:
    values: dict[str, Any] = {"large": "x" * 100_000}
    first, second = FleetSaver(), FleetSaver()
    with in_run(attempt(submitter)):
        steps: Any = {"large": 1}, {}
        for changed in steps:
            before = await first.aget_tuple(at("t"))
            config = at("t") if before is None else before.config
            await first.aput(config, checkpoint(values, {"large": 1}), METADATA, changed)
        await second.aprune(["t"])
        before = await first.aget_tuple(at("t"))
        assert before is not None
        await first.aput(before.config, checkpoint(values, {"large": 1}), METADATA, {})
        last = await second.aget_tuple(at("t"))
    assert last is not None
    assert last.checkpoint["channel_values"] == values


@pytest.mark.parametrize("thread", [7, "ж" * 50, "a" * 100, "a/.*>", "é" * 300])
async def test_a_thread_has_any_name(submitter: TaskSubmitter, thread: Any) -> None:  # noqa: ANN401
    saver = FleetSaver()
    with in_run(attempt(submitter)):
        stored = await saver.aput(at(thread), checkpoint({"a": 1}, {"a": 1}), METADATA, {"a": 1})
        await saver.aput_writes(stored, [("a", 2)], "task" * 25)
        [found] = [one async for one in saver.alist(at(thread))]
        assert found.pending_writes == [("task" * 25, "a", 2)]
        await saver.adelete_thread(thread)
        assert await saver.aget_tuple(at(thread)) is None


async def test_a_tasks_thread_is_the_tasks_and_others_the_conversations(
    submitter: TaskSubmitter,
) -> None:
    one, other = attempt(submitter), attempt(submitter)
    names = {run: thread_in(run) for run in (one, other)}
    saver = FleetSaver()
    with in_run(one):
        for thread in (names[one], "chat"):
            await saver.aput(at(thread), checkpoint({"a": thread}, {"a": 1}), METADATA, {"a": 1})
        assert len([found async for found in saver.alist(None)]) == 2
    await AgentMemory(submitter.bus).erase(
        TaskKey("default", "any", str(one.scope.task)), is_deleted=False
    )
    with in_run(other):
        assert await saver.aget_tuple(at(names[one])) is None
        kept = await saver.aget_tuple(at("chat"))
        assert kept is not None
        await saver.acopy_thread("chat", names[other])
        copied = await saver.aget_tuple(at(names[other]))
        assert copied is not None
        assert copied.checkpoint == kept.checkpoint
        with pytest.raises(Misused, match="wrote the memory of another task"):
            await saver.acopy_thread("chat", names[one])


async def test_a_worker_that_lost_the_run_stores_no_checkpoint(submitter: TaskSubmitter) -> None:
    run = attempt(submitter)
    thread, saver = thread_in(run), FleetSaver()
    successor = attempt(submitter, run)
    with in_run(run):
        config = await saver.aput(at(thread), checkpoint({}, {}), METADATA, {})
    with in_run(successor):
        assert await saver.aget_tuple(at(thread)) is not None
    with in_run(run):
        with pytest.raises(RunOver):
            await saver.aput(config, checkpoint({}, {}), METADATA, {})
        with pytest.raises(RunOver):
            await saver.aput_writes(config, [("a", 1)], "task")


async def test_blocking_methods_work_from_threads_only(submitter: TaskSubmitter) -> None:
    saver, config = FleetSaver(), at("t")

    def use() -> Any:  # noqa: ANN401  # a CheckpointTuple
        stored = saver.put(config, checkpoint({"a": 1}, {"a": 1}), METADATA, {"a": 1})
        saver.put_writes(stored, [("a", 2)], "task")
        saver.copy_thread("t", "u")
        saver.prune(["u"])
        saver.delete_for_runs(["none"])
        [found] = saver.list(at("u"))
        saver.delete_thread("u")
        assert saver.get_tuple(at("u")) is None
        return found

    with in_run(attempt(submitter)):
        found = await asyncio.to_thread(use)
        assert found.checkpoint["channel_values"] == {"a": 1}
        assert found.pending_writes == [("task", "a", 2)]
        with pytest.raises(Misused, match="FleetSaver's blocking methods would block the worker"):
            saver.get_tuple(config)
        with pytest.raises(Misused, match="async methods work in the worker's event loop"):
            await asyncio.to_thread(asyncio.run, saver.aget_tuple(config))
    with pytest.raises(Misused, match="FleetSaver works within an agent's run only"):
        await saver.aget_tuple(config)


async def test_state_that_cannot_be_stored_is_named(submitter: TaskSubmitter) -> None:
    odd = checkpoint({"odd": object()}, {"odd": 1})
    with in_run(attempt(submitter)):
        with pytest.raises(Misused, match="the graph's 'odd' can't be stored") as refused:
            await FleetSaver().aput(at("t"), odd, METADATA, {"odd": 1})
        assert 'saver="graph" to keep the state' in str(refused.value)


async def test_agents_use_a_graph_of_their_own_with_the_conversations_thread(
    submitter: TaskSubmitter, working: Working
) -> None:
    async def count(held: MessagesState) -> Any:  # noqa: ANN401  # an update
        return {"messages": [AIMessage(str(len(held["messages"])))]}

    def chatting() -> Agent:
        builder: Any = StateGraph(MessagesState)
        builder.add_node("count", count)
        builder.add_edge(START, "count")
        graph = builder.compile(checkpointer=FleetSaver(), store=FleetStore())

        @agent()
        async def chat(ctx: RunContext) -> str:
            config: Any = {"configurable": {"thread_id": "chat"}}
            given: Any = {"messages": [("user", ctx.prompt)]}
            return str((await graph.ainvoke(given, config))["messages"][-1].text)

        return chat

    told = list[str]()
    for context in ("a", "a", "b"):
        async with working(chatting()):
            task = await submitter.start("chat", "hi", context=context)
            told.append(answer(await folded(task)))
    assert told == ["1", "3", "1"]


def at(thread: str) -> RunnableConfig:
    return {"configurable": {"thread_id": thread, "checkpoint_ns": ""}}


def thread_in(run: AttemptMemory) -> str:
    scope = run.scope
    return f"{scope.tenant}/{scope.owner}/{scope.agent}/{scope.context}/{scope.task}"


def checkpoint(values: dict[str, Any], versions: Any) -> Any:  # noqa: ANN401  # a Checkpoint
    return {
        "v": 1,
        "id": str(uuid6()),
        "ts": "2026-01-01T00:00:00+00:00",
        "channel_values": dict(values),
        "channel_versions": versions,
        "versions_seen": {},
        "updated_channels": None,
    }


async def test_a_question_stays_open_while_the_fleets_memory_is_full(
    submitter: TaskSubmitter, working: Working
) -> None:
    heard = list[str]()

    def ask(_: MessagesState) -> MessagesState:
        heard.append(interrupt("Sure?"))
        return {"messages": [AIMessage(f"You said {heard[-1]}.")]}

    builder: Any = StateGraph(MessagesState)
    builder.add_node("ask", ask)
    builder.add_edge(START, "ask")
    bus, stream = submitter.bus, f"KV_{submitter.bus.streams.memory}"
    async with working(langgraph_agent(builder.compile(), name="desk", memory="none")):
        task = await submitter.start("desk", "x")
        await task.ended()
        info = await stream_info(bus, stream)
        full = {**info["config"], "max_bytes": info["state"]["bytes"] + 1}
        await request(bus, f"STREAM.UPDATE.{stream}", full)
        await task.follow_up("no")
        refused = await folded(task)
        assert state(refused) == "INPUT_REQUIRED"
        assert "the fleet's memory is full" in words(refused)
        await request(bus, f"STREAM.UPDATE.{stream}", info["config"])
        await task.follow_up("yes")
        assert answer(await folded(task)) == "You said yes."
    assert heard == ["yes"]
