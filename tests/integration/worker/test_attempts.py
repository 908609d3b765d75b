"""How hard the fleet tries: attempts counted in the log, pauses, time, and giving up."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

import orjson
import pytest
from nats.aio.msg import Msg
from prometheus_client import REGISTRY

from headrace import (
    Agent,
    Emission,
    InputRequired,
    Limits,
    Retry,
    Retryable,
    RunContext,
    ToolError,
    agent,
    tool,
)
from headrace.directory import Announcer, renewed, silent_for
from headrace.jetstream.connection import Bus
from headrace.jetstream.kv import Bucket
from headrace.model import events
from headrace.model.delegation import DELEGATION, Lineage
from headrace.model.entry import Entry
from headrace.model.errors import BusUnavailable
from headrace.model.events import Json, status_metadata
from headrace.model.messages import DeadLetter
from headrace.model.run import Run
from headrace.model.task import COMPLETED, FAILED, WORKING, TaskKey, mint_task_id
from headrace.tasks.end import reject_unstarted
from headrace_worker.assignment import Assignment
from headrace_worker.claim import MOST_SURVIVED, ClaimedRun, HeldElsewhere, Obsolete, claim
from tests.integration.worker.conftest import Spawn, Working
from tests.support.task_submitter import Task, TaskSubmitter
from tests.support.waiting import eventually

DYING = "tests.support.dying_agents:agents"


def attempts(entries: list[Entry]) -> list[int]:
    return [
        metadata[events.ATTEMPT]
        for entry in entries
        for event in entry.events
        if events.ATTEMPT in (metadata := event.get("statusUpdate", {}).get("metadata", {}))
    ]


def workers(entries: list[Entry]) -> list[str]:
    return [
        metadata[events.WORKER]
        for entry in entries
        for event in entry.events
        if events.WORKER in (metadata := event.get("statusUpdate", {}).get("metadata", {}))
    ]


def end_of(entries: list[Entry]) -> tuple[str, str]:
    status = entries[-1].events[-1]["statusUpdate"]["status"]
    return status["state"], status.get("message", {}).get("parts", [{}])[0].get("text", "")


def taken_over(agent_name: str) -> float:
    """Return how many of the agent's runs workers of this process took over from others."""
    labels = {"agent": agent_name, "version": "1.0.0"}
    return REGISTRY.get_sample_value("headrace_runs_taken_over_total", labels) or 0


async def dead_letters(submitter: TaskSubmitter, agent_name: str) -> list[Json]:
    stream, subject = submitter.bus.streams.dead, submitter.bus.subjects.dead("default", agent_name)
    info = await submitter.bus.js.stream_info(stream)
    found = [await submitter.bus.js.get_msg(stream, n) for n in range(1, info.state.last_seq + 1)]
    return [orjson.loads(msg.data or b"") for msg in found if msg.subject == subject]


async def forge_attempts(task: Task, count: int, worker: str = "dead") -> None:
    """Write what workers leave that die as soon as they have begun."""
    for attempt in range(1, count + 1):
        metadata: Json = {events.ATTEMPT: attempt, events.WORKER: f"{worker}-{attempt}"}
        if attempt > 1:
            metadata[events.DISCARDED_AFTER] = 1
        draft = events.status_update(task.key.task, task.context, WORKING, metadata=metadata)
        await task.append(draft, WORKING, writer=f"dead-{attempt}", run=1, attempt=attempt)


async def test_a_retryable_error_is_followed_by_another_attempt(
    submitter: TaskSubmitter, working: Working
) -> None:
    @agent(retry=Retry(backoff=0.2))
    async def flaky(ctx: RunContext) -> AsyncIterator[Emission]:
        yield f"try {ctx.attempt}"
        if ctx.attempt < 3:
            raise Retryable("not now")

    before = taken_over("flaky")
    async with working(flaky):
        task = await submitter.start("flaky")
        entries = await task.ended()
    assert attempts(entries) == [1, 2, 3]
    begun = [status_metadata(one) for entry in entries for one in entry.events]
    discarded = [one.get(events.DISCARDED_AFTER) for one in begun if events.ATTEMPT in one]
    assert discarded == [None, 1, 1]
    assert taken_over("flaky") == before
    assert end_of(entries) == (COMPLETED, "")
    assert await dead_letters(submitter, "flaky") == []


