"""Cancelling, as gateways do it, in every state that a task can be in: one end, in the log."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import cast

import pytest

from headrace import Emission, InputRequired, Retry, Retryable, RunContext, agent
from headrace.log import TailRule
from headrace.model.entry import Entry
from headrace.model.messages import GetTask, TaskFound
from headrace.model.queues import RunQueue
from headrace.model.subjects import NORMAL
from headrace.model.task import CANCELED, COMPLETED, TERMINAL
from headrace.state_client import StateClient
from headrace.tasks.admission import Scope, read_figures
from headrace.tasks.cancel import CancelTiming
from headrace.tasks.runs import ensure_queue
from headrace_gateway.background_work import BackgroundWork
from headrace_gateway.feeds import Feeds
from headrace_gateway.refusals import TaskEnded
from headrace_gateway.server.auth.caller import Caller
from headrace_gateway.tasks.cancel import TaskCanceler
from tests.integration.worker.conftest import UNHURRIED, Spawn, Working
from tests.integration.worker.test_follow_ups import REPEATERS, by_id, hand_in
from tests.support.task_submitter import Task, TaskSubmitter
from tests.support.waiting import eventually


class State:
    """Answers as task state does, from one task's log."""

    def __init__(self, task: Task) -> None:
        self._task = task

    async def get(self, _: GetTask) -> TaskFound:
        return await self._task.found()


@asynccontextmanager
async def canceling(task: Task, timing: CancelTiming) -> AsyncIterator[TaskCanceler]:
    rule = TailRule(task.bus)
    await rule.start()
    background = BackgroundWork()
    feeds = Feeds(task.bus, rule, 1 << 20, background)
    yield TaskCanceler(task.bus, feeds, cast("StateClient", State(task)), background, timing)
    await rule.stop()


async def cancel(task: Task, timing: CancelTiming = UNHURRIED) -> str:
    """Cancel the task; return the state that the caller is told."""
    async with canceling(task, timing) as gateway:
        found = await gateway.cancel(Caller(), task.key)
        return found.state


def ends(entries: list[Entry]) -> list[str]:
    """Return every terminal state that the log names: one."""
    statuses = [e.get("statusUpdate", {}).get("status", {}) for x in entries for e in x.events]
    return [status["state"] for status in statuses if status.get("state") in TERMINAL]


@agent()
async def patient(_: RunContext) -> AsyncIterator[Emission]:
    """Says one thing and waits to be stopped."""
    yield "begun"
    await asyncio.sleep(600)


async def test_a_running_task_is_canceled_by_its_holder_after_clean_up(
    submitter: TaskSubmitter, working: Working
) -> None:
    cleaned: list[bool] = []

    @agent()
    async def tidy(_: RunContext) -> AsyncIterator[Emission]:
        try:
            yield "begun"
            await asyncio.sleep(600)
        finally:
            await asyncio.sleep(0.2)
            cleaned.append(True)

    async with working(tidy):
        task = await submitter.start("tidy")
        await task.held()
        assert await cancel(task) == CANCELED
        assert cleaned == [True]
    assert ends(await task.entries()) == [CANCELED]
    assert (await task.last()).stamp.writer.startswith("worker-")


async def test_an_agent_that_raises_in_its_clean_up_is_canceled_and_the_worker_goes_on(
    submitter: TaskSubmitter, working: Working
) -> None:
    @agent()
    async def clumsy(ctx: RunContext) -> AsyncIterator[Emission]:
        try:
            yield "begun"
            await asyncio.sleep(600 if ctx.prompt else 0)
        finally:
            if ctx.prompt:
                raise RuntimeError("dropped it")

    async with working(clumsy):
        task = await submitter.start("clumsy", "wait")
        await task.held()
        assert await cancel(task) == CANCELED
        after = await submitter.start("clumsy")
        assert (await after.ended())[-1].stamp.state == COMPLETED
    assert ends(await task.entries()) == [CANCELED]


async def test_a_queued_task_is_canceled_and_never_begun(
    submitter: TaskSubmitter, working: Working
) -> None:
    await ensure_queue(submitter.bus, RunQueue("patient"))
    task = await submitter.start("patient")
    assert await cancel(task) == CANCELED
    async with working(patient):
        await eventually(task.is_off_the_queue)
    assert len(await task.entries()) == 2


@pytest.mark.parametrize("priority", [NORMAL, "low"])
async def test_what_is_canceled_while_it_waits_waits_no_more_though_no_worker_lives(
    submitter: TaskSubmitter, priority: str
) -> None:
    queue = RunQueue("patient", priority=priority)
    await ensure_queue(submitter.bus, queue)
    others = [await submitter.start_in(queue, "") for _ in range(2)]
    task = await submitter.start_in(queue, "")
    assert await cancel(task) == CANCELED
    assert await task.runs_waiting() == len(others)

    async def are_counted() -> bool:
        figures = await read_figures(submitter.bus, 60.0)
        return figures.waiting[Scope("patient")] == len(others)

    await eventually(are_counted, "only the others are counted as waiting")


