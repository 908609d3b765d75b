"""Workers die between the steps of many tasks: each step is done under one key, with one result.

`make chaos ARGS=--steps` is the same at full size, with faults of everything else, and child tasks.
"""

import asyncio
import random
from functools import partial
from pathlib import Path

from headrace.model.task import COMPLETED
from tests.chaos.agents import ONLY_STEPPING
from tests.chaos.record import Log
from tests.chaos.step_journal import FILE, STEPS, StepJournal
from tests.support.servers import NatsProcess
from tests.support.task_submitter import TaskSubmitter
from tests.support.waiting import until
from tests.support.worker_process import WorkerProcess

TASKS = 60
KILLS = 4


def has_done(path: Path, steps: int) -> bool:
    return StepJournal(path).done >= steps


async def test_each_step_is_done_under_one_key_and_has_one_result(
    submitter: TaskSubmitter, nats_server: NatsProcess, names: dict[str, str], tmp_path: Path
) -> None:
    chance, path = random.Random(7), tmp_path / "steps"
    workers = [
        WorkerProcess(tmp_path / f"{number}", "tests.chaos.agents:agents", nats_server.url, names)
        for number in range(2)
    ]
    for worker in workers:
        worker.environment = {**(worker.environment or {}), FILE: str(path)}
        await asyncio.to_thread(worker.start)
    try:
        tasks = [await submitter.start(ONLY_STEPPING[n % 2], "1 20") for n in range(TASKS)]
        for kill in range(1, KILLS + 1):
            wanted = TASKS * STEPS * kill // (KILLS + 2)
            await asyncio.to_thread(until, partial(has_done, path, wanted), f"{wanted} steps")
            victim = chance.choice(workers)
            await asyncio.to_thread(victim.kill)
            await asyncio.to_thread(victim.start)
        logs = [await task.ended() for task in tasks]
    finally:
        for worker in workers:
            await asyncio.to_thread(worker.kill)
    journal = StepJournal(path)
    assert [log[-1].stamp.state for log in logs] == [COMPLETED] * TASKS
    assert sum(log[-1].stamp.attempt > 1 for log in logs) > 0
    records = [Log(task.key, log).records() for task, log in zip(tasks, logs, strict=True)]
    found = [journal.problems(t.key.task, each) for t, each in zip(tasks, records, strict=True)]
    assert [problem for problems in found for problem in problems] == []
    assert journal.done == TASKS * STEPS
