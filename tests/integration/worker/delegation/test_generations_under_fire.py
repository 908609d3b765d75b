"""Two levels of delegation, while one worker after the other is killed."""

import asyncio
import os
import random
from collections import Counter
from pathlib import Path

import pytest

from headrace.model.entry import Entry
from headrace.model.task import CANCELED, COMPLETED, FAILED, TERMINAL, TaskKey
from tests.integration.worker.conftest import Spawn
from tests.integration.worker.test_cancelling import cancel
from tests.support.delegation_logs import (
    answer,
    attempts,
    children,
    ends,
    log_of,
    relayed,
    state_of,
)
from tests.support.task_submitter import TaskSubmitter
from tests.support.waiting import eventually
from tests.support.worker_process import WorkerProcess

_ALL_AGENTS = "tests.support.delegating_agents:all_agents"
SEED = 7
PARENTS, KILLS = (40, 20) if "HEADRACE_SOAK" in os.environ else (5, 4)
PROMPT = "a 3\nb 6\n\nc 4\na 3"
"""Two delegations to `fan_out`, each with two children."""

EXPECTED = {"a begins, a ends. b begins, b ends.", "a begins, a ends. c begins, c ends."}


async def kill_workers(workers: list[WorkerProcess]) -> None:
    """Kill one worker after the other; each comes back."""
    chance = random.Random(SEED)
    for _ in range(KILLS):
        await asyncio.sleep(chance.uniform(0.5, 1.5))
        victim = chance.choice(workers)
        victim.kill()
        await asyncio.to_thread(victim.start)


async def all_tasks(submitter: TaskSubmitter) -> list[TaskKey]:
    """Return every task that there is."""
    found = await submitter.bus.js.stream_info(submitter.bus.streams.events(0), subjects_filter=">")
    return [submitter.bus.subjects.key_of_event(subject) for subject in found.state.subjects or {}]


@pytest.mark.soak
@pytest.mark.timeout(600)
async def test_no_child_runs_twice_for_one_question_and_none_outlives_its_parents(
    submitter: TaskSubmitter, spawn: Spawn, tmp_path: Path
) -> None:
    file = tmp_path / "runs"
    file.touch()
    workers = [
        await asyncio.to_thread(spawn, _ALL_AGENTS, recorded_runs=file, concurrency=8)
        for _ in range(3)
    ]
    tasks = [await submitter.start("nested-fan-out", PROMPT) for _ in range(PARENTS)]
    stopped, *followed = tasks

    async def has_children() -> bool:
        return len(children(await stopped.entries())) == 2

    await eventually(has_children)
    killing = asyncio.create_task(kill_workers(workers))
    assert await cancel(stopped) == CANCELED
    await killing
    logs = [await task.ended(200) for task in followed]
    assert [log[-1].stamp.state for log in logs] == [COMPLETED] * (PARENTS - 1)
    for log in logs:
        assert set(answer(log).splitlines()) == EXPECTED
        await _judge(submitter, log, {"fan-out": 2, "child": 4})
    again = 0
    for key in await all_tasks(submitter):
        # Task state's sweep finds also those that only a dead attempt knew of.
        assert await ends(submitter, key, 120) in TERMINAL, key
        again += max(attempts(await log_of(submitter, key)), default=1) - 1
    assert again, "no attempt was interrupted"
    below = list(children(await stopped.entries()).values())
    assert {await state_of(submitter, key) for key in below} <= {CANCELED, COMPLETED, FAILED}
    runs = Counter(tuple(line.split()) for line in file.read_text().splitlines())
    assert max(runs.values()) == 1, "an attempt at a child was begun twice"


async def _judge(submitter: TaskSubmitter, log: list[Entry], expected: dict[str, int]) -> None:
    """See that each question was one child, relayed in order and without a gap at its end."""
    request: Counter[str] = Counter()
    for key in children(log).values():
        request[key.agent] += 1
        own = await log_of(submitter, key)
        generations = relayed(log, key.task)
        assert generations == sorted(set(generations))
        assert generations[-1] == own[-1].last_generation
        for grandchild in children(own).values():
            request[grandchild.agent] += 1
    assert request == expected
