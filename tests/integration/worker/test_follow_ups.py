"""Messages to a task that is at work: each accepted once, each answered once, one run at a time."""

import asyncio
import secrets
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import suppress

import pytest

from headrace import Agent, Emission, InputRequired, Retry, Retryable, RunContext, agent
from headrace.model import events
from headrace.model.entry import Entry
from headrace.model.errors import Fenced
from headrace.model.events import Json
from headrace.model.fold import TaskFold
from headrace.model.queues import RunQueue
from headrace.model.task import (
    AUTH_REQUIRED,
    COMPLETED,
    FAILED,
    INPUT_REQUIRED,
    SUBMITTED,
)
from headrace.tasks.continue_ import QueuedInput
from headrace.tasks.runs import ensure_queue
from headrace_gateway.refusals import TaskBusy
from headrace_gateway.tasks.queued_append import QueuedAppend
from tests.integration.worker.conftest import Spawn, Working
from tests.support.task_submitter import Task, TaskSubmitter, open_submitter, user_message
from tests.support.waiting import eventually, soon
from tests.support.worker_process import WorkerProcess

REPEATERS = "tests.support.slow_agents:agents"


async def hand_in(task: Task, text: str, name: str = "") -> int | None:
    """Hand a message in as a gateway does; return its generation, or None if the run is over."""
    with suppress(Fenced):
        return await (await queued(task, text, name or f"input-{secrets.token_hex(4)}")).store()
    return None


async def queued(task: Task, text: str, name: str) -> QueuedAppend:
    found = await task.found()
    message = QueuedInput(name, found.task["contextId"], user_message(text), None)
    return QueuedAppend(task.bus, task.key, found, message)


def inputs(entries: list[Entry]) -> list[str]:
    """Return what each run is to answer, in the order of the runs."""
    found: list[str] = []
    for event in (event for entry in entries for event in entry.events):
        if "task" in event:
            found.append(event["task"]["history"][-1]["parts"][0]["text"])
        status = event.get("statusUpdate", {}).get("status", {})
        if status.get("state") == SUBMITTED and "message" in status:
            found.append(status["message"]["parts"][0]["text"])
    return found


def answers(entries: list[Entry]) -> list[str]:
    """Return the texts that every run said, as the fold has them."""
    return ["".join(part["text"] for part in a["parts"]) for a in folded(entries)["artifacts"]]


def folded(entries: list[Entry]) -> Json:
    fold = TaskFold()
    for entry in entries:
        fold.apply_entry(entry)
    return fold.task()


def check_one_run_at_a_time(entries: list[Entry]) -> None:
    """Check that no entry belongs to an older run than one before it, nor to an older attempt."""
    at = [(entry.stamp.run, entry.stamp.attempt) for entry in entries]
    assert at == sorted(at)
    generations = [g for e in entries for g in range(e.generation, e.last_generation + 1)]
    assert generations == list(range(1, len(generations) + 1))


def repeater(may_end: asyncio.Event, **declared: object) -> object:
    @agent(name="repeater", **declared)  # type: ignore[call-overload, untyped-decorator]
    async def say_again(ctx: RunContext) -> AsyncIterator[Emission]:
        yield ctx.prompt
        await may_end.wait()

    return say_again


async def whole(task: Task, runs: int) -> list[Entry]:
    """Return the log once its last run of so many has ended."""

    async def look() -> list[Entry] | None:
        last = await task.last()
        entries = await task.entries(last) if last.ends_task else []
        return entries if len(inputs(entries)) == runs else None

    return await eventually(look)


async def test_messages_to_a_running_task_are_answered_in_turn(
    submitter: TaskSubmitter, working: Working
) -> None:
    may_end = asyncio.Event()
    async with working(repeater(may_end)):
        task = await submitter.start("repeater", "one")
        await task.reaches(3)  # What it says stands before the messages.
        assert await hand_in(task, "two") == 4
        assert await hand_in(task, "three") == 5
        assert inputs(await task.entries()) == ["one"]
        may_end.set()
        entries = await whole(task, 3)
    assert inputs(entries) == answers(entries) == ["one", "two", "three"]
    check_one_run_at_a_time(entries)
    history = folded(entries)["history"]
    assert [m["parts"][0]["text"] for m in history] == ["one", "two", "three"]


