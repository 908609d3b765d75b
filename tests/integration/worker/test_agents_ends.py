"""However an agent ends, its log says so: well, badly, asked to stop, or asking."""

import asyncio
import logging
import re
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from headrace import (
    Agent,
    Complete,
    Data,
    Emission,
    File,
    InputRequired,
    MalformedOutput,
    Message,
    Reject,
    RunContext,
    Text,
    ToolArguments,
    ToolCall,
    ToolResult,
    agent,
)
from headrace.adapters.conversation.of_log import turns_of_log
from headrace.model.events import Json
from headrace.model.task import BARE_MESSAGE, CANCELED, COMPLETED, FAILED, INPUT_REQUIRED, REJECTED
from headrace.sdk.agent import AgentFunction
from headrace_worker.timing import Timing
from tests.integration.worker.conftest import Spawn, Working
from tests.support.log_reading import folded, state
from tests.support.task_submitter import Task, TaskSubmitter
from tests.support.waiting import eventually, soon


def end_of(events: list[Json]) -> tuple[str, str]:
    """Return the last status's state and its message's text."""
    status = events[-1]["statusUpdate"]["status"]
    text = status.get("message", {}).get("parts", [{}])[0].get("text", "")
    return status["state"], text


async def ended(
    submitter: TaskSubmitter, working: Working, served: Agent, text: str = "x"
) -> list[Json]:
    async with working(served):
        task = await submitter.start(served.name, text)
        return await task.events()


def texts(events: list[Json]) -> list[str]:
    return [
        e["artifactUpdate"]["artifact"]["parts"][0]["text"] for e in events if "artifactUpdate" in e
    ]


async def test_a_coroutine_that_returns_text_has_answered(
    submitter: TaskSubmitter, working: Working
) -> None:
    @agent()
    async def returning(ctx: RunContext) -> str:
        await ctx.emit("one, ")
        return f"{ctx.prompt}, three"

    events = await ended(submitter, working, returning, "two")
    assert texts(events) == ["one, ", "two, three"]
    assert end_of(events)[0] == COMPLETED


async def test_an_agent_that_emits_nothing_completes(
    submitter: TaskSubmitter, working: Working
) -> None:
    @agent()
    async def silent(_: RunContext) -> None:
        pass

    events = await ended(submitter, working, silent)
    assert len(events) == 3
    assert end_of(events) == (COMPLETED, "")


async def test_an_agent_that_yields_nothing_completes(
    submitter: TaskSubmitter, working: Working
) -> None:
    @agent(name="speechless")
    async def speechless(_: RunContext) -> AsyncIterator[Emission]:
        never: tuple[str, ...] = ()
        for output in never:
            yield output

    async with working(speechless):
        task = await submitter.start("speechless")
        assert [entry.stamp.state for entry in await task.ended()][-1] == COMPLETED


async def test_an_exception_fails_the_task_with_an_id_that_the_log_explains(
    submitter: TaskSubmitter, working: Working, caplog: pytest.LogCaptureFixture
) -> None:
    @agent()
    async def broken(_: RunContext) -> AsyncIterator[Emission]:
        yield "so far "
        raise ValueError("the database password is hunter2")

    events = await ended(submitter, working, broken)
    state, output = end_of(events)
    assert texts(events) == ["so far "]
    assert state == FAILED
    assert "hunter2" not in output
    [error_id] = re.findall(r"error ([0-9a-f]{8})", output)
    [record] = [r for r in caplog.records if error_id in r.getMessage()]
    assert record.exc_info
    assert isinstance(record.exc_info[1], ValueError)
    assert events[0]["task"]["id"] in record.getMessage()


async def _raises_in_clean_up(_: RunContext) -> AsyncIterator[Emission]:
    try:
        yield "x"
    finally:
        raise ValueError("unclean")


async def _exits(_: RunContext) -> AsyncIterator[Emission]:
    yield "x"
    sys.exit(3)


