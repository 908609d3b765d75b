"""One writer at a time: who holds a run, who steps back, who takes over, who falls silent."""

import asyncio
from collections.abc import AsyncIterator

from headrace import Emission, InputRequired, RunContext, agent
from headrace.demo import echo
from headrace.model import events
from headrace.model.entry import Entry
from headrace.model.messages import HolderReply
from headrace.model.task import CANCELED, SUBMITTED, WORKING
from tests.integration.worker.conftest import Spawn, Working
from tests.support.task_submitter import Task, TaskSubmitter, user_message
from tests.support.waiting import eventually

DEMO = "tests.support.slow_counter:agents"


@agent()
async def patient(_: RunContext) -> AsyncIterator[Emission]:
    """Says one thing and waits to be stopped."""
    yield "begun"
    await asyncio.sleep(60)


def attempts(entries: list[Entry]) -> list[int]:
    """Return the attempts that WORKING announces, in order."""
    return [
        event["statusUpdate"]["metadata"][events.ATTEMPT]
        for entry in entries
        for event in entry.events
        if events.ATTEMPT in event.get("statusUpdate", {}).get("metadata", {})
    ]


def texts(entries: list[Entry], attempt: int) -> list[str]:
    """Return the text chunks that an attempt wrote."""
    return [
        event["artifactUpdate"]["artifact"]["parts"][0]["text"]
        for entry in entries
        for event in entry.events
        if entry.stamp.attempt == attempt and "artifactUpdate" in event
    ]


async def test_a_run_redelivered_while_its_holder_is_well_changes_nothing(
    submitter: TaskSubmitter, spawn: Spawn
) -> None:
    """As after a consumer leader's crash: the other worker gets the run, asks, and steps back."""
    first = await asyncio.to_thread(spawn, DEMO)
    task = await submitter.start("slow-counter")
    await task.held()
    second = await asyncio.to_thread(spawn, DEMO, log_level="debug")

    async def has_stepped_back() -> bool:
        await _redeliver(task)
        await asyncio.sleep(0.1)
        return f"is held by {first.id}" in second.output()

    await eventually(has_stepped_back)
    assert await task.ask("cancel") is not None
    entries = await task.ended()
    assert attempts(entries) == [1]
    assert await eventually(task.is_off_the_queue)


async def test_a_request_for_a_superseded_run_is_dropped(
    submitter: TaskSubmitter, working: Working
) -> None:
    task = await submitter.start("echo", "old", publish=False)
    text = events.status_update(task.key.task, task.context, SUBMITTED, user_message("new"))
    await task.append(text, SUBMITTED, writer="gateway-test")
    await task.publish(1)
    async with working(echo):
        await eventually(task.is_off_the_queue)
        assert len(await task.entries()) == 2
        await task.publish(2)
        entries = await task.ended()
    assert texts(entries, 1) == ["new"]
    assert {entry.stamp.run for entry in entries[1:]} == {2}


async def test_a_run_for_another_log_is_dropped(submitter: TaskSubmitter, working: Working) -> None:
    task = await submitter.start("echo", "x", publish=False)
    task.log, own = "00000000", task.log
    await task.publish(1)
    async with working(echo):
        await eventually(task.is_off_the_queue)
        task.log = own
        assert len(await task.entries()) == 1


async def test_a_run_whose_log_is_gone_becomes_a_dead_letter(
    submitter: TaskSubmitter, working: Working
) -> None:
    task = await submitter.start("echo", "x", publish=False)
    await submitter.bus.js.purge_stream(
        submitter.bus.streams.of_shard(task.key.shard),
        subject=submitter.bus.subjects.event(task.key),
    )
    await task.publish(1)
    async with working(echo):
        await eventually(task.is_off_the_queue)
    subject = submitter.bus.subjects.dead("default", "echo")
    letter = await submitter.bus.js.get_last_msg(submitter.bus.streams.dead, subject)
    assert b"its log is gone" in (letter.data or b"")