async def test_a_task_between_two_attempts_is_canceled(
    submitter: TaskSubmitter, working: Working
) -> None:
    @agent(retry=Retry(backoff=30.0))
    async def flaky(_: RunContext) -> None:
        raise Retryable

    async with working(flaky):
        task = await submitter.start("flaky")
        await task.reaches(3)
        assert await cancel(task) == CANCELED
        await eventually(task.is_off_the_queue)
    assert [entry.stamp.attempt for entry in await task.entries()] == [0, 1, 1, 0]


async def test_a_task_that_waits_for_its_user_is_canceled(
    submitter: TaskSubmitter, working: Working
) -> None:
    @agent()
    async def asking(_: RunContext) -> AsyncIterator[Emission]:
        yield InputRequired("Well?")

    async with working(asking):
        task = await submitter.start("asking")
        await task.ended()
        assert await cancel(task) == CANCELED


async def test_a_task_that_waits_for_credentials_is_canceled(
    submitter: TaskSubmitter, working: Working
) -> None:
    @agent()
    async def guarded(ctx: RunContext) -> None:
        await ctx.auth_required("A token, please")

    async with working(guarded):
        task = await submitter.start("guarded")
        await task.held()
        assert await cancel(task) == CANCELED
    assert (await task.last()).stamp.writer.startswith("worker-")


async def test_a_task_of_a_stopped_worker_is_canceled_without_it(
    submitter: TaskSubmitter, spawn: Spawn
) -> None:
    worker = await asyncio.to_thread(spawn, REPEATERS)
    task = await submitter.start("guarded", "x")
    held = await task.held()
    await asyncio.to_thread(by_id([worker], held.worker).freeze)
    assert await cancel(task, CancelTiming()) == CANCELED
    worker.thaw()
    await eventually(lambda: _nobody_answers(task))
    entries = await task.entries()
    assert ends(entries) == [CANCELED]
    assert entries[-1].stamp.writer.startswith("gateway-")


async def test_messages_that_wait_end_with_their_task(
    submitter: TaskSubmitter, working: Working
) -> None:
    async with working(patient):
        task = await submitter.start("patient")
        await task.held()
        await hand_in(task, "more")
        assert await cancel(task) == CANCELED
    assert {entry.stamp.run for entry in await task.entries()} == {1}


async def test_two_gateways_that_cancel_at_once_get_the_same_result(
    submitter: TaskSubmitter, working: Working
) -> None:
    async with working(patient):
        task = await submitter.start("patient")
        await task.held()
        assert set(await asyncio.gather(cancel(task), cancel(task))) == {CANCELED}
    assert ends(await task.entries()) == [CANCELED]


@pytest.mark.parametrize("millisecond", range(0, 60, 6))
async def test_a_cancel_that_races_with_the_end_leaves_one_end(
    millisecond: int, submitter: TaskSubmitter, working: Working
) -> None:
    @agent()
    async def quick(_: RunContext) -> AsyncIterator[Emission]:
        for number in range(5):
            yield f"{number} "
            await asyncio.sleep(0.01)

    async with working(quick):
        task = await submitter.start("quick")
        await asyncio.sleep(millisecond / 1000)
        try:
            received = await cancel(task)
        except TaskEnded:
            received = COMPLETED
        entries = await task.ended()
    assert ends(entries) == [received]
    assert entries[-1].stamp.state in {CANCELED, COMPLETED}


async def test_a_cancel_reaches_the_run_that_has_just_followed(
    submitter: TaskSubmitter, working: Working
) -> None:
    @agent(follow_ups="interrupt")
    async def busy(ctx: RunContext) -> AsyncIterator[Emission]:
        yield ctx.prompt
        try:
            await asyncio.sleep(600)
        finally:
            # The cancel comes while the first run gives way to the second.
            await asyncio.sleep(0.3 if ctx.run == 1 else 0)

    async with working(busy):
        task = await submitter.start("busy", "one")
        await task.held()
        await hand_in(task, "two")
        assert await cancel(task) == CANCELED
    assert ends(await task.entries()) == [CANCELED]


async def _nobody_answers(task: Task) -> bool:
    return await task.ask("who") is None


async def test_a_holder_gets_the_time_that_its_setting_gives_its_agent_to_clean_up(
    submitter: TaskSubmitter, working: Working
) -> None:
    """Whoever cancels does not know the worker's settings: the holder says how long it may take."""

    @agent()
    async def tidy(ctx: RunContext) -> AsyncIterator[Emission]:
        try:
            yield "at work "
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(1.5)
            await ctx.emit("cleaned up")

    async with working(tidy, cleanup_seconds=60.0):
        task = await submitter.start("tidy")
        await task.held()
        await task.reaches(3)
        hasty = replace(UNHURRIED, cleanup=0.1)
        assert await cancel(task, hasty) == CANCELED
        entries = await task.ended()
    assert ends(entries) == [CANCELED]
    assert any(b"cleaned up" in line for entry in entries for line in entry.lines)
