"""Messages that were accepted before their task ended without answering them: none is lost."""

import asyncio
from collections.abc import AsyncIterator

from headrace import Emission, RunContext, agent
from headrace.log import writer_of
from headrace.model.entry import Entry
from headrace.model.queues import RunQueue
from headrace.model.task import CANCELED, FAILED, REJECTED
from headrace.tasks.end import TOO_LATE, end_task, reject_unstarted
from headrace.tasks.runs import ensure_queue
from tests.integration.worker.conftest import Working
from tests.integration.worker.test_attempts import forge_attempts
from tests.integration.worker.test_cancelling import cancel, ends
from tests.integration.worker.test_follow_ups import DECISIONS, asked, decider, folded, hand_in
from tests.support.task_submitter import Task, TaskSubmitter
from tests.support.waiting import eventually


def said_by_user(entries: list[Entry]) -> list[str]:
    """Return the user's messages in the Task's history, as a client reads it."""
    history = folded(entries)["history"]
    return [m["parts"][0]["text"] for m in history if m["role"] == "ROLE_USER"]


def check_one_end(entries: list[Entry], state: str) -> None:
    assert ends(entries) == [state]
    assert entries[-1].stamp.state == state
    generations = [g for e in entries for g in range(e.generation, e.last_generation + 1)]
    assert generations == list(range(1, len(generations) + 1))


@agent()
async def busy(ctx: RunContext) -> AsyncIterator[Emission]:
    """Answers no message while a test lasts."""
    yield ctx.prompt
    await asyncio.sleep(600)


async def test_a_canceled_task_names_the_messages_that_waited(
    submitter: TaskSubmitter, working: Working
) -> None:
    async with working(busy):
        task = await submitter.start("busy", "one")
        await task.held()
        await hand_in(task, "two")
        await hand_in(task, "three")
        assert await cancel(task) == CANCELED
        entries = await task.ended()
    check_one_end(entries, CANCELED)
    assert said_by_user(entries) == ["one", "two", "three"]


async def test_a_task_that_is_canceled_at_its_question_has_the_messages_that_waited_behind_it(
    submitter: TaskSubmitter, working: Working
) -> None:
    may_ask = asyncio.Event()
    async with working(decider(may_ask, DECISIONS[0])):
        task = await submitter.start("decider", "hi")
        await task.held()
        await hand_in(task, "yes")
        may_ask.set()
        await asked(task)
        assert await cancel(task) == CANCELED
    history = folded(await task.entries())["history"]
    assert [m["parts"][0]["text"] for m in history] == ["hi", "Delete it?", "yes"]


async def test_a_failed_task_names_the_messages_that_waited(
    submitter: TaskSubmitter, working: Working
) -> None:
    may_fail = asyncio.Event()

    @agent()
    async def failing(_: RunContext) -> None:
        await may_fail.wait()
        raise ValueError("broken")

    async with working(failing):
        task = await submitter.start("failing", "one")
        await task.held()
        await hand_in(task, "two")
        may_fail.set()
        entries = await task.ended()
    check_one_end(entries, FAILED)
    assert said_by_user(entries) == ["one", "two"]


async def test_messages_that_a_run_left_for_the_next_are_named_by_the_end_of_that(
    submitter: TaskSubmitter, working: Working
) -> None:
    may_end = asyncio.Event()

    @agent()
    async def brief(ctx: RunContext) -> AsyncIterator[Emission]:
        await may_end.wait()
        may_end.clear()
        yield ctx.prompt

    async with working(brief):
        task = await submitter.start("brief", "one")
        await task.held()
        for text in ("two", "three", "four"):
            await hand_in(task, text)
        may_end.set()
        await eventually(lambda: begun(task, run_after=1))
        assert await cancel(task) == CANCELED
        entries = await task.ended()
    check_one_end(entries, CANCELED)
    assert said_by_user(entries) == ["one", "two", "three", "four"]


async def test_an_end_by_another_writer_names_the_messages_that_waited(
    submitter: TaskSubmitter, working: Working
) -> None:
    may_end = asyncio.Event()

    @agent()
    async def brief(ctx: RunContext) -> AsyncIterator[Emission]:
        await may_end.wait()
        may_end.clear()
        yield ctx.prompt

    async with working(brief):
        task = await submitter.start("brief", "one")
        await task.held()
        for text in ("two", "three"):
            await hand_in(task, text)
        may_end.set()
        await eventually(lambda: begun(task, run_after=1))
        await hand_in(task, "four")
        await end_task(submitter.bus, task.key, CANCELED, writer_of("test"))
        entries = await task.ended()
    check_one_end(entries, CANCELED)
    assert said_by_user(entries) == ["one", "two", "three", "four"]


async def test_a_task_that_no_worker_has_begun_names_them(submitter: TaskSubmitter) -> None:
    await ensure_queue(submitter.bus, RunQueue("busy"))
    task = await submitter.start("busy", "one")
    await hand_in(task, "two")
    assert await reject_unstarted(submitter.bus, task.key, 1, TOO_LATE)
    entries = await task.ended()
    check_one_end(entries, REJECTED)
    assert said_by_user(entries) == ["one", "two"]


async def test_what_a_steered_agent_has_read_is_named_once(
    submitter: TaskSubmitter, working: Working
) -> None:
    @agent(follow_ups="steer")
    async def steered(ctx: RunContext) -> AsyncIterator[Emission]:
        yield str((await anext(ctx.inbox))["parts"][0]["text"])
        await asyncio.sleep(600)

    async with working(steered):
        task = await submitter.start("steered", "one")
        await task.held()
        await hand_in(task, "two")
        await eventually(lambda: reads(task, "two"))
        await hand_in(task, "three")
        await end_task(submitter.bus, task.key, CANCELED, writer_of("test"))
        entries = await task.ended()
    check_one_end(entries, CANCELED)
    assert said_by_user(entries) == ["one", "two", "three"]


async def test_a_run_that_is_given_up_names_them(
    submitter: TaskSubmitter, working: Working
) -> None:
    task = await submitter.start("busy", "one")
    await forge_attempts(task, 3)
    await hand_in(task, "two")
    async with working(busy):
        entries = await task.ended()
    check_one_end(entries, FAILED)
    assert said_by_user(entries) == ["one", "two"]


async def test_messages_too_large_for_one_entry_are_all_named(submitter: TaskSubmitter) -> None:
    await ensure_queue(submitter.bus, RunQueue("busy"))
    task = await submitter.start("busy", "one")
    texts = [letter * (submitter.bus.max_payload // 2) for letter in "abc"]
    for text in texts:
        await hand_in(task, text)
    await end_task(submitter.bus, task.key, CANCELED, writer_of("test"))
    entries = await task.ended()
    check_one_end(entries, CANCELED)
    assert said_by_user(entries) == ["one", *texts]


async def begun(task: Task, *, run_after: int) -> bool:
    stamp = (await task.last()).stamp
    return stamp.run > run_after and stamp.attempt == 1


async def reads(task: Task, text: str) -> bool:
    artifacts = folded(await task.entries()).get("artifacts", [])
    return any(part["text"] == text for each in artifacts for part in each["parts"])
