"""Steps over the attempts of real workers: what was done stays done, and is seen once."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any

from starlette.background import BackgroundTask

from headrace import Emission, Message, Retry, Retryable, RunContext, StepFailed, agent
from headrace.model.entry import Entry
from headrace.model.step import ShownStep, StepRecord
from headrace.model.task import CANCELED, COMPLETED, FAILED
from headrace_worker.timing import Timing
from tests.integration.worker.conftest import Working
from tests.integration.worker.test_checkpoints import ended, folded
from tests.support.task_submitter import TaskSubmitter
from tests.support.waiting import until

AGAIN = Retry(backoff=0.05)


def shown(entries: list[Entry]) -> list[tuple[str, str]]:
    """Return name and state of the steps that clients see, in order."""
    found = [
        ShownStep.of(one["statusUpdate"].get("metadata", {}))
        for entry in entries
        for one in entry.events
        if "statusUpdate" in one
    ]
    return [(one.name, one.state) for one in found if one is not None]


def records(entries: list[Entry]) -> list[StepRecord]:
    headers = [(entry.stamp.step, entry.last_generation) for entry in entries]
    found = [StepRecord.decode(header, at) for header, at in headers if header is not None]
    return [one for one in found if one is not None]


async def test_a_step_is_done_once_in_all_attempts_and_takes_one_message(
    submitter: TaskSubmitter, working: Working
) -> None:
    done: list[int] = []
    results: list[list[Any]] = []

    async def work(number: int) -> list[int]:
        done.append(number)
        return [number] * number

    @agent(retry=AGAIN)
    async def working_hard(ctx: RunContext) -> AsyncIterator[Emission]:
        found = [await ctx.step("work", work, number) for number in range(ctx.attempt + 1)]
        results.append(found)
        yield f"{len(found)}"
        if ctx.attempt < 3:
            raise Retryable

    entries = await ended(submitter, working, working_hard)
    assert done == [0, 1, 2, 3]
    assert results[2] == [[], [1], [2, 2], [3, 3, 3]]
    assert results[2][:3] == results[1]
    assert shown(entries) == [("work", "completed")] * 4
    assert len(records(entries)) == len([e for e in entries if e.stamp.step is not None]) == 4
    task = folded(entries)
    assert task["status"]["state"] == COMPLETED
    assert [m["role"] for m in task["history"]] == ["ROLE_USER"]


async def test_a_step_is_one_message_and_no_event_of_its_attempt_besides(
    submitter: TaskSubmitter, working: Working
) -> None:
    @agent
    async def brief(ctx: RunContext) -> None:
        for number in range(3):
            await ctx.step("work", lambda n: n, number)

    entries = await ended(submitter, working, brief)
    assert [entry.stamp.step is not None for entry in entries] == [False] * 2 + [True] * 3 + [False]
    assert [len(entry.lines) for entry in entries] == [1] * 6


async def test_steps_before_and_after_a_checkpoint_are_found(
    submitter: TaskSubmitter, working: Working
) -> None:
    done: list[str] = []

    def work(name: str) -> str:
        done.append(name)
        return name

    @agent(retry=AGAIN)
    async def saving(ctx: RunContext) -> None:
        for number in range(ctx.checkpoint_data or 0, 6):
            assert await ctx.step("work", work, f"{number}") == f"{number}"
            if number == 3 and ctx.attempt == 1:
                raise Retryable
            if number % 2 == 0:
                await ctx.checkpoint(number + 1)
            if number == 4:
                raise Retryable if ctx.attempt == 2 else AssertionError

    entries = await ended(submitter, working, saving)
    assert folded(entries)["status"]["state"] == COMPLETED
    assert done == ["0", "1", "2", "3", "4", "5"]
    assert [one.id[1] for one in records(entries)] == [0, 1, 2, 3, 4, 5]


async def test_a_record_that_a_checkpoint_left_behind_is_found_later(
    submitter: TaskSubmitter, working: Working
) -> None:
    done: list[int] = []

    def work(number: int) -> int:
        done.append(number)
        return number

    @agent(retry=AGAIN)
    async def slowing(ctx: RunContext) -> None:
        """Saves after each step, from its second attempt on."""
        for number in range(ctx.checkpoint_data or 0, 3):
            await ctx.step("work", work, number)
            if ctx.attempt > 1:
                await ctx.checkpoint(number + 1)
                if number == 0:
                    raise Retryable
        if ctx.attempt == 1:
            raise Retryable

    entries = await ended(submitter, working, slowing)
    assert folded(entries)["status"]["state"] == COMPLETED
    assert done == [0, 1, 2]


async def test_a_large_result_is_read_back_from_its_file(
    submitter: TaskSubmitter, working: Working
) -> None:
    found: list[str] = []

    @agent(retry=AGAIN)
    async def reading(ctx: RunContext) -> None:
        found.append(await ctx.step("read", lambda: f"{ctx.attempt}" * 20_000))
        if ctx.attempt == 1:
            raise Retryable

    entries = await ended(submitter, working, reading)
    assert found == ["1" * 20_000] * 2
    [record] = records(entries)
    assert record.value is None
    assert record.link.startswith("headrace-file:")


async def test_renamed_sequential_code_fails_before_it_does_anything(
    submitter: TaskSubmitter, working: Working
) -> None:
    done: list[str] = []

    @agent(retry=AGAIN)
    async def renamed(ctx: RunContext) -> None:
        await ctx.step("first", done.append, "first")
        if ctx.attempt == 1:
            await ctx.step("charge", done.append, "charge")
            raise Retryable
        await ctx.step("pay", done.append, "pay")

    status = folded(await ended(submitter, working, renamed))["status"]
    assert status["state"] == FAILED
    [part] = status["message"]["parts"]
    assert part["text"].startswith("step 'pay' has no record, but step 'charge' (number 1)")
    assert done == ["first", "charge"]


async def test_an_agent_that_handles_every_error_fails_nevertheless_and_does_no_further_step(
    submitter: TaskSubmitter, working: Working
) -> None:
    done: list[str] = []

    @agent(retry=AGAIN)
    async def careless(ctx: RunContext) -> AsyncIterator[Emission]:
        for name in ("reserve", "charge") if ctx.attempt == 1 else ("book", "ship"):
            with suppress(Exception):
                await ctx.step(name, done.append, name)
        if ctx.attempt == 1:
            raise Retryable
        yield "all is well"

    status = folded(await ended(submitter, working, careless))["status"]
    assert status["state"] == FAILED
    assert "step 'book' has no record" in status["message"]["parts"][0]["text"]
    assert done == ["reserve", "charge"]


async def test_steps_of_branches_may_come_in_any_order(
    submitter: TaskSubmitter, working: Working
) -> None:
    done: list[str] = []

    @agent(retry=AGAIN)
    async def branching(ctx: RunContext) -> None:
        async def branch(name: str) -> None:
            await ctx.step(name, done.append, name)

        names = ["a", "b"] if ctx.attempt == 1 else ["c", "b", "a"]
        await asyncio.gather(*map(branch, names))
        if ctx.attempt == 1:
            raise Retryable

    entries = await ended(submitter, working, branching)
    assert folded(entries)["status"]["state"] == COMPLETED
    assert sorted(done) == ["a", "b", "c"]


async def test_a_recorded_error_is_raised_in_each_attempt(
    submitter: TaskSubmitter, working: Working
) -> None:
    found: list[str] = []

    def fail() -> None:
        found.append("called")
        raise ValueError("expired")

    @agent(retry=AGAIN)
    async def paying(ctx: RunContext) -> None:
        try:
            await ctx.step("charge", fail, record_errors=True)
        except StepFailed as error:
            found.append(str(error))
        if ctx.attempt == 1:
            raise Retryable

    entries = await ended(submitter, working, paying)
    failed = "step 'charge' failed: ValueError: expired"
    assert found == ["called", failed, failed]
    assert shown(entries) == [("charge", "failed")]


async def test_a_record_that_fits_no_header_fails_its_run_at_once(
    submitter: TaskSubmitter, working: Working
) -> None:
    long = type("Long" * 5_000, (Exception,), {})

    def fail() -> None:
        raise long

    @agent(retry=AGAIN)
    async def failing(ctx: RunContext) -> None:
        await ctx.step("work", fail, record_errors=True)

    entries = await ended(submitter, working, failing)
    status = folded(entries)["status"]
    assert (status["state"], entries[-1].stamp.attempt) == (FAILED, 1)
    assert "a step's record takes" in status["message"]["parts"][0]["text"]


async def test_a_slow_step_shows_its_start(submitter: TaskSubmitter, working: Working) -> None:
    @agent
    async def slow(ctx: RunContext) -> None:
        await ctx.step("quick", lambda: 1)
        await ctx.step("wait", asyncio.sleep, 0.15)
        await ctx.now()

    entries = await ended(submitter, working, slow)
    assert shown(entries) == [("quick", "completed"), ("wait", "started"), ("wait", "completed")]


async def test_a_canceled_task_finishes_and_records_its_step(
    submitter: TaskSubmitter, working: Working
) -> None:
    begun = asyncio.Event()

    @agent
    async def paying(ctx: RunContext) -> None:
        async def charge() -> int:
            begun.set()
            await asyncio.to_thread(until, lambda: ctx.is_stopped, "the run is stopped")
            return 1

        await ctx.step("charge", charge)

    async with working(paying):
        task = await submitter.start("paying", "x")
        await begun.wait()
        await task.held()
        await task.ask("cancel")
        entries = await task.ended()
    assert entries[-1].stamp.state == CANCELED
    assert [one.value for one in records(entries)] == ["1"]


async def test_times_and_random_values_are_the_same_in_each_attempt(
    submitter: TaskSubmitter, working: Working
) -> None:
    found: list[list[object]] = []

    @agent(retry=AGAIN)
    async def drawing(ctx: RunContext) -> None:
        drawn = [await ctx.now(), ctx.random().random(), ctx.random("b").random(), ctx.uuid()]
        drawn += [await ctx.now(), ctx.random().random(), ctx.uuid()]
        drawn.append(await ctx.step("inner", lambda: f"{ctx.uuid()} {ctx.random().random()}"))
        found.append([*drawn, ctx.uuid()])
        if ctx.attempt == 1:
            raise Retryable

    entries = await ended(submitter, working, drawing)
    assert found[0] == found[1]
    assert len(set(map(str, found[0]))) == 9
    assert shown(entries) == [("inner", "completed")]


async def test_an_agent_that_answers_with_a_bare_message_after_a_step_completes_its_task(
    submitter: TaskSubmitter, working: Working
) -> None:
    @agent(bare_message=True)
    async def answering(ctx: RunContext) -> Message:
        return Message(await ctx.step("think", lambda: "answer"))

    entries = await ended(submitter, working, answering)
    assert entries[-1].stamp.state == COMPLETED


async def test_a_step_before_a_sleep_is_not_done_again_after_it(
    submitter: TaskSubmitter, working: Working
) -> None:
    done: list[str] = []

    @agent
    async def reminding(ctx: RunContext) -> None:
        await ctx.step("before", done.append, "before")
        await ctx.sleep(0.3)
        await ctx.step("after", done.append, "after")

    async with working(reminding, timing=Timing(waking=0.05)):
        task = await submitter.start("reminding", "x")
        entries = await task.ended()
    assert entries[-1].stamp.attempt == 2
    assert done == ["before", "after"]


async def test_clients_receive_no_result_of_a_step(
    submitter: TaskSubmitter, working: Working
) -> None:
    @agent
    async def discreet(ctx: RunContext) -> None:
        await ctx.step("look", lambda key: f"secret of {key}", "secret argument", key="secret key")

    entries = await ended(submitter, working, discreet)
    assert not any(b"secret" in line for entry in entries for line in entry.lines)
    assert [one.value for one in records(entries)] == ['"secret of secret argument"']


async def test_a_framework_may_go_on_behind_the_steps_that_it_had_awaited(
    submitter: TaskSubmitter, working: Working
) -> None:
    """A framework that saves its own progress does not ask for them again."""
    done: list[str] = []

    @agent(retry=AGAIN)
    async def framed(ctx: RunContext) -> None:
        async def work(name: str) -> None:
            await ctx.step(name, done.append, name)

        await BackgroundTask(work, "first" if ctx.attempt == 1 else "second")()
        if ctx.attempt == 1:
            raise Retryable

    entries = await ended(submitter, working, framed)
    assert folded(entries)["status"]["state"] == COMPLETED
    assert done == ["first", "second"]


async def test_a_group_of_errors_shows_which_step_was_called_twice_at_once(
    submitter: TaskSubmitter, working: Working
) -> None:
    @agent
    async def hasty(ctx: RunContext) -> None:
        async with asyncio.TaskGroup() as group:
            for _ in range(2):
                group.create_task(ctx.step("look", asyncio.sleep, 0))

    status = folded(await ended(submitter, working, hasty))["status"]
    assert status["message"]["parts"][0]["text"].startswith("step 'look' is called twice")
