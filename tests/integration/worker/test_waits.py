"""An agent that waits holds no worker, and gets each source's first event in every attempt."""

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta

import pytest

from headrace import RunContext, Webhook, agent
from headrace.model import events
from headrace.model.entry import Entry
from headrace.model.queues import RunQueue
from headrace.model.sleep import asleep_for, asleep_until
from headrace.model.step import ShownStep, StepRecord
from headrace.model.task import CANCELED, COMPLETED, FAILED
from headrace.model.wait import SourceEvent, arrived, waited_for
from headrace.tasks import wake as waking
from headrace.tasks.cancel import cancel_task
from headrace.tasks.continue_ import QueuedInput, queue_input
from headrace.tasks.runs import RunQueues, release
from headrace.tasks.wake import NotWaiting, OpenRun, wake
from headrace_worker.timing import Timing
from tests.integration.worker.conftest import Spawn, Working
from tests.integration.worker.test_sleeping import attempts, said
from tests.support.task_submitter import Task, TaskSubmitter, user_message
from tests.support.waiting import eventually

BRISK = Timing(waking=0.05)
TARGET = "tests.integration.worker.test_waits:"


@agent
async def clerk(ctx: RunContext) -> str:
    """Waits for a payment for half an hour."""
    paid = await ctx.wait(Webhook("paid"), timeout=timedelta(minutes=30))
    return f"got {paid.text}"


@agent
async def reminder(ctx: RunContext) -> AsyncIterator[str]:
    """Waits twice, the second time for as long as it takes."""
    try:
        event = await ctx.wait(Webhook("paid"), timeout=0.3)
    except TimeoutError as error:
        yield f"{error}; "
        event = await ctx.wait(Webhook("paid"))
    yield event.text


@agent
async def both(ctx: RunContext) -> str:
    """Waits for two events at the same time."""
    first, second = await asyncio.gather(ctx.wait(Webhook("a")), ctx.wait(Webhook("b")))
    return first.text + second.text


@agent
async def either(ctx: RunContext) -> str:
    """Waits for the first of two events, twice."""
    first = await ctx.wait(Webhook("a"), Webhook("b"))
    again = await ctx.wait(Webhook("b"), Webhook("a"), timeout=0.2)
    return f"{first.source.source} {again.source.source}"


async def asleep(task: Task) -> datetime:
    """Return until when the task sleeps, once it does and its queue has it back."""

    async def look() -> datetime | None:
        entries = await task.entries()
        return asleep_until(entries[-1].events[-1]) if asleep_for(entries[-1].events[-1]) else None

    return await eventually(look, "the task waits")


async def arrive(task: Task, source: str = "paid", body: str = "money", run: int = 1) -> bool:
    """Have something arrive from a webhook, as a gateway does; return whether it is the first."""
    found = await OpenRun.read(task.bus, task.key, run)
    arrival = SourceEvent("2026-11-30T10:00:00.000Z", body.encode())
    record = StepRecord(arrived(f"webhook/{source}"), arrival.encode())
    return await wake(found, record, f"webhook {source}")


def arrivals(entries: list[Entry]) -> list[str]:
    """Return the sources whose arrival the log has, in its order."""
    found = [events.status_metadata(one).get(events.ARRIVED) for e in entries for one in e.events]
    return [one for one in found if one]


async def test_a_waiting_run_holds_no_worker_and_goes_on_once_with_the_first_event(
    submitter: TaskSubmitter, working: Working
) -> None:
    async with working(clerk, timing=BRISK, concurrency=1):
        first, second = await submitter.start("clerk"), await submitter.start("clerk")
        await asyncio.gather(asleep(first), asleep(second))
        assert await arrive(first, body="one")
        assert not await arrive(first, body="two")
        entries = await first.ended()
        assert said(entries) == "got one"
        assert attempts(entries) == 2
        assert arrivals(entries) == ["webhook/paid"]
        assert not (await second.last()).ends_run
        with pytest.raises(NotWaiting):
            await arrive(first)

        async def is_alone() -> bool:
            return await second.runs_waiting() == 1

        await eventually(is_alone, "only the other run is queued")
        await arrive(second, body="two")
        assert said(await second.ended()) == "got two"


