"""All workers are replaced, one after the other, while runs keep coming."""

import asyncio
from itertools import pairwise

import orjson

from headrace.model import events
from headrace.model.entry import Entry
from headrace.model.fold import TaskFold
from headrace.model.task import COMPLETED
from tests.integration.worker.conftest import Spawn
from tests.support.task_submitter import Task, TaskSubmitter
from tests.support.worker_process import WorkerProcess

DEMO = "headrace.demo:agents"
WORKERS = 3


def said(entries: list[Entry]) -> str:
    """Return the answer as the fold has it."""
    fold = TaskFold()
    for entry in entries:
        fold.apply_entry(entry)
    return "".join(part["text"] for a in fold.task()["artifacts"] for part in a["parts"])


def check_only_handed_back_work_was_repeated(entries: list[Entry]) -> None:
    """Check that an attempt follows another only where that one was handed back."""
    for before, after in pairwise(entries):
        if after.stamp.attempt > max(before.stamp.attempt, 1):
            assert events.why_handed_back(orjson.loads(before.lines[-1])) == events.LEAVING


async def started(spawn: Spawn) -> WorkerProcess:
    return await asyncio.to_thread(spawn, DEMO, drain_seconds=0.3)


async def test_a_rolling_restart_under_load_loses_nothing_and_repeats_only_unfinished_work(
    submitter: TaskSubmitter, spawn: Spawn
) -> None:
    async def load() -> list[Task]:
        tasks: list[Task] = []
        while not over.is_set():
            # Short ones, which end within the drain, and long ones, which do not.
            count = "8 20" if len(tasks) % 2 else "30 100"
            tasks.append(await submitter.start("counter", count))
            await asyncio.sleep(0.1)
        return tasks

    over = asyncio.Event()
    workers = await asyncio.gather(*(started(spawn) for _ in range(WORKERS)))
    loading = asyncio.create_task(load())
    for old in workers:
        await started(spawn)
        await asyncio.to_thread(old.stop)
    over.set()
    logs = [await task.ended() for task in await loading]
    for entries in logs:
        assert entries[-1].stamp.state == COMPLETED
        last = 8 if len(said(entries)) < 20 else 30
        assert said(entries) == "".join(f"{number} " for number in range(1, last + 1))
        check_only_handed_back_work_was_repeated(entries)
    assert any(entries[-1].stamp.attempt > 1 for entries in logs)