async def _interrupts(_: RunContext) -> AsyncIterator[Emission]:
    yield "x"
    raise KeyboardInterrupt


async def _cancels_itself(_: RunContext) -> AsyncIterator[Emission]:
    yield "x"
    raise asyncio.CancelledError


@pytest.mark.parametrize("function", [_raises_in_clean_up, _exits, _interrupts, _cancels_itself])
async def test_whatever_an_agent_raises_ends_its_own_task_only(
    function: AgentFunction, submitter: TaskSubmitter, working: Working
) -> None:
    served = agent(name="bad")(function)
    async with working(served):
        for _ in range(2):
            task = await submitter.start("bad")
            assert end_of(await task.events())[0] == FAILED


async def test_an_agents_own_task_that_exits_ends_no_worker(
    submitter: TaskSubmitter, spawn: Spawn, tmp_path: Path
) -> None:
    worker = await asyncio.to_thread(spawn, "tests.support.exiting_tasks:agents")
    bystanders = [await submitter.start("patient", str(tmp_path / "go")) for _ in range(2)]
    for word in ("3", "KeyboardInterrupt"):
        awaiting = await submitter.start("awaiting", word)
        state, output = end_of(await awaiting.events())
        assert (state, "; only its run ends" in output) == (FAILED, True)
        forgetting = await submitter.start("forgetting", word)
        assert texts(await forgetting.events()) == ["stayed"]
    (tmp_path / "go").touch()
    for task in bystanders:
        assert texts(await task.events()) == ["waiting", ", stayed"]
        assert {entry.stamp.attempt for entry in await task.ended()} <= {0, 1}

    def told() -> list[str]:
        pattern = r"a task of an agent raised (\w+);.*\(exiting_tasks\.py:\d+\)"
        return re.findall(pattern, worker.output())

    await soon(lambda: len(told()) >= 4, "all are logged")
    assert told() == ["SystemExit"] * 2 + ["KeyboardInterrupt"] * 2
    await asyncio.to_thread(worker.stop)
    assert worker.output().count(" serves ") == 1


async def _a_number(_: RunContext) -> AsyncIterator[Any]:
    yield 42


async def _a_wrong_field(_: RunContext) -> AsyncIterator[Any]:
    yield Text(5)  # type: ignore[arg-type]


async def _no_json(_: RunContext) -> AsyncIterator[Emission]:
    yield ToolCall("f", {"x": object()})


async def _a_number_too_large(_: RunContext) -> AsyncIterator[Emission]:
    yield Data({"wei": 10**400})


async def _too_much(_: RunContext) -> AsyncIterator[Emission]:
    yield Data({"big": "x" * 2_000_000})


async def _a_block_twice(_: RunContext) -> AsyncIterator[Emission]:
    yield Text("a", block="one", end=True)
    yield Text("b", block="one")


async def _a_block_closed_twice(_: RunContext) -> AsyncIterator[Emission]:
    yield Text("a", block="one", end=True)
    yield Text("", block="one", end=True)


async def _a_checkpoint_after_the_end(ctx: RunContext) -> None:
    await ctx.emit(Complete("done"))
    await ctx.checkpoint(1)


async def _a_checkpoint_amid_arguments(ctx: RunContext) -> None:
    await ctx.emit(ToolArguments("call", '{"x":', "f"))
    await ctx.checkpoint(1)


async def _more_after_the_end(_: RunContext) -> AsyncIterator[Emission]:
    yield Complete("done")
    yield "and"


async def _an_undeclared_message(_: RunContext) -> AsyncIterator[Emission]:
    yield Message("hi")


