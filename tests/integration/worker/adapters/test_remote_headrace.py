"""Agents of another Headrace, by URL: asked once, followed by cursor."""

from collections.abc import AsyncIterator

import pytest

from headrace.log import last_entry
from headrace.model import events, parts
from headrace.model.events import INTERRUPTS
from headrace.model.task import CANCELED
from tests.integration.worker.conftest import Working
from tests.support.log_reading import (
    answer,
    folded,
    said,
    state,
    thoughts,
    words,
)
from tests.support.other_headrace import OtherHeadrace, another_headrace
from tests.support.servers import NatsProcess
from tests.support.task_submitter import Task, TaskSubmitter
from tests.support.waiting import eventually


@pytest.fixture
async def other(nats_server: NatsProcess) -> AsyncIterator[OtherHeadrace]:
    async with another_headrace(nats_server.url) as it:
        yield it


async def _has(task: Task, text: str) -> bool:
    artifacts = (await task.found()).task.get("artifacts", [])
    return bool(artifacts) and artifacts[0]["parts"][0]["text"] == text


def chunks(log: list[events.Json]) -> list[str]:
    """Return the texts of the artifact's chunks."""
    updates = [event["artifactUpdate"] for event in log if "artifactUpdate" in event]
    return [update["artifact"]["parts"][0]["text"] for update in updates]


@pytest.mark.parametrize("binding", ["JSONRPC", "HTTP+JSON", "GRPC"])
async def test_its_events_are_relayed_with_their_metadata(
    submitter: TaskSubmitter, working: Working, other: OtherHeadrace, binding: str
) -> None:
    async with working(await other.agent("patient", binding)):
        task = await submitter.start("patient", "x")
        await eventually(lambda: _has(task, "ab"))
        [run] = other.fleet.runs
        run.go_on.set()
        done = await folded(task)
    assert (state(done), answer(done), thoughts(done)) == ("COMPLETED", "abc", "Hm. ")
    [thought] = [part for part in said(done) if parts.is_thinking(part)]
    assert thought["metadata"]["agui_block_id"] == "think-1"
    assert done["metadata"]["remote_task"] == run.key.task


@pytest.mark.parametrize("binding", ["JSONRPC", "HTTP+JSON"])
async def test_a_cut_stream_goes_on_behind_its_cursor(
    submitter: TaskSubmitter, working: Working, other: OtherHeadrace, binding: str
) -> None:
    async with working(await other.agent("patient", binding)):
        task = await submitter.start("patient", "x")
        await eventually(lambda: _has(task, "ab"))
        [run] = other.fleet.runs
        await other.proxy.cut()
        run.go_on.set()
        log = await task.events()
        done = await folded(task)
    assert chunks(log) == ["a", "b", "c"]
    assert (answer(done), len(other.fleet.runs)) == ("abc", 1)


@pytest.mark.parametrize("binding", ["JSONRPC", "HTTP+JSON", "GRPC"])
async def test_a_new_attempt_follows_the_same_task_from_its_beginning(
    submitter: TaskSubmitter, working: Working, other: OtherHeadrace, binding: str
) -> None:
    agent = await other.agent("patient", binding)
    async with working(agent):
        task = await submitter.start("patient", "x")
        await eventually(lambda: _has(task, "ab"))
    [run] = other.fleet.runs
    run.go_on.set()
    async with working(agent):
        done = await folded(task)
    assert (state(done), answer(done), thoughts(done)) == ("COMPLETED", "abc", "Hm. ")
    assert len(other.fleet.runs) == 1


async def test_a_message_sent_again_makes_no_second_task(
    submitter: TaskSubmitter, working: Working, other: OtherHeadrace
) -> None:
    agent = await other.agent("patient", "JSONRPC")
    async with working(agent):
        task = await submitter.start("patient", "x")
        await eventually(lambda: _has(task, "ab"))
        other.proxy.refuses = True
        await other.proxy.cut()
    # The worker left when it did not reach the other one; the next attempt comes later.
    other.proxy.refuses = False
    other.fleet.runs[0].go_on.set()
    async with working(agent):
        done = await folded(task)
    assert (state(done), answer(done), len(other.fleet.runs)) == ("COMPLETED", "abc", 1)


async def test_its_question_its_interrupt_and_the_answer_pass(
    submitter: TaskSubmitter, working: Working, other: OtherHeadrace
) -> None:
    async with working(await other.agent("ask", "JSONRPC")):
        task = await submitter.start("ask", "x")
        last = (await task.events())[-1]["statusUpdate"]
        assert last["metadata"][INTERRUPTS] == [{"id": "int-1", "reason": "name"}]
        named = {"agui_interrupt_id": "int-1", "agui_resume_status": "resolved"}
        part = {"text": "Ada", "metadata": named}
        run = await task.follow_up_with({"messageId": "r", "role": "ROLE_USER", "parts": [part]})
        await task.reaches(run + 3)
        done = await folded(task)
    first, second = other.fleet.runs
    assert first.key == second.key
    assert second.message["parts"] == [part]
    assert (state(done), answer(done)) == ("COMPLETED", "Ada")
    assert words(done) == ""


async def test_a_cancel_is_confirmed_over_there(
    submitter: TaskSubmitter, working: Working, other: OtherHeadrace
) -> None:
    async with working(await other.agent("patient", "JSONRPC")):
        task = await submitter.start("patient", "x")
        await eventually(lambda: _has(task, "ab"))
        await task.held()
        await task.ask("cancel")
        done = await folded(task)
        theirs = await last_entry(other.fleet.bus, other.fleet.runs[0].key)
    assert theirs is not None
    assert (state(done), theirs.stamp.state) == ("CANCELED", CANCELED)