async def test_a_message_handed_in_twice_under_one_name_is_one(
    submitter: TaskSubmitter, working: Working
) -> None:
    may_end = asyncio.Event()
    async with working(repeater(may_end)):
        task = await submitter.start("repeater", "one")
        await task.held()
        both = await asyncio.gather(hand_in(task, "two", "same"), hand_in(task, "two", "same"))
        assert both[0] == both[1] == await hand_in(task, "two", "same")
        may_end.set()
        entries = await whole(task, 2)
    assert answers(entries) == ["one", "two"]


async def test_a_message_that_has_become_a_runs_input_is_not_queued_again(
    submitter: TaskSubmitter, working: Working
) -> None:
    may_end, at_work = asyncio.Queue[None](), list[str]()

    @agent(name="repeater")
    async def say_again(ctx: RunContext) -> AsyncIterator[Emission]:
        at_work.append(ctx.prompt)
        yield ctx.prompt
        await may_end.get()

    async with working(say_again):
        task = await submitter.start("repeater", "one")
        await task.held()
        append = await queued(task, "two", "same")
        generation = await append.store()
        may_end.put_nowait(None)
        await soon(lambda: "two" in at_work, "the message to begin a run")
        # A gateway that got no answer repeats what it did, knowing only what it found before.
        assert await append.store() == generation
        may_end.put_nowait(None)
        entries = await whole(task, 2)
    assert answers(entries) == ["one", "two"]


async def test_a_message_that_an_earlier_attempt_answered_is_not_queued_again(
    submitter: TaskSubmitter, working: Working
) -> None:
    may_end = asyncio.Event()

    @agent(follow_ups="steer", retry=Retry(backoff=0.1))
    async def careful(ctx: RunContext) -> AsyncIterator[Emission]:
        if ctx.attempt == 1:
            yield (await anext(ctx.inbox))["parts"][0]["text"]
            await ctx.checkpoint({"answered": True})
            raise Retryable
        await may_end.wait()

    async with working(careful):
        task = await submitter.start("careful", "go")
        await task.held()
        append = await queued(task, "a", "same")
        generation = await append.store()
        await eventually(lambda: in_attempt(task, 2))
        assert await append.store() == generation
        may_end.set()
        entries = await whole(task, 1)
    assert answers(entries) == ["a"]


async def test_a_question_that_has_its_answer_waiting_goes_on(
    submitter: TaskSubmitter, working: Working
) -> None:
    may_ask = asyncio.Event()

    @agent()
    async def curious(ctx: RunContext) -> AsyncIterator[Emission]:
        if ctx.run == 1:
            await may_ask.wait()
            yield InputRequired("Your name?")
        else:
            yield f"Hello, {ctx.prompt}"

    async with working(curious):
        task = await submitter.start("curious", "hi")
        await task.held()
        await hand_in(task, "Ada")
        may_ask.set()
        entries = await whole(task, 2)
    assert answers(entries) == ["Hello, Ada"]
    assert INPUT_REQUIRED not in {entry.stamp.state for entry in entries}
    text = [m["parts"][0]["text"] for m in folded(entries)["history"]]
    assert text == ["hi", "Your name?", "Ada"]


def decider(may_ask: asyncio.Event, question: Json) -> Agent:
    """Return an agent that asks for a decision, and repeats what it is told."""

    @agent(name="decider")
    async def decide(ctx: RunContext) -> AsyncIterator[Emission]:
        if ctx.run > 1:
            yield ctx.prompt
            return
        await may_ask.wait()
        yield InputRequired("Delete it?", **question)

    return decide


async def asked(task: Task) -> Json:
    """Return the question of the task, once it waits."""
    await eventually(lambda: is_in(task, INPUT_REQUIRED))
    status: Json = (await task.last()).events[-1]["statusUpdate"]["status"]
    return status


async def is_in(task: Task, state: str) -> bool:
    return (await task.last()).stamp.state == state