async def _a_file_of_nothing(_: RunContext) -> AsyncIterator[Emission]:
    yield File("empty")


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        (_a_number, "can't yield int; allowed: str, Thinking"),
        (_a_wrong_field, "Text.text must be a string, not int"),
        (_no_json, "ToolCall must be JSON"),
        (_a_number_too_large, "wei must be an integer of at most 1.8e308"),
        (_too_much, "exceeds the limit"),
        (_a_block_twice, "has ended"),
        (_a_block_closed_twice, "has ended"),
        (_a_checkpoint_after_the_end, "a checkpoint after the run's end"),
        (_a_checkpoint_amid_arguments, "inside a tool call's arguments"),
        (_more_after_the_end, "after the run's end"),
        (_an_undeclared_message, "only allowed if the agent declares it"),
        (_a_file_of_nothing, "either content or a URL"),
    ],
)
async def test_malformed_output_fails_the_task_with_the_reason(
    function: AgentFunction, reason: str, submitter: TaskSubmitter, working: Working
) -> None:
    events = await ended(submitter, working, agent(name="odd")(function))
    state, output = end_of(events)
    assert state == FAILED
    assert "malformed" in output
    assert reason in output


async def test_arguments_of_any_length_are_in_the_log(
    submitter: TaskSubmitter, working: Working
) -> None:
    arguments = {"text": "ü" * 1_000_000, "number": 2**64}

    @agent()
    async def writer(_: RunContext) -> AsyncIterator[Emission]:
        yield ToolCall("write", arguments, "c1")
        yield ToolResult("c1", "written")

    async with working(writer):
        task = await submitter.start("writer", "x")
        log = await task.ended()
    assert state(await folded(task)) == "COMPLETED"
    _, response, result = turns_of_log(log)
    assert [(call.id, call.name, call.arguments) for call in response.calls] == [
        ("c1", "write", arguments)
    ]
    assert (result.result and result.result.id) == "c1"


async def test_an_agent_may_correct_output_that_was_reported_as_malformed(
    submitter: TaskSubmitter, working: Working
) -> None:
    @agent()
    async def careful(ctx: RunContext) -> None:
        try:
            await ctx.emit(Data({"big": "x" * 2_000_000}))
        except MalformedOutput:
            await ctx.emit("it was too big")

    events = await ended(submitter, working, careful)
    assert texts(events) == ["it was too big"]
    assert end_of(events)[0] == COMPLETED


async def test_long_text_becomes_several_events(submitter: TaskSubmitter, working: Working) -> None:
    long = "".join(f"{n:07} " for n in range(40_000))

    @agent()
    async def verbose(_: RunContext) -> AsyncIterator[Emission]:
        yield long

    events = await ended(submitter, working, verbose)
    assert "".join(texts(events)) == long
    assert len(texts(events)) == 5


@pytest.mark.parametrize(
    ("output", "state", "text"),
    [
        (Complete("All done."), COMPLETED, "All done."),
        (Reject("Not my department."), REJECTED, "Not my department."),
        (InputRequired("Who are you?", {"type": "string"}), INPUT_REQUIRED, "Who are you?"),
    ],
)
async def test_an_agent_states_how_it_ends(
    output: Emission, state: str, text: str, submitter: TaskSubmitter, working: Working
) -> None:
    @agent()
    async def ending(_: RunContext) -> AsyncIterator[Emission]:
        yield output

    events = await ended(submitter, working, ending)
    assert end_of(events) == (state, text)
    message = events[-1]["statusUpdate"]["status"]["message"]
    schema = {"headrace.inputSchema": {"type": "string"}} if state == INPUT_REQUIRED else None
    assert message.get("metadata") == schema


@agent(bare_message=True)
async def terse(ctx: RunContext) -> Message:
    """Answers with a bare Message."""
    await asyncio.sleep(float(ctx.prompt))
    return Message("hi")


async def test_a_bare_message_ends_the_log(submitter: TaskSubmitter, working: Working) -> None:
    async with working(terse, timing=Timing(bare_message=60.0)):
        task = await submitter.start("terse", "0")
        *_, last = await task.ended()
    assert last.stamp.state == BARE_MESSAGE
    assert last.events[-1]["message"]["parts"] == [{"text": "hi"}]
    assert last.events[-1]["message"]["metadata"] == {"headrace.generation": 3}


