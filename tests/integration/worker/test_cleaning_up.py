"""A task ends while nobody is at work on it: its agent ends what it has begun elsewhere."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from headrace import Agent, Emission, EndedTask, InputRequired, Retry, Retryable, RunContext, agent
from headrace.jetstream.connection import Bus
from headrace.log import last_entry
from headrace.model import events
from headrace.model.entry import Entry
from headrace.model.errors import BusUnavailable
from headrace.model.events import ATTEMPT
from headrace.model.messages import DeadLetter
from headrace.model.task import CANCELED, FAILED, INPUT_REQUIRED, WORKING, TaskKey
from headrace.tasks.cancel import cancel_task
from headrace.tasks.dead_letters import (
    Letter,
    LetterFilter,
    Letters,
    RetryResult,
    retry_and_drop,
    write_letter,
)
from headrace.tasks.end import fail_task
from headrace_worker import assignment, claim, earlier
from headrace_worker.assignment import read_assignment
from headrace_worker.timing import Timing
from tests.integration.worker.conftest import UNHURRIED, Working
from tests.integration.worker.test_cancelling import cancel
from tests.support.task_submitter import Task, TaskSubmitter
from tests.support.waiting import eventually


class Tidy:
    """An agent that asks its user, and what its clean-up was told."""

    def __init__(self, failures: int = 0) -> None:
        self.told: list[EndedTask] = []
        self._failures = failures

    def agent(self) -> Agent:
        @agent(name="tidy", clean_up=self.clean_up, retry=Retry(backoff=0.0))
        async def tidy(ctx: RunContext) -> AsyncIterator[Emission]:
            if ctx.prompt == "break":
                raise Retryable("not now")
            if ctx.prompt == "wait":
                yield "begun"
                await asyncio.Event().wait()
            yield InputRequired("Which?")

        return tidy

    async def clean_up(self, ended: EndedTask) -> None:
        self.told.append(ended)
        if len(self.told) <= self._failures:
            raise OSError("out of reach")

    async def was_told(self, times: int = 1) -> bool:
        return len(self.told) >= times


async def asks(submitter: TaskSubmitter) -> Task:
    """Return a task that waits for its user."""
    task = await submitter.start("tidy", "x")
    await task.ended()
    return task


async def done_with(task: Task) -> bool:
    return await task.runs_waiting() == 0


async def test_a_client_cancels_a_task_that_waits_for_its_user(
    submitter: TaskSubmitter, working: Working
) -> None:
    tidy = Tidy()
    async with working(tidy.agent()):
        task = await asks(submitter)
        assert await cancel(task) == CANCELED
        await eventually(tidy.was_told)
        await eventually(lambda: done_with(task))
    [ended] = tidy.told
    assert (ended.key, ended.context, ended.state) == (task.key, task.context, CANCELED)
    assert ended.task["history"][-1]["parts"] == [{"text": "Which?"}]
    assert ended.owner == "anonymous"


async def test_an_agent_or_task_state_cancels_it(
    submitter: TaskSubmitter, working: Working
) -> None:
    tidy = Tidy()
    async with working(tidy.agent()):
        task = await asks(submitter)
        await cancel_task(submitter.bus, task.key, "task-state-1", timing=UNHURRIED)
        assert (await task.last()).stamp.state == CANCELED
        await eventually(tidy.was_told)
    assert [ended.state for ended in tidy.told] == [CANCELED]


async def test_a_worker_that_comes_later_cleans_up(
    submitter: TaskSubmitter, working: Working
) -> None:
    tidy = Tidy()
    async with working(tidy.agent()):
        task = await asks(submitter)
    assert await cancel(task) == CANCELED
    async with working(tidy.agent()):
        await eventually(tidy.was_told)
    assert len(tidy.told) == 1


async def test_a_task_whose_worker_is_dead_is_cleaned_up_after(
    submitter: TaskSubmitter, working: Working
) -> None:
    tidy = Tidy()
    async with working(tidy.agent()):
        pass
    task = await begun_by_the_dead(submitter)
    assert await cancel(task) == CANCELED
    async with working(tidy.agent()):
        await eventually(tidy.was_told)
        await eventually(lambda: done_with(task))
    assert [ended.state for ended in tidy.told] == [CANCELED]


async def test_a_task_that_is_given_up_unbegun_is_cleaned_up_after(
    submitter: TaskSubmitter, working: Working
) -> None:
    tidy = Tidy()
    only_once = replace(tidy.agent(), retry=Retry(attempts=1))
    async with working(only_once):
        task = await begun_by_the_dead(submitter)
        await task.publish(1)
        assert (await task.ended())[-1].stamp.state == FAILED
        await eventually(tidy.was_told)
    assert [ended.state for ended in tidy.told] == [FAILED]


async def test_a_task_that_an_operator_fails_is_cleaned_up_after(
    submitter: TaskSubmitter, working: Working
) -> None:
    tidy = Tidy()
    async with working(tidy.agent()):
        task = await asks(submitter)
        await fail_task(submitter.bus, task.key, "It hangs")
        await eventually(tidy.was_told)
    assert [ended.state for ended in tidy.told] == [FAILED]


async def begun_by_the_dead(submitter: TaskSubmitter) -> Task:
    """Return a task at work whose worker is no more."""
    task = await submitter.start("tidy", "wait", publish=False)
    begun = events.status_update(task.key.task, task.context, WORKING, metadata={ATTEMPT: 1})
    await task.append(begun, WORKING, writer="dead", run=1, attempt=1)
    return task


async def test_a_clean_up_that_fails_is_tried_again_and_then_left(
    submitter: TaskSubmitter, working: Working
) -> None:
    tidy = Tidy(failures=9)
    async with working(tidy.agent(), timing=Timing(cleanup_pauses=(0.0, 0.1))):
        task = await asks(submitter)
        assert await cancel(task) == CANCELED
        await eventually(lambda: done_with(task))
    assert len(tidy.told) == 3


async def test_a_log_that_cannot_be_read_is_no_failure_of_the_clean_up(
    submitter: TaskSubmitter, working: Working, monkeypatch: pytest.MonkeyPatch
) -> None:
    refusals = [BusUnavailable("no leader")] * 5 + [TimeoutError()] * 5

    entries_before = earlier.entries_before

    async def read(bus: Bus, key: TaskKey, head: int) -> list[Entry]:
        if refusals:
            raise refusals.pop()
        return await entries_before(bus, key, head)

    tidy = Tidy()
    timing = Timing(cleanup_pauses=(0.0,), cleanup_log=0.01, cleanup_deliveries=1)
    async with working(tidy.agent(), timing=timing):
        task = await asks(submitter)
        monkeypatch.setattr(earlier, "entries_before", read)
        assert await cancel(task) == CANCELED
        await eventually(lambda: done_with(task))
    assert not refusals
    assert [ended.key for ended in tidy.told] == [task.key]
    assert await letters(task) == []


async def test_a_log_that_cannot_be_read_at_first_is_no_delivery_of_the_clean_up(
    submitter: TaskSubmitter, working: Working, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After 32 deliveries, which take an outage 2 minutes, a clean-up is given up."""
    refusals = [BusUnavailable("no leader")] * 2 + [TimeoutError()]

    async def read(bus: Bus, key: TaskKey) -> Entry | None:
        if refusals:
            raise refusals.pop()
        return await last_entry(bus, key)

    tidy, timing = Tidy(), Timing(cleanup_log=0.01, cleanup_deliveries=1)
    async with working(tidy.agent(), timing=timing):
        task = await asks(submitter)
        monkeypatch.setattr(claim, "last_entry", read)
        assert await cancel(task) == CANCELED
        await eventually(lambda: done_with(task))
    assert not refusals
    assert [ended.key for ended in tidy.told] == [task.key]
    assert await letters(task) == []