DECISIONS: list[Json] = [
    {"interrupts": [{"id": "i", "reason": "tool_call", "message": "Delete it?"}]},
    {"schema": {"type": "boolean"}},
    {"tool_calls": ["c1"]},
]


@pytest.mark.parametrize("question", DECISIONS, ids=lambda one: next(iter(one)))
async def test_a_message_that_was_sent_before_a_decision_does_not_make_it(
    submitter: TaskSubmitter, working: Working, question: Json
) -> None:
    may_ask = asyncio.Event()
    async with working(decider(may_ask, question)):
        task = await submitter.start("decider", "hi")
        await task.held()
        early = [await hand_in(task, text) for text in ("yes", "and then?")]
        may_ask.set()
        status = await asked(task)
        assert status["message"]["metadata"][events.WAITING] == early
        assert inputs(await task.entries()) == ["hi"]
        await task.follow_up("no")
        entries = await whole(task, 4)
    assert inputs(entries) == ["hi", "no", "yes", "and then?"]
    assert answers(entries) == ["no", "yes", "and then?"]
    text = [m["parts"][0]["text"] for m in folded(entries)["history"]]
    assert text == ["hi", "Delete it?", "no", "yes", "and then?"]
    check_one_run_at_a_time(entries)


async def test_an_interrupting_message_stops_the_agent_and_is_answered(
    submitter: TaskSubmitter, working: Working
) -> None:
    stopped: list[str] = []

    @agent(follow_ups="interrupt")
    async def obedient(ctx: RunContext) -> AsyncIterator[Emission]:
        yield ctx.prompt
        try:
            await asyncio.sleep(600 if ctx.run == 1 else 0)
        except asyncio.CancelledError:
            stopped.append(ctx.prompt)
            raise

    async with working(obedient):
        task = await submitter.start("obedient", "one")
        await task.held()
        await hand_in(task, "two")
        entries = await whole(task, 2)
    assert stopped == ["one"]
    assert answers(entries) == ["one", "two"]
    check_one_run_at_a_time(entries)


async def test_an_agent_that_takes_none_refuses_a_message(
    submitter: TaskSubmitter, working: Working
) -> None:
    may_end = asyncio.Event()
    async with working(repeater(may_end, follow_ups="reject")):
        task = await submitter.start("repeater", "one")
        await task.held()
        with pytest.raises(TaskBusy):
            await hand_in(task, "two")
        may_end.set()
        assert inputs(await whole(task, 1)) == ["one"]


async def test_a_steered_agent_is_handed_messages_while_it_is_at_work(
    submitter: TaskSubmitter, working: Working
) -> None:
    @agent(follow_ups="steer")
    async def steered(ctx: RunContext) -> AsyncIterator[Emission]:
        yield f"{ctx.prompt} "
        async for message in ctx.inbox:
            text = message["parts"][0]["text"]
            yield f"{text} "
            if text == "stop":
                break

    async with working(steered):
        task = await submitter.start("steered", "go")
        await task.held()
        for text in ("left", "right", "stop"):
            await hand_in(task, text)
        entries = await whole(task, 1)
    assert answers(entries) == ["go left right stop "]
    outputs = [
        m["parts"][0]["text"] for m in folded(entries)["history"] if m["role"] == "ROLE_USER"
    ]
    assert outputs == ["go", "left", "right", "stop"]


async def test_a_message_that_a_steered_agent_leaves_is_the_next_input(
    submitter: TaskSubmitter, working: Working
) -> None:
    may_end = asyncio.Event()
    async with working(repeater(may_end, follow_ups="steer")):
        task = await submitter.start("repeater", "one")
        await task.held()
        await hand_in(task, "two")
        may_end.set()
        entries = await whole(task, 2)
    assert answers(entries) == ["one", "two"]


