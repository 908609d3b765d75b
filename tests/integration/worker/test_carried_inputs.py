"""A run that carries its input: believed once, and only where the log has not gone on."""

from collections.abc import AsyncIterator, Awaitable, Callable

import orjson
import pytest

from headrace import Retry, Retryable, RunContext, agent
from headrace.demo import echo
from headrace.model import events
from headrace.model.entry import Entry
from headrace.model.messages import RunRequest
from headrace.model.task import CANCELED
from headrace.tasks.dead_letters import LetterFilter, Letters
from tests.integration.worker.conftest import Working
from tests.support.task_submitter import Task, TaskSubmitter, user_message
from tests.support.waiting import eventually


async def carrying(task: Task, text: str) -> bytes:
    """Return a run whose input says something else than the log's: it shows what was read."""
    draft = events.task_submitted(task.key.task, task.context, user_message(text))
    run = RunRequest(
        log=task.log,
        context=task.context,
        owner="anonymous",
        input=draft.line(1).decode(),
        sequence=(await task.last()).sequence,
    )
    return run.encode()


def said(entries: list[Entry]) -> str:
    """Return the answer's text."""
    updates = [event.get("artifactUpdate") for entry in entries for event in entry.events]
    return "".join(update["artifact"]["parts"][0]["text"] for update in updates if update)


async def gone(task: Task) -> bool:
    """Whether no run of the task's agent is left."""
    return await task.runs_waiting() == 0


async def test_a_carried_input_is_worked_on_without_reading_the_log(
    submitter: TaskSubmitter, working: Working
) -> None:
    task = await submitter.start("echo", "stored", publish=False)
    await task.publish(1, await carrying(task, "carried"))
    async with working(echo):
        entries = await task.ended()
    assert said(entries) == "carried"
    assert [entry.stamp.attempt for entry in entries] == [0, 1, 1]


@agent(retry=Retry(attempts=1))
async def forgetful(ctx: RunContext) -> AsyncIterator[str]:
    """Fail once it has begun."""
    yield ctx.prompt
    raise Retryable("forgotten")


async def test_the_dead_letter_of_a_run_that_had_begun_names_it_without_its_input(
    submitter: TaskSubmitter, working: Working
) -> None:
    task = await submitter.start("forgetful", "stored", publish=False)
    await task.publish(1, await carrying(task, "carried"))
    async with working(forgetful):
        assert said(await task.ended()).startswith("carried")
    [letter] = [one async for one in Letters(task.bus).find(LetterFilter(task=task.key.task))]
    run = RunRequest.decode("", letter.body)
    assert (run.log, run.context, run.input) == (task.log, task.context, None)


async def test_a_run_that_was_delivered_before_is_not_trusted(
    submitter: TaskSubmitter, working: Working
) -> None:
    task = await submitter.start("echo", "stored", publish=False)
    async with working(echo):
        pass  # the consumer is there
    await task.publish(1, await carrying(task, "carried"))
    pulling = await submitter.bus.js.pull_subscribe_bind("echo", submitter.bus.streams.runs)
    [msg] = await pulling.fetch(1, timeout=60)
    await msg.nak()
    async with working(echo):
        assert said(await task.ended()) == "stored"


async def _worked_on(task: Task) -> None:
    writer = "another-1"
    draft = events.status_update(task.key.task, task.context, "TASK_STATE_COMPLETED")
    await task.append(draft, "TASK_STATE_COMPLETED", writer=writer, run=1, attempt=1)


async def _canceled(task: Task) -> None:
    draft = events.status_update(task.key.task, task.context, CANCELED)
    await task.append(draft, CANCELED, writer="gateway-test", run=1)


async def _purged(task: Task) -> None:
    bus = task.bus
    stream, subject = bus.streams.of_shard(task.key.shard), bus.subjects.event(task.key)
    await bus.js.purge_stream(stream, subject=subject)


@pytest.mark.parametrize(("change", "left"), [(_worked_on, 2), (_canceled, 2), (_purged, 0)])
async def test_a_log_that_has_gone_on_is_looked_at_after_all(
    submitter: TaskSubmitter,
    working: Working,
    change: Callable[[Task], Awaitable[None]],
    left: int,
) -> None:
    task = await submitter.start("echo", "stored", publish=False)
    run = await carrying(task, "carried")
    await change(task)
    await task.publish(1, run)
    async with working(echo):
        await eventually(lambda: gone(task))
    stream = submitter.bus.streams.of_shard(task.key.shard)
    subject = submitter.bus.subjects.event(task.key)
    info = await submitter.bus.js.stream_info(stream, subjects_filter=subject)
    assert (info.state.subjects or {}).get(subject, 0) == left


async def test_a_message_that_is_no_entry_does_not_keep_a_run_from_beginning(
    submitter: TaskSubmitter, working: Working
) -> None:
    task = await submitter.start("echo", "stored", publish=False)
    run = await carrying(task, "carried")
    ack = await submitter.bus.request(submitter.bus.subjects.event(task.key), b"no entry", 30.0)
    assert "seq" in orjson.loads(ack.data)
    await task.publish(1, run)
    async with working(echo):
        assert said(await task.ended()) == "carried"