async def test_a_request_that_was_often_delivered_has_all_its_tries(
    submitter: TaskSubmitter, working: Working
) -> None:
    """Workers that leave give it back, and each new leader of the consumer delivers it again."""
    tidy = Tidy(failures=2)
    async with working(tidy.agent()):
        task = await asks(submitter)
    assert await cancel(task) == CANCELED
    await deliver(task, times=5)
    async with working(tidy.agent(), timing=Timing(cleanup_pauses=(0.0, 0.1))):
        await eventually(lambda: done_with(task))
    assert len(tidy.told) == 3


async def deliver(task: Task, times: int) -> None:
    """Take the task's run and give it back, so many times."""
    pulling = await task.bus.js.pull_subscribe_bind("tidy", task.bus.streams.runs)
    for _ in range(times):
        [msg] = await pulling.fetch(1, timeout=60)
        await msg.nak()


async def test_a_clean_up_that_may_have_killed_its_workers_is_given_up(
    submitter: TaskSubmitter, working: Working
) -> None:
    """No process that it kills counts its failures: the request would be delivered for ever."""
    tidy, timing = Tidy(), Timing(cleanup_deliveries=3)
    async with working(tidy.agent()):
        deadly, other = await asks(submitter), await asks(submitter)
    assert await cancel(deadly) == CANCELED
    await deliver(deadly, times=3)
    assert await cancel(other) == CANCELED
    async with working(tidy.agent(), timing=timing):
        await eventually(lambda: done_with(deadly))
        await eventually(lambda: done_with(other))
        assert [ended.key for ended in tidy.told] == [other.key]
        assert await retried(deadly) == "the task's clean-up did not end within 3 deliveries"
        await eventually(lambda: tidy.was_told(2))
    assert tidy.told[-1].key == deadly.key


async def test_a_clean_up_whose_last_attempt_failed_is_retried_by_an_operator(
    submitter: TaskSubmitter, working: Working
) -> None:
    tidy = Tidy(failures=1)
    async with working(tidy.agent(), timing=Timing(cleanup_pauses=())):
        task = await asks(submitter)
        assert await cancel(task) == CANCELED
        await eventually(lambda: done_with(task))
        assert await retried(task) == "the last attempt at the task's clean-up failed"
        await eventually(lambda: tidy.was_told(2))
    assert {ended.key for ended in tidy.told} == {task.key}


