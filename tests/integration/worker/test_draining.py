"""A worker that is asked to drain: it starts no more runs, and its active ones end in it."""

import asyncio
from collections.abc import AsyncIterator

from headrace import Emission, RunContext, agent
from headrace.directory import Directory
from headrace.model.messages import Draining, ProcessQuery
from headrace.model.task import COMPLETED
from headrace.processes import ask_processes
from headrace_worker.worker import Worker
from tests.integration.worker.conftest import Working
from tests.support.task_submitter import TaskSubmitter
from tests.support.waiting import eventually


async def asked_to_drain(submitter: TaskSubmitter, worker: Worker) -> int:
    """Ask as gateways do; return the number of active runs."""
    subject = submitter.bus.subjects.drain("gated-word", worker.id)
    answer = await submitter.bus.request(subject, b"", 30)
    return Draining.decode(subject, answer.data).runs


async def states_what_it_is(submitter: TaskSubmitter, worker: Worker) -> bool:
    """Tell whether operators find it although it has left the directory."""
    directory = Directory(submitter.bus)

    async def has_left() -> bool:
        await directory.read()
        return worker.id not in directory.workers()

    await eventually(has_left)
    asked = ProcessQuery(process=worker.id)
    workers = directory.workers_to_ask()
    found = await ask_processes(submitter.bus, asked, workers, seconds=60.0)
    return [one.process for one in found] == [worker.id]


async def test_active_runs_end_and_later_ones_wait_for_another_worker(
    submitter: TaskSubmitter, working: Working
) -> None:
    gate = asyncio.Event()

    @agent()
    async def gated_word(_: RunContext) -> AsyncIterator[Emission]:
        yield "begun"
        await gate.wait()
        yield "done"

    async with working(gated_word) as worker:
        active = await submitter.start("gated-word")
        await active.reaches(3)
        assert [await asked_to_drain(submitter, worker) for _ in range(2)] == [1, 1]
        assert not worker.is_ready
        assert await states_what_it_is(submitter, worker)
        later = await submitter.start("gated-word")
        gate.set()
        entries = await active.ended()
        assert entries[-1].stamp.state == COMPLETED
        assert {one.stamp.attempt for one in entries if one.stamp.attempt} == {1}
        async with asyncio.timeout(60):
            await worker.drained.wait()
        assert await later.runs_waiting() == 1