async def test_an_outage_of_the_fleet_is_no_failure_of_the_agent_that_meets_it(
    submitter: TaskSubmitter, working: Working
) -> None:
    @agent(
        retry=Retry(attempts=2, backoff=0.1),
    )
    async def reader(ctx: RunContext) -> AsyncIterator[Emission]:
        yield f"try {ctx.attempt}"
        if ctx.prompt == "log" and ctx.attempt == 1:
            raise BusUnavailable("no leader")  # as each method that reads the log does
        if ctx.prompt == "conversation":
            await ctx.context_history()  # nobody serves task state here

    async with working(reader):
        of_log = await (await submitter.start("reader", "log")).ended()
        of_state = await (await submitter.start("reader", "conversation")).ended()
    assert (attempts(of_log), end_of(of_log)) == ([1, 2], (COMPLETED, ""))
    assert attempts(of_state) == [1, 2]
    assert end_of(of_state) == (
        FAILED,
        "Given up after 2 attempts: task state does not respond or is being rebuilt; try again",
    )


async def test_an_outage_of_the_fleet_is_no_failure_of_the_tool_that_meets_it(
    submitter: TaskSubmitter, working: Working
) -> None:
    @tool
    async def remember(ctx: RunContext) -> str:
        """Remember what was said."""
        return str(len(await ctx.context_history()))

    @agent(
        retry=Retry(attempts=2, backoff=0.1),
    )
    async def asker(ctx: RunContext) -> None:
        with suppress(ToolError):
            await ctx.call(remember)

    async with working(asker):
        entries = await (await submitter.start("asker")).ended()
    assert attempts(entries) == [1, 2]
    assert end_of(entries)[0] == FAILED
    assert "remember" in str([entry.events for entry in entries])
    assert "tool_result" not in str([entry.events for entry in entries])


async def test_an_error_that_the_agent_names_is_followed_by_another_attempt(
    submitter: TaskSubmitter, working: Working
) -> None:
    async def slow(secret: str) -> None:
        raise TimeoutError(secret)

    @agent(retry=Retry(attempts=2, backoff=0.1, on=(OSError,)))
    async def careful(ctx: RunContext) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(slow(f"secret {ctx.attempt}"))

    async with working(careful):
        task = await submitter.start("careful")
        entries = await task.ended()
    assert attempts(entries) == [1, 2]
    state, reason = end_of(entries)
    assert state == FAILED
    assert "secret" not in reason


async def test_another_error_is_followed_by_none(
    submitter: TaskSubmitter, working: Working
) -> None:
    @agent(retry=Retry(backoff=0.1, on=(OSError,)))
    async def careless(_: RunContext) -> None:
        raise KeyError("secret")

    async with working(careless):
        task = await submitter.start("careless")
        entries = await task.ended()
    assert attempts(entries) == [1]
    assert end_of(entries)[0] == FAILED


@pytest.mark.parametrize(
    "part",
    [
        {"text": "x", "metadata": {"agui_event_type": "usage"}},
        {"text": "x", "metadata": {"agui_event_type": "state_delta"}},
        {"data": {"n": 2}, "metadata": {"agui_event_type": "state_snapshot"}},
    ],
)
async def test_what_a_clients_part_says_that_it_is_counts_for_no_later_attempt(
    submitter: TaskSubmitter, working: Working, part: Json
) -> None:
    @agent(name="asking", retry=Retry(backoff=0.1))
    async def asking(ctx: RunContext) -> AsyncIterator[Emission]:
        if ctx.run == 1:
            yield InputRequired("What?")
        elif ctx.attempt == 1:
            raise Retryable("not now")
        else:
            yield f"state {ctx.state}"

    async with working(asking):
        task = await submitter.start("asking")
        await task.reaches(3)
        await task.follow_up_with({"messageId": "m", "role": "ROLE_USER", "parts": [part]})
        entries = await task.ended()
    assert end_of(entries)[0] == COMPLETED
    assert "state {}" in str(entries), "the client has set no state"


async def test_the_attempt_after_a_retryable_error_waits_as_long_as_it_states(
    submitter: TaskSubmitter, working: Working
) -> None:
    times: list[float] = []

    @agent(retry=Retry(backoff=60))
    async def flaky(ctx: RunContext) -> None:
        times.append(asyncio.get_running_loop().time())
        if ctx.attempt == 1:
            raise Retryable("busy", after=0.7)

    async with working(flaky):
        task = await submitter.start("flaky")
        await task.ended()
    assert times[1] - times[0] >= 0.7


