"""Messages to tasks at work that are sent once, under a key, or on a condition."""

import asyncio
import secrets
from collections.abc import AsyncIterator, Callable, Sequence

import pytest

from headrace.model.entry import Entry
from headrace.model.errors import Fenced
from headrace.model.messages import GetTask
from headrace.state_client import TaskRead
from headrace_gateway.refusals import GenerationMismatch, KeyReused, TaskEnded
from headrace_gateway.server.auth.caller import Caller
from headrace_gateway.tasks.idempotency import KeyedRequest
from headrace_gateway.tasks.submission import AcceptedInput, Submission
from tests.integration.worker.conftest import Spawn, Working
from tests.integration.worker.test_follow_ups import REPEATERS, inputs, repeater, whole
from tests.support.submitting_gateway import SubmittingGateway
from tests.support.task_submitter import Task, TaskSubmitter, user_message


class Found:
    """Task state, and a directory without cards."""

    def __init__(self) -> None:
        self.task: Task | None = None

    async def read(self, query: GetTask) -> TaskRead:
        assert self.task is not None
        assert query.task == self.task.key.task
        return TaskRead(await self.task.found())

    @staticmethod
    def read_in(query: GetTask, entries: Sequence[Entry]) -> None:
        """Return None, as of a task whose log the gateway has not kept."""
        assert query.task
        assert not entries

    @staticmethod
    def card(agent: str) -> None:
        assert agent


class Gateway(SubmittingGateway):
    """Sends messages of one caller."""

    async def send(self, task: Task, text: str, key: str) -> AcceptedInput:
        message, agent = {**user_message(text), "messageId": text}, task.key.agent
        keyed = KeyedRequest(Caller(), agent, key, text)
        submission = Submission(Caller(), agent, message, task=task.key.task, keyed=keyed)
        return await self.submissions.submit(submission)

    async def send_at(self, task: Task, text: str, generation: int) -> AcceptedInput:
        message, key = user_message(text), task.key
        return await self.submissions.submit(
            Submission(Caller(), key.agent, message, task=key.task, if_generation=generation)
        )


type Gateways = Callable[[Task], tuple[Gateway, Gateway]]


@pytest.fixture
async def gateways(submitter: TaskSubmitter) -> AsyncIterator[Gateways]:
    """Returns two gateways for a task."""
    found = Found()
    one, other = (Gateway(submitter.bus, 60.0, found) for _ in range(2))
    for each in (one, other):
        await each.rule.start()

    def of(task: Task) -> tuple[Gateway, Gateway]:
        found.task = task
        return one, other

    yield of
    for each in (one, other):
        await each.rule.stop()


def some_key() -> str:
    return secrets.token_hex(8)


async def test_a_keyed_message_to_a_running_task_is_queued_once(
    submitter: TaskSubmitter, working: Working, gateways: Gateways
) -> None:
    may_end, key = asyncio.Event(), some_key()
    async with working(repeater(may_end)):
        task = await submitter.start("repeater", "one")
        one, other = gateways(task)
        await task.held()
        first = await one.send(task, "two", key)
        assert not first.is_replay
        sent = await asyncio.gather(*(each.send(task, "two", key) for each in [one, other] * 5))
        assert {accepted.generation for accepted in sent} == {first.generation}
        assert all(accepted.is_replay for accepted in sent)
        with pytest.raises(KeyReused):
            await other.send(task, "three", key)
        may_end.set()
        entries = await whole(task, 2)
        assert inputs(entries) == ["one", "two"]
        # Also when the task is over.
        assert (await other.send(task, "two", key)).generation == first.generation
        with pytest.raises(TaskEnded):
            await other.send(task, "four", some_key())


async def test_many_copies_at_once_on_two_gateways_are_one_message(
    submitter: TaskSubmitter, working: Working, gateways: Gateways
) -> None:
    may_end, key = asyncio.Event(), some_key()
    async with working(repeater(may_end)):
        task = await submitter.start("repeater", "one")
        await task.held()
        sending = (each.send(task, "two", key) for each in list(gateways(task)) * 10)
        generations = {accepted.generation for accepted in await asyncio.gather(*sending)}
        assert len(generations) == 1
        may_end.set()
        assert inputs(await whole(task, 2)) == ["one", "two"]


@pytest.mark.parametrize("after", [0.0, 0.02])
async def test_a_keyed_message_sent_until_it_is_taken_survives_a_killed_holder_once(
    submitter: TaskSubmitter, spawn: Spawn, gateways: Gateways, after: float
) -> None:
    worker = await asyncio.to_thread(spawn, REPEATERS)
    task = await submitter.start("slow_repeater", "one")
    await task.held()
    one, other = gateways(task)
    key = some_key()
    sending = asyncio.create_task(one.send(task, "two", key))
    await asyncio.sleep(after)
    worker.kill()
    # In a thread: what is being sent waits for answers in this loop.
    await asyncio.to_thread(spawn, REPEATERS)
    await sending
    await other.send(task, "two", key)
    assert inputs(await whole(task, 2)) == ["one", "two"]


async def test_a_message_to_a_running_task_is_taken_only_at_the_generation_that_it_names(
    submitter: TaskSubmitter, working: Working, gateways: Gateways
) -> None:
    may_end = asyncio.Event()
    async with working(repeater(may_end)):
        task = await submitter.start("repeater", "one")
        one, other = gateways(task)
        await task.held()
        at = (await task.reaches(3)).last_generation
        with pytest.raises(GenerationMismatch) as refused:
            await one.send_at(task, "early", at - 1)
        assert refused.value.generation == at
        sending = [each.send_at(task, "two", at) for each in [one, other] * 5]
        results = await asyncio.gather(*sending, return_exceptions=True)
        [taken] = [r for r in results if isinstance(r, AcceptedInput)]
        assert taken.generation == at + 1
        assert all(isinstance(r, GenerationMismatch) for r in results if r is not taken)
        may_end.set()
        assert inputs(await whole(task, 2)) == ["one", "two"]


async def test_a_condition_is_checked_even_if_the_holder_does_not_answer(
    submitter: TaskSubmitter, gateways: Gateways
) -> None:
    task = await submitter.start("nobody", "one", publish=False)
    one, _ = gateways(task)
    assert (await one.send_at(task, "two", 1)).generation == 2
    with pytest.raises((GenerationMismatch, Fenced)):
        await one.send_at(task, "three", 1)
    assert (await one.send_at(task, "three", 2)).generation == 3