async def test_what_a_discarded_attempt_took_is_handed_to_the_next(
    submitter: TaskSubmitter, working: Working
) -> None:
    @agent(follow_ups="steer", retry=Retry(backoff=0.1))
    async def flaky(ctx: RunContext) -> AsyncIterator[Emission]:
        for _ in range(2):
            message = await anext(ctx.inbox)
            yield f"{message['parts'][0]['text']} "
        if ctx.attempt == 1:
            raise Retryable

    async with working(flaky):
        task = await submitter.start("flaky", "go")
        await task.held()
        await hand_in(task, "a")
        await hand_in(task, "b")
        entries = await whole(task, 1)
    assert answers(entries) == ["a b "]
    text = [m["parts"][0]["text"] for m in folded(entries)["history"] if m["role"] == "ROLE_USER"]
    assert text == ["go", "a", "b"]


async def test_a_message_that_a_cancelled_read_had_taken_is_the_next_reads(
    submitter: TaskSubmitter, working: Working
) -> None:
    @agent(follow_ups="steer")
    async def cancelling(ctx: RunContext) -> AsyncIterator[Emission]:
        await soon(lambda: bool(ctx.inbox), "the message")
        reading = asyncio.ensure_future(anext(ctx.inbox))
        await asyncio.sleep(0)  # It has taken the message, which is not stored yet.
        reading.cancel()
        await asyncio.wait([reading])
        yield f"{reading.cancelled()} {bool(ctx.inbox)} "
        yield str((await anext(ctx.inbox))["parts"][0]["text"])

    async with working(cancelling):
        task = await submitter.start("cancelling", "go")
        await task.held()
        await hand_in(task, "left")
        entries = await whole(task, 1)
    assert answers(entries) == ["True True left"]
    text = [m["parts"][0]["text"] for m in folded(entries)["history"] if m["role"] == "ROLE_USER"]
    assert text == ["go", "left"]


async def test_an_unstarted_task_queues_messages_and_still_counts_as_waiting(
    submitter: TaskSubmitter, working: Working
) -> None:
    await ensure_queue(submitter.bus, RunQueue("repeater"))
    task = await submitter.start("repeater", "one")
    assert await hand_in(task, "two") == 2
    last = await task.last()
    assert (last.stamp.state, last.stamp.run, last.stamp.attempt) == (SUBMITTED, 1, 0)
    may_end = asyncio.Event()
    may_end.set()
    async with working(repeater(may_end)):
        entries = await whole(task, 2)
    assert answers(entries) == ["one", "two"]
    check_one_run_at_a_time(entries)


async def test_a_message_for_a_run_that_is_over_is_not_accepted(
    submitter: TaskSubmitter, working: Working
) -> None:
    may_end = asyncio.Event()
    may_end.set()
    async with working(repeater(may_end)):
        task = await submitter.start("repeater", "one")
        before = await task.ended()
        assert await hand_in(task, "two") is None
        assert len(await task.entries()) == len(before)


async def test_the_message_to_a_holder_that_does_not_answer_is_kept_once(
    submitter: TaskSubmitter, spawn: Spawn
) -> None:
    workers = await asyncio.gather(*(asyncio.to_thread(spawn, REPEATERS) for _ in range(2)))
    task = await submitter.start("slow_repeater", "one")
    holder = by_id(workers, (await task.held()).worker)
    await asyncio.to_thread(holder.freeze)
    assert await hand_in(task, "two") is not None
    await eventually(lambda: in_attempt(task, 2))
    holder.thaw()
    entries = await whole(task, 2)
    assert answers(entries) == ["one", "two"]
    assert Counter(inputs(entries)) == {"one": 1, "two": 1}
    check_one_run_at_a_time(entries)


@pytest.mark.parametrize("moment", [0.0, 0.01, 0.05])
async def test_a_killed_holder_loses_and_doubles_no_message(
    moment: float, submitter: TaskSubmitter, spawn: Spawn
) -> None:
    workers = await asyncio.gather(*(asyncio.to_thread(spawn, REPEATERS) for _ in range(2)))
    task = await submitter.start("slow_repeater", "0")
    holder = by_id(workers, (await task.held()).worker)
    texts = [str(number) for number in range(1, 9)]
    handing = [asyncio.ensure_future(_until_accepted(task, text)) for text in texts]
    await asyncio.sleep(moment)
    holder.kill()
    await asyncio.gather(*handing)
    entries = await whole(task, 9)
    assert sorted(inputs(entries)) == sorted(answers(entries)) == ["0", *texts]
    check_one_run_at_a_time(entries)