async def test_a_clean_up_that_is_given_up_twice_is_one_dead_letter(
    submitter: TaskSubmitter, working: Working
) -> None:
    """A worker is killed after it stored the letter: the next one gets the same request."""
    async with working(Tidy().agent()):
        task = await asks(submitter)
    assert await cancel(task) == CANCELED
    pulling = await task.bus.js.pull_subscribe_bind("tidy", task.bus.streams.runs)
    [msg] = await pulling.fetch(1, timeout=60)
    for _ in range(2):
        await read_assignment(task.bus, msg).give_up(task.bus, "why", task.key.task)
    assert len(await letters(task)) == 1


async def test_failures_of_a_clean_up_count_until_its_letter_is_stored(
    submitter: TaskSubmitter, working: Working, monkeypatch: pytest.MonkeyPatch
) -> None:
    refusals = [BusUnavailable("not now")]

    async def write(bus: Bus, letter: DeadLetter, name: str) -> None:
        if refusals:
            raise refusals.pop()
        await write_letter(bus, letter, name)

    monkeypatch.setattr(assignment, "write_letter", write)
    tidy = Tidy(failures=99)
    async with working(tidy.agent(), timing=Timing(cleanup_pauses=(0.0,))):
        task = await asks(submitter)
        assert await cancel(task) == CANCELED
        await eventually(lambda: done_with(task))
    assert len(tidy.told) == 3


async def letters(task: Task) -> list[Letter]:
    return [one async for one in Letters(task.bus).find(LetterFilter(task=task.key.task))]


async def retried(task: Task) -> str:
    """Retry the one dead letter, which is the task's clean-up, and return its reason."""
    [letter] = await letters(task)
    outcome = await retry_and_drop(task.bus, letter)
    assert outcome == RetryResult(task.key.task, "the task's clean-up is requested again")
    return letter.content.reason.partition(" of its request")[0]


async def test_another_process_counts_the_failures_of_a_clean_up_from_the_start(
    submitter: TaskSubmitter, working: Working
) -> None:
    """Nothing is lost by that: a restart may be what the clean-up needs."""
    tidy = Tidy(failures=99)
    async with working(tidy.agent(), timing=Timing(cleanup_pauses=(0.0, 2.0, 2.0, 2.0))):
        task = await asks(submitter)
        assert await cancel(task) == CANCELED
        await eventually(lambda: tidy.was_told(2))
    before = len(tidy.told)
    assert await task.runs_waiting() == 1
    async with working(tidy.agent(), timing=Timing(cleanup_pauses=(0.0, 0.1))):
        await eventually(lambda: done_with(task))
    assert len(tidy.told) == before + 3


async def test_the_last_attempt_that_fails_is_cleaned_up_after(
    submitter: TaskSubmitter, working: Working
) -> None:
    tidy = Tidy()
    async with working(tidy.agent()):
        task = await submitter.start("tidy", "break")
        assert (await task.ended())[-1].stamp.state == FAILED
        await eventually(tidy.was_told)
        await eventually(lambda: done_with(task))
    assert [ended.state for ended in tidy.told] == [FAILED]


async def test_an_agent_at_work_ends_it_itself(submitter: TaskSubmitter, working: Working) -> None:
    tidy = Tidy()
    async with working(tidy.agent()):
        task = await submitter.start("tidy", "wait")
        await task.held()
        assert await cancel(task) == CANCELED
        await eventually(lambda: done_with(task))
        later = await asks(submitter)
        assert await cancel(later) == CANCELED
        await eventually(tidy.was_told)
    assert [ended.key for ended in tidy.told] == [later.key]


async def test_no_clean_up_is_requested_for_a_task_that_was_not_started(
    submitter: TaskSubmitter, working: Working
) -> None:
    tidy = Tidy()
    async with working(tidy.agent()):
        later = await asks(submitter)
    task = await submitter.start("tidy", "x")
    assert await cancel(task) == CANCELED
    assert await cancel(later) == CANCELED
    async with working(tidy.agent()):
        await eventually(tidy.was_told)
        await eventually(lambda: done_with(task))
    assert [ended.key for ended in tidy.told] == [later.key]


async def test_no_run_waits_for_an_agent_that_does_not_clean_up(
    submitter: TaskSubmitter, working: Working
) -> None:
    @agent()
    async def careless(_: RunContext) -> AsyncIterator[Emission]:
        yield InputRequired("Which?")

    async with working(careless):
        task = await submitter.start("careless", "x")
        await task.ended()
        await eventually(lambda: done_with(task))
    last = await last_entry(submitter.bus, task.key)
    assert last is not None
    assert last.stamp.state == INPUT_REQUIRED
    assert await cancel(task) == CANCELED
    assert await task.runs_waiting() == 0