async def test_after_the_last_attempt_the_task_has_failed_and_a_dead_letter_reports_it(
    submitter: TaskSubmitter, working: Working
) -> None:
    @agent(
        retry=Retry(attempts=2, backoff=0.1),
    )
    async def hopeless(_: RunContext) -> None:
        raise Retryable("the model is overloaded")

    async with working(hopeless):
        task = await submitter.start("hopeless")
        entries = await task.ended()
        assert attempts(entries) == [1, 2]
        assert end_of(entries) == (FAILED, "Given up after 2 attempts: the model is overloaded")
        [letter] = await dead_letters(submitter, "hopeless")
        assert letter["task"] == task.key.task
        assert letter["subject"] == submitter.bus.subjects.run(task.key, 1)
        assert DeadLetter.model_validate(letter).body
        assert await eventually(task.is_off_the_queue)


async def test_deliveries_on_which_no_work_began_do_not_count(
    submitter: TaskSubmitter, working: Working
) -> None:
    """Each look at a run that waits for another one is a delivery."""

    @agent(retry=Retry(attempts=1))
    async def patient(_: RunContext) -> str:
        return "done"

    async with working(patient):
        pass  # the consumer is there
    task = await submitter.start("patient")
    pulling = await submitter.bus.js.pull_subscribe_bind("patient", submitter.bus.streams.runs)
    numbers = list[int]()
    while len(numbers) < 1_001:
        [msg] = await pulling.fetch(1, timeout=60)
        numbers.append(msg.metadata.num_delivered)
        await msg.nak()
    assert numbers[-1] == 1_001
    async with working(patient):
        entries = await task.ended()
    assert (attempts(entries), end_of(entries)) == ([1], (COMPLETED, ""))


async def test_attempts_whose_workers_live_on_do_not_count(
    submitter: TaskSubmitter, working: Working
) -> None:
    @agent(retry=Retry(attempts=3))
    async def frozen(_: RunContext) -> str:
        return "thawed"

    task = await submitter.start("frozen", publish=False)
    await forge_attempts(task, 5, "frozen")
    # Those of the first three show that they live; of the last one nobody can tell yet.
    for number in (1, 2, 3):
        await Announcer(submitter.bus, f"frozen-{number}").renew("frozen")
    await task.publish(1)
    before = taken_over("frozen")
    async with working(frozen):
        entries = await task.ended()
    assert attempts(entries) == [1, 2, 3, 4, 5, 6]
    assert taken_over("frozen") == before + 1
    assert end_of(entries)[0] == COMPLETED
    assert await dead_letters(submitter, "frozen") == []


async def test_an_agent_that_hangs_its_workers_for_a_while_ends_too(
    submitter: TaskSubmitter, working: Working
) -> None:
    @agent(retry=Retry(attempts=2))
    async def slow(_: RunContext) -> str:
        return "never"

    task, most = await submitter.start("slow", publish=False), 2 * MOST_SURVIVED
    await forge_attempts(task, most, "alive")
    for number in range(1, most + 1):
        await Announcer(submitter.bus, f"alive-{number}").renew("slow")
    await task.publish(1)
    async with working(slow):
        entries = await task.ended()
    assert end_of(entries) == (FAILED, f"Given up after {most} attempts")


async def test_a_holder_that_is_frozen_again_and_again_fails_no_task(
    submitter: TaskSubmitter, spawn: Spawn, tmp_path: Path
) -> None:
    """Each is frozen until another one has taken over: more often than the agent may fail."""
    one, other = [await asyncio.to_thread(spawn, DYING) for _ in range(2)]
    gate = tmp_path / "gate"
    task = await submitter.start("waiter", str(gate))
    for attempt in (1, 2, 3):
        await eventually(partial(_is_at_attempt, task, attempt))
        # By the log: who has just been thawed takes itself for the holder until it has looked.
        holder = workers(await task.entries())[-1]
        [frozen] = [worker for worker in (one, other) if worker.id == holder]
        frozen.freeze()
        await eventually(partial(_is_at_attempt, task, attempt + 1))
        frozen.thaw()
        begun = next(e for e in await task.entries() if e.stamp.attempt == attempt + 1)
        await eventually(partial(_lives, submitter, frozen.id, datetime.fromisoformat(begun.time)))
    gate.touch()
    entries = await task.ended()
    assert attempts(entries) == [1, 2, 3, 4]
    assert end_of(entries)[0] == COMPLETED


