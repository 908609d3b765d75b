"""An agent that sleeps holds no worker, and wakes once, whatever dies meanwhile."""

import asyncio
import time
from collections.abc import AsyncIterator
from datetime import UTC, datetime, tzinfo

import pytest
from prometheus_client import REGISTRY

from headrace import Limits, RunContext, agent, clock
from headrace.model import events
from headrace.model.entry import Entry
from headrace.model.fold import TaskFold
from headrace.model.run import Run
from headrace.model.sleep import asleep_until, sleep_of
from headrace.model.task import CANCELED, COMPLETED, FAILED
from headrace.tasks.cancel import cancel_task
from headrace.tasks.runs import RunRequests
from headrace_worker import claim
from headrace_worker.timing import Timing
from tests.integration.worker.conftest import Spawn, Working
from tests.support.task_submitter import Task, TaskSubmitter
from tests.support.waiting import eventually

BRISK = Timing(waking=0.05)
SLEEPERS = 200


@agent
async def dormouse(ctx: RunContext) -> AsyncIterator[str]:
    """Sleeps for as many seconds as its message says, twice."""
    for _ in range(2):
        yield f"{ctx.new_id('nap')} "
        await ctx.sleep(float(ctx.prompt))
    yield "awake"


@agent
async def bear(ctx: RunContext) -> str:
    """Sleeps for longer than a worker holds a sleeper."""
    await ctx.sleep(7)
    return "awake"


@agent
async def marmot(ctx: RunContext) -> AsyncIterator[str]:
    """Sleeps before each of three pieces of work, and saves which are done."""
    for done in range(ctx.checkpoint_data or 0, 3):
        await ctx.sleep(0.3)
        yield f"{done} "
        await ctx.checkpoint(done + 1)


@agent(limits=Limits(timeout=1.0))
async def sloth(ctx: RunContext) -> None:
    """Sleeps longer than it may take."""
    await ctx.sleep(3600)


def said(entries: list[Entry]) -> str:
    fold = TaskFold()
    for entry in entries:
        fold.apply_entry(entry)
    return "".join(part["text"] for a in fold.task()["artifacts"] for part in a["parts"])


def attempts(entries: list[Entry]) -> int:
    return entries[-1].stamp.attempt


def taken_over() -> float:
    """Return how many sleepers' runs this process has taken over from another worker."""
    labels = {"agent": "dormouse", "version": "1.0.0"}
    return REGISTRY.get_sample_value("headrace_runs_taken_over_total", labels) or 0


async def asleep(task: Task) -> datetime:
    """Return until when the task sleeps, once it does."""

    async def look() -> datetime | None:
        entries = await task.entries()
        return asleep_until(entries[-1].events[-1])

    return await eventually(look, "the task sleeps")