async def test_a_message_that_comes_after_the_task_was_shown_completes_it(
    submitter: TaskSubmitter, working: Working
) -> None:
    async with working(terse):
        slow = await submitter.start("terse", "1.6")
        shown = await submitter.start("terse", "0", metadata={"headrace.shown": True})
        for task in (shown, slow):
            assert end_of(await task.events()) == (COMPLETED, "hi")


async def test_a_cancelled_agent_cleans_up_and_the_log_confirms(
    submitter: TaskSubmitter, working: Working
) -> None:
    @agent()
    async def tidy(ctx: RunContext) -> AsyncIterator[Emission]:
        try:
            yield "begun "
            await asyncio.sleep(600)
        except asyncio.CancelledError:
            await asyncio.sleep(0.05)
            await ctx.emit("cleaned up")
            raise

    async with working(tidy):
        task = await submitter.start("tidy")
        events = await _cancelled(task)
    assert texts(events) == ["begun ", "cleaned up"]
    assert end_of(events)[0] == CANCELED
    assert await eventually(task.is_off_the_queue)


async def test_an_agent_that_ignores_its_cancellation_is_left_behind(
    submitter: TaskSubmitter, working: Working, caplog: pytest.LogCaptureFixture
) -> None:
    over = asyncio.Event()

    @agent()
    async def ignores_cancel(ctx: RunContext) -> None:
        while not over.is_set():
            try:
                await over.wait()
            except asyncio.CancelledError:
                await ctx.emit("never ")

    async with working(ignores_cancel, cleanup_seconds=0.2):
        task = await submitter.start("ignores-cancel")
        events = await _cancelled(task)
        assert end_of(events)[0] == CANCELED
        assert "did not stop after it was canceled" in caplog.text
        over.set()


async def test_an_agent_that_raises_when_it_is_cancelled_is_canceled_all_the_same(
    submitter: TaskSubmitter, working: Working, caplog: pytest.LogCaptureFixture
) -> None:
    @agent()
    async def clumsy(ctx: RunContext) -> None:
        await ctx.emit("begun ")
        try:
            await asyncio.sleep(600)
        finally:
            raise ValueError("dropped a plate")

    async with working(clumsy):
        task = await submitter.start("clumsy")
        events = await _cancelled(task)
    assert end_of(events)[0] == CANCELED
    [record] = [each for each in caplog.records if "clean-up" in each.getMessage()]
    assert task.key.task in record.getMessage()
    assert "dropped a plate" in caplog.text
    assert "plate" not in str(events)


async def test_a_cancel_that_comes_too_late_changes_nothing(
    submitter: TaskSubmitter, working: Working
) -> None:
    @agent()
    async def quick(_: RunContext) -> str:
        await asyncio.sleep(0.3)
        return "done"

    async with working(quick):
        task = await submitter.start("quick")
        entries = await task.ended()
        # Who has just let go may have the question and say nothing: that is waited for no longer.
        await task.ask("cancel", 0.5)
        assert len(await task.entries()) == len(entries)
    assert entries[-1].stamp.state == COMPLETED


async def test_what_agents_log_names_their_task(
    submitter: TaskSubmitter, working: Working, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "headrace.agent")

    @agent()
    async def logging_agent(ctx: RunContext) -> None:
        ctx.log.info("looking into it")

    events = await ended(submitter, working, logging_agent)
    assert f"task {events[0]['task']['id']}: looking into it" in caplog.text


async def _cancelled(task: Task) -> list[Json]:
    await task.reaches(2)
    held = await task.held()
    answer = await task.ask("cancel")
    assert answer is not None
    assert (answer.accepted, answer.writer) == (True, held.writer)
    return await task.events()