async def test_the_holder_answers_who_it_is(submitter: TaskSubmitter, working: Working) -> None:
    async with working(patient) as worker:
        task = await submitter.start("patient")
        held = await task.held()
        last = await task.reaches(3)
        assert (held.worker, held.run, held.attempt) == (worker.id, 1, 1)
        assert held.writer == last.stamp.writer


async def test_a_fenced_worker_notices_while_its_agent_is_silent(
    submitter: TaskSubmitter, working: Working
) -> None:
    stopped = asyncio.Event()
    answers: list[HolderReply | None] = []

    @agent()
    async def silent(ctx: RunContext) -> None:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            answers.append(await task.ask("who"))
            await ctx.emit("too late")
            raise
        finally:
            stopped.set()

    async with working(silent):
        task = await submitter.start("silent")
        await task.held()
        canceled = events.status_update(task.key.task, task.context, CANCELED)
        await task.append(canceled, CANCELED, writer="gateway-test", run=1)
        async with asyncio.timeout(60):
            await stopped.wait()
        assert answers == [None]
        assert (await task.last()).stamp.writer == "gateway-test"


async def test_a_message_that_is_not_an_entry_fences_no_writer(
    submitter: TaskSubmitter, working: Working
) -> None:
    go_on = asyncio.Event()

    @agent()
    async def slow(_: RunContext) -> AsyncIterator[Emission]:
        yield "0 "
        await go_on.wait()
        yield "1 "

    async with working(slow):
        task = await submitter.start("slow")
        await task.reaches(3)
        await submitter.bus.request(submitter.bus.subjects.event(task.key), b"not an entry", 30.0)
        await asyncio.sleep(2.5)  # Longer than a silent log is not looked at.
        go_on.set()
        entries = await task.ended()
    assert attempts(entries) == [1]
    assert texts(entries, 1) == ["0 ", "1 "]


async def test_a_purged_log_is_not_written_to_again(
    submitter: TaskSubmitter, working: Working
) -> None:
    async with working(patient):
        task = await submitter.start("patient")
        await task.reaches(3)
        await submitter.bus.js.purge_stream(
            submitter.bus.streams.of_shard(task.key.shard),
            subject=submitter.bus.subjects.event(task.key),
        )
        await eventually(lambda: _nobody_answers(task))
        assert await eventually(task.is_off_the_queue)


async def test_a_follow_up_goes_on_with_what_was_emitted(
    submitter: TaskSubmitter, working: Working
) -> None:
    async with working(recalling):
        task = await submitter.start("recalling", "first")
        await task.ended()
        run = await task.follow_up("second")
        entries = await eventually(lambda: _ended_run(task, run))
    assert [e.stamp.run for e in entries[:5]] == [1, 1, 1, run, run]
    assert texts(entries, 1)[-1] == "first second"


async def _ended_run(task: Task, run: int) -> list[Entry] | None:
    last = await task.last()
    return await task.entries(last) if last.ends_task and last.stamp.run == run else None


async def _nobody_answers(task: Task) -> bool:
    return await task.ask("who") is None


async def _redeliver(task: Task) -> None:
    """Let the work queue hand the run out again, as if its holder had said no."""
    stream = task.bus.streams.runs
    info = await task.bus.js.consumer_info(stream, task.key.agent)
    found = await task.bus.js.get_last_msg(stream, task.bus.subjects.run(task.key, 1))
    delivered = info.delivered.consumer_seq if info.delivered else 1
    reply = f"$JS.ACK.{stream}.{task.key.agent}.1.{found.seq}.{delivered}.1.0"
    await task.bus.connection.publish(reply, b"-NAK")


@agent()
async def recalling(ctx: RunContext) -> AsyncIterator[Emission]:
    """Asks once, then says what the user has said so far."""
    if ctx.run == 1:
        yield InputRequired("And then?")
        return
    task = await ctx.load_task()
    text = [m["parts"][0]["text"] for m in task["history"] if m["role"] == "ROLE_USER"]
    yield " ".join(text)
    assert task["status"]["state"] == WORKING