async def test_a_sleeping_agent_leaves_its_place_to_others_and_goes_on_after_each_sleep(
    submitter: TaskSubmitter, working: Working, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(claim, "MOST_ATTEMPTS", 1)  # attempts for a sleep do not count
    before = taken_over()
    async with working(dormouse, timing=BRISK, concurrency=1):
        sleeper = await submitter.start("dormouse", "2")
        await asleep(sleeper)
        quick = await submitter.start("dormouse", "0")
        assert (await quick.ended())[-1].stamp.state == COMPLETED
        assert not (await sleeper.last()).ends_run
        entries = await sleeper.ended()
    assert entries[-1].stamp.state == COMPLETED
    assert len(said(entries).split()) == 3
    assert attempts(entries) == 3
    assert taken_over() == before
    slept = [found for entry in entries for one in entry.events if (found := sleep_of(one))]
    assert len(dict(slept)) == len(slept) == 2


async def test_all_sleepers_wake_on_another_worker_after_theirs_was_killed(
    submitter: TaskSubmitter, spawn: Spawn
) -> None:
    target = "tests.integration.worker.test_sleeping:bear"
    first = await asyncio.to_thread(spawn, target, concurrency=2)
    tasks = await asyncio.gather(*(submitter.start("bear") for _ in range(SLEEPERS)))
    await asyncio.gather(*map(asleep, tasks))
    await asyncio.to_thread(first.kill)
    await asyncio.to_thread(spawn, target, concurrency=2)
    for task in tasks:
        entries = await task.ended()
        assert entries[-1].stamp.state == COMPLETED
        assert said(entries) == "awake"
        ends = [sleep_of(one) for entry in entries for one in entry.events]
        assert len(list(filter(None, ends))) == 1


async def test_a_run_that_is_delivered_while_it_sleeps_goes_on_sleeping(
    submitter: TaskSubmitter, working: Working
) -> None:
    async with working(dormouse, timing=BRISK, concurrency=1):
        task = await submitter.start("dormouse", "3600")
        until = await asleep(task)
        assert until > datetime.now(UTC)
        # As task state does for a run that the queue has lost.
        subject = submitter.bus.subjects.runs_of_task(task.key)
        await submitter.bus.js.purge_stream(submitter.bus.streams.runs, subject=subject)
        again = Run(task.key, 1, task.log, task.context, task.owner)
        await RunRequests(submitter.bus).publish(again)

        async def is_delivered() -> bool:
            [consumer] = await submitter.bus.js.consumers_info(submitter.bus.streams.runs)
            return bool(consumer.delivered and consumer.delivered.consumer_seq == 2)

        await eventually(is_delivered, "the worker has got it again")
        # The worker has one place, so it is done with the sleeper before it ends another task.
        quick = await submitter.start("dormouse", "0")
        await quick.ended()
        assert attempts(await task.entries()) == 1

        async def is_alone() -> bool:
            info = await submitter.bus.js.stream_info(submitter.bus.streams.runs)
            return info.state.messages == 1

        await eventually(is_alone, "the other run has left the queue")
        # The fleet's figures count it among the runs that workers have (`running`).
        [consumer] = await submitter.bus.js.consumers_info(submitter.bus.streams.runs)
        assert (consumer.num_ack_pending, consumer.num_pending) == (1, 0)


async def test_a_task_may_be_canceled_while_it_sleeps(
    submitter: TaskSubmitter, working: Working
) -> None:
    async with working(dormouse, timing=BRISK):
        task = await submitter.start("dormouse", "3600")
        await asleep(task)
        await cancel_task(submitter.bus, task.key, "gateway-test")
        assert (await task.last()).stamp.state == CANCELED
        await eventually(task.is_off_the_queue, "its run is gone")


async def test_a_sleep_past_the_deadline_ends_with_it(
    submitter: TaskSubmitter, working: Working
) -> None:
    async with working(sloth, timing=BRISK):
        entries = await (await submitter.start("sloth")).ended()
    assert entries[-1].stamp.state == FAILED
    status = entries[-1].events[-1]["statusUpdate"]["status"]
    assert "within 1 s" in status["message"]["parts"][0]["text"]


async def test_sleeps_at_once_end_one_after_the_other(
    submitter: TaskSubmitter, working: Working
) -> None:
    @agent
    async def pair(ctx: RunContext) -> str:
        await asyncio.gather(ctx.sleep(0.5), ctx.sleep(1.5))
        return "awake"

    async with working(pair, timing=BRISK):
        entries = await (await submitter.start("pair")).ended()
    assert entries[-1].stamp.state == COMPLETED
    assert attempts(entries) == 3


async def test_an_attempt_begins_with_the_first_sleep_after_the_checkpoint(
    submitter: TaskSubmitter, working: Working
) -> None:
    async with working(marmot, timing=BRISK):
        entries = await (await submitter.start("marmot")).ended()
    assert said(entries).split() == ["0", "1", "2"]
    ends = [sleep_of(one) for entry in entries for one in entry.events]
    assert len(dict(filter(None, ends))) == 3
    assert attempts(entries) == 4


async def test_a_short_sleep_stays_on_the_worker(
    submitter: TaskSubmitter, working: Working
) -> None:
    async with working(dormouse):
        entries = await (await submitter.start("dormouse", "0.1")).ended()
    assert attempts(entries) == 1
    assert not any(events.HANDED_BACK in str(one) for entry in entries for one in entry.events)


@pytest.mark.parametrize("seconds", ["nan", "inf", "1e300", "31536001"])
async def test_an_impossible_duration_of_sleep_is_refused(
    submitter: TaskSubmitter, working: Working, seconds: str
) -> None:
    async with working(dormouse):
        entries = await (await submitter.start("dormouse", seconds)).ended()
    assert entries[-1].stamp.state == FAILED


@pytest.mark.parametrize("step", [-3600.0, 3600.0], ids=["back", "ahead"])
async def test_a_sleep_lasts_as_long_although_its_workers_clock_is_set(
    submitter: TaskSubmitter,
    working: Working,
    monkeypatch: pytest.MonkeyPatch,
    step: float,
) -> None:
    machine, shift = time.time, [0.0]

    class SetClock:
        """The machine's time, which somebody sets."""

        @staticmethod
        def now(zone: tzinfo) -> datetime:
            return datetime.fromtimestamp(time.time(), zone)

    monkeypatch.setattr(time, "time", lambda: machine() + shift[0])
    monkeypatch.setattr(clock, "datetime", SetClock)
    async with working(dormouse, timing=BRISK):
        task = await submitter.start("dormouse", "1.5")
        began = await task.reaches(3)
        shift[0] = step
        ended = (await task.ended())[-1]
    slept = datetime.fromisoformat(ended.time) - datetime.fromisoformat(began.time)
    assert ended.stamp.state == COMPLETED
    assert 2.5 < slept.total_seconds() < 60
