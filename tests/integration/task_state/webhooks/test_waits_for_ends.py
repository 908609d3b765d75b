"""A run that waits for another task's end is woken by it, once, and by nobody else's task."""

import asyncio
import json
import os
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from headrace import Agents, RunContext, TaskEnd, agent, webhooks
from headrace.model.queues import RunQueue
from headrace.model.task import CANCELED, COMPLETED, FAILED
from headrace.tasks.cancel import cancel_task
from headrace.webhooks import Webhooks
from tests.integration.worker.test_sleeping import said
from tests.integration.worker.test_waits import arrivals, asleep
from tests.support.servers import NatsProcess, ValkeyProcess
from tests.support.task_states import TaskStates, open_task_states
from tests.support.task_submitter import Task, TaskSubmitter
from tests.support.waiting import eventually
from tests.support.worker_process import WorkerProcess

TARGET = "tests.integration.task_state.webhooks.test_waits_for_ends:agents"
LARGE = 50_000


@agent
async def reader(ctx: RunContext) -> str:
    """Waits for the end of the task that its message names."""
    end = (await ctx.wait(TaskEnd(ctx.prompt))).json()
    text = "".join(part["text"] for each in end.get("artifacts", []) for part in each["parts"])
    return f"{end['id']} {end['status']['state']} {text[:20]} {len(text)}"


@agent
async def writer(ctx: RunContext) -> str:
    """Answers at once, after it is told to, or much."""
    if ctx.prompt == "later":
        await ctx.auth_required("Now?")
    return "x" * LARGE if ctx.prompt == "much" else f"wrote {ctx.prompt}"


agents = Agents([reader, writer])


@contextmanager
def working(fleet: TaskStates, folder: Path) -> Iterator[WorkerProcess]:
    """Serve the agents."""
    settings = fleet.settings
    names = {"prefix": settings.prefix, "stream_prefix": settings.stream_prefix}
    with WorkerProcess(folder, TARGET, settings.nats_url, names) as worker:
        yield worker


@pytest.fixture
async def fleet(nats_server: NatsProcess, valkey: ValkeyProcess) -> AsyncIterator[TaskStates]:
    """A fleet whose task state tests start."""
    async with open_task_states(nats_server.url, valkey.url) as fleet:
        yield fleet


async def answer(task: Task) -> str:
    """Return the reader's answer, for one arrival of the end."""
    entries = await task.ended()
    assert entries[-1].stamp.state == COMPLETED
    assert len(arrivals(entries)) == 1
    return said(entries)


async def test_ends_wake_those_that_wait_for_them(fleet: TaskStates, tmp_path: Path) -> None:
    await fleet.start()
    submitter = TaskSubmitter(fleet.bus)
    with working(fleet, tmp_path):
        quick, much = await submitter.start("writer", "it"), await submitter.start("writer", "much")
        open_, other = [await submitter.start("writer", "later") for _ in range(2)]
        await asyncio.gather(quick.ended(), much.ended(), open_.held(), other.held())
        readers = [await submitter.start("reader", open_.key.task) for _ in range(2)]
        alone = await submitter.start("reader", other.key.task)
        await asyncio.gather(*map(asleep, [*readers, alone]))
        late = [await submitter.start("reader", task.key.task) for task in (quick, much)]
        assert [await answer(one) for one in late] == [
            f"{quick.key.task} {COMPLETED} wrote it 8",
            f"{much.key.task} {COMPLETED} {'x' * 20} {LARGE}",
        ]
        await cancel_task(fleet.bus, open_.key, "gateway-test")
        for one in readers:
            assert await answer(one) == f"{open_.key.task} {CANCELED}  0"
        assert not (await alone.last()).ends_run
        assert await Webhooks(fleet.bus).list(open_.key) == []
        await cancel_task(fleet.bus, alone.key, "gateway-test")
        await cancel_task(fleet.bus, other.key, "gateway-test")


async def test_others_tasks_can_t_be_waited_for(fleet: TaskStates, tmp_path: Path) -> None:
    await fleet.start()
    submitter = TaskSubmitter(fleet.bus)
    with working(fleet, tmp_path):
        bobs = await submitter.start("writer", "his", owner="bob")
        acmes = await submitter.start_in(RunQueue("writer", "acme"), "theirs")
        await asyncio.gather(bobs.ended(), acmes.ended())
        for unknown in (bobs.key.task, acmes.key.task, f"0-{'0' * 32}"):
            task = await submitter.start("reader", unknown)
            entries = await task.ended()
            assert entries[-1].stamp.state == FAILED
            told = json.dumps(entries[-1].events[-1])
            assert f"ctx.wait: the task's owner has no task {unknown}" in told
        task = await submitter.start("reader", "no id")
        assert "TaskEnd needs a task's id" in json.dumps((await task.ended())[-1].events[-1])


async def test_runs_that_wait_for_one_end_have_a_limit(
    fleet: TaskStates, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(webhooks, "MOST_WAITING", 2)
    await fleet.start()
    submitter = TaskSubmitter(fleet.bus)
    with working(fleet, tmp_path):
        awaited = await submitter.start("writer", "later")
        await awaited.held()
        readers = [await submitter.start("reader", awaited.key.task) for _ in range(2)]
        await asyncio.gather(*map(asleep, readers))
        entries = await (await submitter.start("reader", awaited.key.task)).ended()
        assert entries[-1].stamp.state == FAILED
        rule = "can't be waited for: at most 2 runs may wait for it"
        assert rule in json.dumps(entries[-1].events[-1])
        await cancel_task(fleet.bus, awaited.key, "gateway-test")
        for one in readers:
            assert await answer(one) == f"{awaited.key.task} {CANCELED}  0"


async def test_an_end_wakes_though_task_state_and_the_worker_were_killed(
    fleet: TaskStates, tmp_path: Path
) -> None:
    first = await fleet.spawn(tmp_path, "first")
    submitter = TaskSubmitter(fleet.bus)
    with working(fleet, tmp_path / "one") as worker:
        tasks = [await submitter.start("writer", "later") for _ in range(5)]
        await asyncio.gather(*(task.held() for task in tasks))
        readers = [await submitter.start("reader", task.key.task) for task in tasks]
        await asyncio.gather(*map(asleep, readers))
        os.kill(first.pid, signal.SIGKILL)
        await asyncio.gather(*(cancel_task(fleet.bus, one.key, "gateway-test") for one in tasks))
        await asyncio.to_thread(worker.kill)
    await fleet.spawn(tmp_path, "second")
    with working(fleet, tmp_path / "two"):
        for one, task in zip(readers, tasks, strict=True):
            assert await answer(one) == f"{task.key.task} {CANCELED}  0"

        async def are_gone() -> bool:
            return await readers[0].is_off_the_queue()

        await eventually(are_gone, "no run is left")