async def test_attempts_that_died_without_a_word_count_too(
    submitter: TaskSubmitter, working: Working
) -> None:
    @agent(retry=Retry(attempts=3))
    async def deadly(_: RunContext) -> AsyncIterator[Emission]:
        yield "alive"

    task = await submitter.start("deadly")
    await forge_attempts(task, 3)
    async with working(deadly):
        entries = await task.ended()
        assert attempts(entries) == [1, 2, 3]
        assert end_of(entries) == (FAILED, "Given up after 3 attempts")
        assert len(await dead_letters(submitter, "deadly")) == 1
        assert await eventually(task.is_off_the_queue)


async def test_an_agent_that_kills_its_workers_is_given_up(
    submitter: TaskSubmitter, spawn: Spawn
) -> None:
    # The first two die of it; the third finds out from the log.
    await asyncio.gather(*(asyncio.to_thread(spawn, DYING) for _ in range(3)))
    task = await submitter.start("killer")
    entries = await task.ended()
    assert attempts(entries) == [1, 2]
    assert end_of(entries) == (FAILED, "Given up after 2 attempts")


async def test_attempts_that_leaving_workers_handed_back_do_not_count(
    submitter: TaskSubmitter, working: Working
) -> None:
    may_end = asyncio.Event()

    @agent(retry=Retry(attempts=1))
    async def patient(_: RunContext) -> AsyncIterator[Emission]:
        yield "begun"
        await may_end.wait()

    task = await submitter.start("patient")
    for number in range(1, 4):
        async with working(patient):
            await eventually(partial(_is_in_attempt, task, number))
    async with working(patient):
        may_end.set()
        entries = await task.ended()
    assert attempts(entries) == [1, 2, 3, 4]
    assert end_of(entries)[0] == COMPLETED


async def test_a_run_ends_at_its_deadline_and_its_agent_cleans_up(
    submitter: TaskSubmitter, working: Working
) -> None:
    cleaned: list[bool] = []

    @agent(limits=Limits(timeout=5.0))
    async def endless(ctx: RunContext) -> AsyncIterator[Emission]:
        assert ctx.deadline is not None
        try:
            yield "begun"
            await asyncio.sleep(600)
        finally:
            cleaned.append(True)

    async with working(endless):
        task = await submitter.start("endless")
        entries = await task.ended()
    assert end_of(entries) == (FAILED, "The run did not end within 5 s")
    assert cleaned == [True]
    [letter] = await dead_letters(submitter, "endless")
    assert (letter["task"], letter["reason"]) == (task.key.task, "The run did not end within 5 s")


async def test_a_run_ends_at_the_deadline_that_it_inherits(
    submitter: TaskSubmitter, working: Working
) -> None:
    @agent()
    async def endless(_: RunContext) -> None:
        await asyncio.sleep(600)

    soon = (datetime.now(UTC) + timedelta(seconds=1)).isoformat()
    parent = Lineage(mint_task_id(0), "parent", 1, "child", ("parent",), soon)
    async with working(endless):
        task = await submitter.start("endless", metadata={DELEGATION: parent.to_json()})
        entries = await task.ended()
    assert end_of(entries) == (FAILED, "The run did not end before its deadline")
    [letter] = await dead_letters(submitter, "endless")
    assert letter["reason"] == "The run did not end before its deadline"


async def test_a_deadline_counts_from_the_first_attempt(
    submitter: TaskSubmitter, working: Working
) -> None:
    called: list[int] = []

    @agent(limits=Limits(timeout=0.3))
    async def late(ctx: RunContext) -> None:
        called.append(ctx.attempt)

    task = await submitter.start("late")
    await forge_attempts(task, 1)
    await asyncio.sleep(0.4)
    async with working(late):
        entries = await task.ended()
    assert end_of(entries) == (FAILED, "The run did not end within 0.3 s")
    assert called == []


@pytest.mark.parametrize("again", ["once", "twice"])
async def test_a_dead_letter_is_kept_once_though_its_writer_died_before_the_log_had_the_failure(
    again: str, submitter: TaskSubmitter, working: Working
) -> None:
    @agent(name=f"broken-{again}", retry=Retry(attempts=1))
    async def broken(_: RunContext) -> None:
        raise Retryable("no")

    task = await submitter.start(broken.name)
    subject = submitter.bus.subjects.dead("default", broken.name)
    letter = DeadLetter(reason="x", subject="y", at=events.now())
    name = {"Nats-Msg-Id": f"{task.key.task}.1"}
    if again == "twice":
        await submitter.bus.request(subject, letter.encode(), 30.0, name)
    async with working(broken):
        entries = await task.ended()
    assert end_of(entries)[0] == FAILED
    assert len(await dead_letters(submitter, broken.name)) == 1