async def test_clients_are_shown_a_step_and_not_what_has_arrived(
    submitter: TaskSubmitter, working: Working
) -> None:
    async with working(clerk, timing=BRISK):
        task = await submitter.start("clerk")
        await asleep(task)
        await arrive(task, body="a secret")
        entries = await task.ended()
    found = [ShownStep.of(events.status_metadata(one)) for e in entries for one in e.events]
    shown = [(one.name, one.state) for one in found if one is not None]
    assert shown == [("webhook paid", "started"), ("webhook paid", "completed")]
    events_before = [line for entry in entries for line in entry.lines if b"got " not in line]
    assert not any(b"secret" in line or b"YSBzZWNyZXQ" in line for line in events_before)


async def test_all_waiting_runs_wake_on_another_worker_after_theirs_was_killed(
    submitter: TaskSubmitter, spawn: Spawn
) -> None:
    worker = await asyncio.to_thread(spawn, f"{TARGET}clerk")
    tasks = [await submitter.start("clerk") for _ in range(20)]
    await asyncio.gather(*map(asleep, tasks))
    await asyncio.to_thread(worker.kill)
    new = await asyncio.gather(*(arrive(task, body=f"{n}") for n, task in enumerate(tasks)))
    assert all(new)
    await asyncio.to_thread(spawn, f"{TARGET}clerk")
    for number, task in enumerate(tasks):
        entries = await task.ended()
        assert said(entries) == f"got {number}"
        assert arrivals(entries) == ["webhook/paid"]


async def test_an_event_that_comes_before_its_wait_is_not_lost(
    submitter: TaskSubmitter, working: Working
) -> None:
    go, waits = asyncio.Event(), asyncio.Event()

    @agent
    async def early(ctx: RunContext) -> str:
        waits.set()
        await go.wait()
        return (await ctx.wait(Webhook("paid"))).text

    async with working(early, timing=BRISK):
        task = await submitter.start("early")
        await waits.wait()
        assert await arrive(task, body="one")
        assert not await arrive(task, body="two")
        go.set()
        entries = await task.ended()
    assert said(entries) == "one"
    assert attempts(entries) == 1


async def test_events_that_come_while_their_runs_fall_asleep_wake_them(
    submitter: TaskSubmitter, working: Working
) -> None:
    async def begins(task: Task) -> bool:
        return any(waited_for(one) for entry in await task.entries() for one in entry.events)

    async def answered(number: int) -> str:
        task = await submitter.start("clerk")
        while not await begins(task):  # noqa: ASYNC110 - a pause would miss the moment
            await asyncio.sleep(0)
        await asyncio.sleep(number % 10 / 1000)
        assert await arrive(task, body=str(number))
        entries = await task.ended()
        assert arrivals(entries) == ["webhook/paid"]
        return said(entries)

    async with working(clerk, timing=BRISK):
        found = await asyncio.gather(*map(answered, range(100)))
    assert found == [f"got {number}" for number in range(100)]


async def test_a_wait_times_out_in_every_attempt_and_may_be_repeated(
    submitter: TaskSubmitter, working: Working
) -> None:
    async with working(reminder, timing=BRISK):
        task = await submitter.start("reminder")

        async def waits_again() -> bool:
            until = asleep_until((await task.last()).events[-1])
            return until is not None and until - datetime.now(UTC) > timedelta(days=300)

        await eventually(waits_again, "the second wait")
        await arrive(task)
        entries = await task.ended()
    assert said(entries) == "nothing has come in time from webhook paid; money"
    assert attempts(entries) == 3