async def test_messages_from_many_gateways_make_one_run_each(
    submitter: TaskSubmitter, working: Working
) -> None:
    at_work: list[int] = []
    one_is_taken = asyncio.Event()

    @agent()
    async def lonely(ctx: RunContext) -> AsyncIterator[Emission]:
        at_work.append(ctx.run)
        assert len(at_work) == 1
        yield ctx.prompt
        if ctx.run == 1:
            await one_is_taken.wait()
        await asyncio.sleep(0.02)
        at_work.remove(ctx.run)

    async with (
        working(lonely),
        working(lonely),
        open_submitter(submitter.bus.settings) as second,
        open_submitter(submitter.bus.settings) as third,
    ):
        task = await submitter.start("lonely", "0")
        await task.held()
        others = [Task(d.bus, task.key, task.log, task.context) for d in (submitter, second, third)]
        texts = [str(number) for number in range(1, 13)]

        async def handed_in(to: Task, text: str) -> int | None:
            generation = await hand_in(to, text)
            if generation:
                one_is_taken.set()
            return generation

        handing = (handed_in(others[n % 3], text) for n, text in enumerate(texts))
        taken = await asyncio.gather(*handing)
        accepted = [text for text, generation in zip(texts, taken, strict=True) if generation]
        entries = await whole(task, 1 + len(accepted))
    assert sorted(answers(entries)) == sorted(["0", *accepted])
    assert accepted
    assert entries[-1].stamp.state == COMPLETED
    check_one_run_at_a_time(entries)


async def test_credentials_are_requested_and_the_worker_keeps_the_run(
    submitter: TaskSubmitter, working: Working
) -> None:
    @agent(follow_ups="reject")
    async def guarded(ctx: RunContext) -> AsyncIterator[Emission]:
        answer = await ctx.auth_required("A token, please", {"type": "string"})
        yield f"got {answer['parts'][0]['text']}"

    async with working(guarded):
        task = await submitter.start("guarded", "x")
        asking = await eventually(lambda: in_state(task, AUTH_REQUIRED))
        status = asking.events[-1]["statusUpdate"]["status"]
        assert status["message"]["metadata"] == {events.INPUT_SCHEMA: {"type": "string"}}
        assert (await task.held()).attempt == 1
        await hand_in(task, "secret")
        entries = await whole(task, 1)
    assert answers(entries) == ["got secret"]
    assert {entry.stamp.run for entry in entries} == {1}


async def test_an_answer_outlives_the_worker_that_requested_it(
    submitter: TaskSubmitter, spawn: Spawn
) -> None:
    workers = await asyncio.gather(*(asyncio.to_thread(spawn, REPEATERS) for _ in range(2)))
    task = await submitter.start("guarded", "x")
    await eventually(lambda: in_state(task, AUTH_REQUIRED))
    by_id(workers, (await task.held()).worker).kill()
    assert await hand_in(task, "secret") is not None
    entries = await whole(task, 1)
    assert answers(entries) == ["got secret"]
    assert [entry.stamp.attempt for entry in entries][-1] == 2


async def test_no_task_waits_for_credentials_without_limit(
    submitter: TaskSubmitter, working: Working
) -> None:
    @agent()
    async def hasty(ctx: RunContext) -> None:
        await ctx.auth_required("A token, please", timeout=0.2)

    async with working(hasty):
        task = await submitter.start("hasty", "x")
        assert (await task.ended())[-1].stamp.state == FAILED


async def _until_accepted(task: Task, text: str) -> None:
    name = f"input-{text}"
    # Between two runs it is refused; a gateway looks again, too.
    await eventually(lambda: hand_in(task, text, name))


def by_id(workers: list[WorkerProcess], name: str) -> WorkerProcess:
    return next(worker for worker in workers if worker.id == name)


async def in_attempt(task: Task, attempt: int) -> bool:
    return (await task.last()).stamp.attempt == attempt


async def in_state(task: Task, state: str) -> Entry | None:
    last = await task.last()
    return last if last.stamp.state == state else None