async def _is_in_attempt(task: Task, attempt: int) -> bool:
    last = await task.last()
    # Its first output is there, so it is at work.
    return last.stamp.attempt == attempt and b"artifactUpdate" in last.lines[-1]


async def _is_at_attempt(task: Task, attempt: int) -> bool:
    return (await task.last()).stamp.attempt >= attempt


async def _lives(submitter: TaskSubmitter, worker: str, since: datetime) -> bool:
    seen = await renewed(submitter.bus, "waiter", worker)
    return seen is not None and seen > since


@agent(retry=Retry(attempts=1))
async def once(ctx: RunContext) -> str:
    return ctx.prompt


@agent(retry=Retry(attempts=2))
async def twice(ctx: RunContext) -> str:
    return ctx.prompt


def failed() -> float:
    """Return how many of its runs this process has given up."""
    labels = {"agent": "once", "version": "1.0.0", "state": FAILED}
    return REGISTRY.get_sample_value("headrace_runs_ended_total", labels) or 0


async def claimed_again(task: Task, of: Agent = once) -> object:
    """Return what another worker makes of the run."""
    run = Run(task.key, 1, task.log, task.context, task.owner)
    subject = task.bus.subjects.run(task.key, 1)
    reply = f"$JS.ACK.{task.bus.streams.runs}.c.2.1.1.{time.time_ns()}.0"
    message = Msg(task.bus.connection, subject, reply, run.encode())
    assignment = Assignment(run, message)
    return await claim(task.bus, "another", assignment, of)


async def test_a_run_that_another_worker_begins_just_in_time_is_not_dropped(
    submitter: TaskSubmitter, monkeypatch: pytest.MonkeyPatch
) -> None:
    late = (datetime.now(UTC) - timedelta(seconds=1)).isoformat()
    task = await submitter.start("twice", metadata={events.START_BY: late}, publish=False)

    async def overtaken(bus: Bus, key: TaskKey, run: int, reason: str) -> bool:
        await forge_attempts(task, 1)
        return await reject_unstarted(bus, key, run, reason)

    monkeypatch.setattr("headrace_worker.claim.reject_unstarted", overtaken)
    made = await claimed_again(task, twice)
    assert isinstance(made, ClaimedRun)
    assert made.authorship.attempt == 2


async def once_begun(submitter: TaskSubmitter, worker: str) -> Task:
    """Return a task whose only attempt `worker` has begun, and then fell silent."""
    task = await submitter.start("once", publish=False)
    await forge_attempts(task, 1, worker)
    return task


async def test_the_last_attempt_has_not_failed_while_its_worker_may_be_frozen(
    submitter: TaskSubmitter,
) -> None:
    task, before = await once_begun(submitter, "frozen"), failed()
    # Its place is kept, and not renewed.
    bucket = Bucket(submitter.bus, submitter.bus.streams.agents)
    await bucket.overwrite("live.once.frozen-1", b"{}", seconds=600)

    async def is_left_alone() -> bool:
        silent = await silent_for(submitter.bus, "once", "frozen-1") or 0.0
        return silent > 3 and await claimed_again(task) == HeldElsewhere("frozen-1")

    assert await eventually(is_left_alone)
    assert not (await task.last()).ends_run
    await bucket.delete("live.once.frozen-1")
    assert failed() == before
    assert isinstance(await claimed_again(task), Obsolete)
    assert failed() == before + 1
    assert end_of(await task.ended()) == (FAILED, "Given up after 1 attempts")


async def test_the_last_attempt_has_failed_if_its_worker_lives_and_is_not_at_work(
    submitter: TaskSubmitter,
) -> None:
    task, announcer = await once_begun(submitter, "well"), Announcer(submitter.bus, "well-1")

    async def is_given_up() -> bool:
        await announcer.renew("once")
        return isinstance(await claimed_again(task), Obsolete)

    assert await eventually(is_given_up)
    assert end_of(await task.ended()) == (FAILED, "Given up after 1 attempts")
