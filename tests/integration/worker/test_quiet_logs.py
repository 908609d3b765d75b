"""What is nobody's fault is no error in a worker's log."""

import asyncio
import logging

import pytest

from headrace import RunContext, agent
from headrace.model import events
from headrace.model.task import CANCELED
from headrace_worker.attempt import Attempt
from headrace_worker.heartbeats import WorkerLeases
from headrace_worker.timing import Timing
from tests.integration.worker.conftest import Working
from tests.support.task_submitter import TaskSubmitter
from tests.support.waiting import eventually


async def test_what_a_fenced_agent_raises_is_no_error(
    submitter: TaskSubmitter,
    working: Working,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    # It fails before its worker has noticed that it is fenced.
    monkeypatch.setattr(Attempt, "interrupt", lambda *_: None)

    @agent()
    async def late(_: RunContext) -> None:
        canceled = events.status_update(task.key.task, task.context, CANCELED)
        await task.append(canceled, CANCELED, writer="gateway-test", run=1)
        raise RuntimeError("the run is over")

    async with working(late):
        task = await submitter.start("late")

        async def is_left() -> bool:
            return "another worker has taken over" in caplog.text

        await eventually(is_left)
    assert [record for record in caplog.records if record.levelno >= logging.ERROR] == []
    assert "its agent raised RuntimeError('the run is over')" in caplog.text
    assert (await task.last()).stamp.writer == "gateway-test"


async def test_a_run_that_takes_longer_than_its_worker_is_left_to_the_queue(
    submitter: TaskSubmitter,
    working: Working,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)

    @agent()
    async def silent(_: RunContext) -> None:
        await asyncio.Event().wait()

    async def never(*_: object) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(WorkerLeases, "release_and_wait", never)
    before = asyncio.all_tasks()
    async with working(silent, timing=Timing(closing_timeout=0.0)):
        task = await submitter.start("silent")
        await task.held()

    async def is_left() -> bool:
        return asyncio.all_tasks() <= before

    await eventually(is_left, "no task of the worker is left")
    assert "leaving 1 runs to the queue" in caplog.text
    assert [record for record in caplog.records if record.levelno >= logging.ERROR] == []
