"""Logs of a conversation's earlier tasks are complete, whichever replica of a log answers."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from headrace.jetstream.connection import Bus
from headrace.jetstream.direct_get import DirectAnswer, direct_get
from headrace.log import read
from headrace.model.messages import ListTasks, TasksFound
from headrace.model.task import COMPLETED, TaskKey, mint_task_id
from headrace.state_client import StateClient
from headrace_worker.earlier import TaskPast
from tests.support.memory_bus import memory_bus
from tests.support.task_log import TaskLog, generations


@pytest.fixture
async def bus() -> AsyncIterator[Bus]:
    async with memory_bus() as bus:
        yield bus


@pytest.fixture
async def logs(bus: Bus, monkeypatch: pytest.MonkeyPatch) -> list[TaskLog]:
    """Two tasks that have ended, which task state lists, the newer one first."""
    logs = [TaskLog(bus), TaskLog(bus)]
    for log in logs:
        await log.begin()
        await log.grow(3)
        await log.append("the end", state=COMPLETED)

    async def listed(_: StateClient, query: ListTasks) -> TasksFound:
        tasks: list[dict[str, Any]] = [
            {"id": log.key.task, "metadata": {"headrace.generation": 4}} for log in reversed(logs)
        ]
        return TasksFound(tasks=tasks, next_page_token="", page_size=query.page_size, total_size=2)

    monkeypatch.setattr(StateClient, "list", listed)
    return logs


async def read_generations(bus: Bus) -> list[list[int]]:
    key = TaskKey("default", "agent", mint_task_id(3))
    found = await TaskPast(bus, key, "owner", "context", 0).context_logs(None, None)
    return [generations(log) for log in found]


async def test_each_log_takes_one_request(
    bus: Bus, logs: list[TaskLog], monkeypatch: pytest.MonkeyPatch
) -> None:
    del logs
    monkeypatch.delattr("headrace_worker.earlier.last_entry")
    assert await read_generations(bus) == [[1, 2, 3, 4], [1, 2, 3, 4]]


async def test_a_replica_that_is_behind_is_not_enough(
    bus: Bus, logs: list[TaskLog], monkeypatch: pytest.MonkeyPatch
) -> None:
    del logs
    before = list[str]()

    async def at_first_without_the_end(*args: Any) -> DirectAnswer[Any]:  # noqa: ANN401 - what it reads
        answer = await direct_get(*args)
        if args[2]["next_by_subj"] not in before:
            before.append(args[2]["next_by_subj"])
            answer.messages.pop()
        return answer

    monkeypatch.setattr(read, "direct_get", at_first_without_the_end)
    assert await read_generations(bus) == [[1, 2, 3, 4], [1, 2, 3, 4]]
    assert len(before) == 2


async def test_a_log_that_is_gone_is_left_out(bus: Bus, logs: list[TaskLog]) -> None:
    await logs[0].purge(keep=0)
    assert await read_generations(bus) == [[1, 2, 3, 4]]


async def test_a_log_without_its_beginning_is_left_out(bus: Bus, logs: list[TaskLog]) -> None:
    await logs[1].purge(keep=1)
    assert await read_generations(bus) == [[1, 2, 3, 4]]