async def test_waits_at_the_same_time_end_one_after_the_other(
    submitter: TaskSubmitter, working: Working
) -> None:
    async with working(both, timing=BRISK):
        task = await submitter.start("both")
        await asleep(task)
        last = (await task.entries())[-1].events[-1]
        assert asleep_for(last) == {"webhook/a", "webhook/b"}
        await arrive(task, "b", "B")
        await eventually(lambda: _sleeps_for(task, {"webhook/a"}), "it waits for the other")
        await arrive(task, "a", "A")
        assert said(await task.ended()) == "AB"


async def _sleeps_for(task: Task, sources: set[str]) -> bool:
    return asleep_for((await task.last()).events[-1]) == sources


async def test_the_first_of_several_sources_ends_a_wait_for_any(
    submitter: TaskSubmitter, working: Working
) -> None:
    async with working(either, timing=BRISK):
        task = await submitter.start("either")
        await asleep(task)
        await arrive(task, "b")
        assert said(await task.ended()) == "webhook/b webhook/b"


async def test_a_waiting_task_is_canceled_at_once(
    submitter: TaskSubmitter, working: Working
) -> None:
    async with working(clerk, timing=BRISK):
        task = await submitter.start("clerk")
        await asleep(task)
        await cancel_task(submitter.bus, task.key, "gateway-test")
        assert (await task.last()).stamp.state == CANCELED
        with pytest.raises(NotWaiting):
            await arrive(task)
        await eventually(task.is_off_the_queue, "its run is gone")


async def test_a_process_that_is_killed_before_it_wakes_the_run_loses_no_event(
    submitter: TaskSubmitter, working: Working, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def killed(*_: object) -> None:
        """Do nothing."""

    monkeypatch.setattr(waking, "release", killed)
    async with working(clerk, timing=BRISK):
        task = await submitter.start("clerk")
        await asleep(task)
        assert await arrive(task)
        await asyncio.sleep(0.5)
        assert not (await task.last()).ends_run
        monkeypatch.undo()
        await release(submitter.bus, task.key)  # as task state's sweep does
        entries = await task.ended()
    assert entries[-1].stamp.state == COMPLETED
    assert arrivals(entries) == ["webhook/paid"]


async def test_runs_of_another_tenant_and_priority_are_woken_from_their_queues(
    submitter: TaskSubmitter, working: Working
) -> None:
    queues = [RunQueue("clerk", "acme"), RunQueue("clerk", "default", "high")]
    async with working(clerk, timing=BRISK):
        for queue in queues:
            await RunQueues(submitter.bus).open(queue)
        tasks = [await submitter.start_in(queue, "") for queue in queues]
        await asyncio.gather(*map(asleep, tasks))
        for number, task in enumerate(tasks):
            assert await arrive(task, body=f"{number}")
        assert [said(await task.ended()) for task in tasks] == ["got 0", "got 1"]


async def test_a_message_to_a_waiting_run_waits_and_does_not_keep_it_from_its_event(
    submitter: TaskSubmitter, working: Working
) -> None:
    async with working(clerk, timing=BRISK):
        task = await submitter.start("clerk")
        await asleep(task)
        queued = QueuedInput("input-1", task.context, user_message("And?"), None)
        await queue_input(submitter.bus, task.key, await task.last(), queued, 10)
        assert await arrive(task)

        async def next_run() -> int | None:
            last = await task.last()
            return last.stamp.run if asleep_for(last.events[-1]) else None

        run = await eventually(next_run, "the message begins the next run, which waits")
        assert run > 1
        with pytest.raises(NotWaiting):
            await arrive(task)
        assert await arrive(task, body="more", run=run)
        assert said(await task.ended()) == "got moneygot more"


async def test_a_step_does_not_wait(submitter: TaskSubmitter, working: Working) -> None:
    @agent
    async def wrong(ctx: RunContext) -> None:
        await ctx.step("pay", lambda: ctx.wait(Webhook("paid")))

    async with working(wrong):
        entries = await (await submitter.start("wrong")).ended()
    assert entries[-1].stamp.state == FAILED
    assert "wait between steps" in str(entries[-1].events[-1])
