"""A stream is restored from a copy of its own, the others are not: what was at work ends."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from headrace.jetstream.objects import FileStore
from headrace.jetstream.server_clock import ServerClock
from headrace.model.entry import Entry
from headrace.model.task import AUTH_REQUIRED, COMPLETED, TaskKey
from headrace_task_state.maintenance.due import Upkeep
from headrace_task_state.maintenance.file_upkeep import FileUpkeep
from headrace_task_state.maintenance.timing import MaintenanceTiming
from tests.integration.task_state.maintenance.test_lost_runs import REPEATER, ended, runs_of, worker
from tests.integration.task_state.maintenance.test_upkeep import ANNS, applied, submitted
from tests.integration.worker.test_follow_ups import answers, hand_in
from tests.support.backups import Backups
from tests.support.servers import NatsProcess, ValkeyProcess
from tests.support.task_states import TaskStates, new_key, open_task_states
from tests.support.task_submitter import Task, TaskSubmitter
from tests.support.waiting import eventually

REPEATERS = "tests.support.slow_agents:agents"


@pytest.fixture
async def fleet(nats_alone: NatsProcess, valkey: ValkeyProcess) -> AsyncIterator[TaskStates]:
    """A fleet whose task state looks at what is silent soon."""
    timing = MaintenanceTiming(
        sweep_interval=0.1, silence=0.5, max_request_interval=1.0, max_silence=1.0
    )
    opened = open_task_states(nats_alone.url, valkey.url, timing, sweep_after=0.3)
    async with opened as fleet:
        yield fleet


async def until_attempt(task: Task, attempt: int, state: str) -> Entry:
    async def look() -> Entry | None:
        last = await task.last()
        return last if (last.stamp.attempt, last.stamp.state) == (attempt, state) else None

    return await eventually(look)


async def test_tasks_at_work_end_though_the_queue_is_restored_from_before_they_began(
    fleet: TaskStates, nats_alone: NatsProcess, tmp_path: Path
) -> None:
    backups, streams = Backups(nats_alone, tmp_path / "backups"), fleet.bus.streams
    # Not even the workers' consumers are in it.
    await backups.take(streams.runs)
    await fleet.start()
    submitter = TaskSubmitter(fleet.bus)
    with ExitStack() as stack:
        dying = stack.enter_context(worker(fleet, tmp_path / "dying", REPEATER))
        healthy = stack.enter_context(
            worker(fleet, tmp_path / "healthy", "tests.support.slow_agents:guarded")
        )
        lost = [await submitter.start("slow_repeater", str(number)) for number in range(3)]
        held = await submitter.start("guarded", "go")
        await asyncio.gather(*(task.held() for task in (*lost, held)))
        await until_attempt(held, 1, AUTH_REQUIRED)
        await backups.restore(streams.runs)
        assert await runs_of(held) == 0
        dying.kill()
        stack.enter_context(worker(fleet, tmp_path / "next", REPEATER))
        for number, task in enumerate(lost):
            entries = await ended(task)
            assert entries[-1].stamp.state == COMPLETED
            assert answers(entries) == [str(number)]
        # Who has lost nothing but its place in the queue goes on.
        assert (await held.held()).worker == healthy.id
        await hand_in(held, "secret")
        assert answers(await ended(held)) == ["got secret"]
        assert (await held.last()).stamp.attempt == 1
        # And the queue serves.
        new = await submitter.start("guarded", "new")
        await until_attempt(new, 1, AUTH_REQUIRED)
        await hand_in(new, "secret")
        assert answers(await ended(new)) == ["got secret"]


async def test_tasks_that_were_at_work_end_though_their_log_alone_is_restored(
    fleet: TaskStates, nats_alone: NatsProcess, tmp_path: Path
) -> None:
    backups, logs = Backups(nats_alone, tmp_path / "backups"), fleet.bus.streams.events(0)
    await fleet.start()
    submitter = TaskSubmitter(fleet.bus)
    with worker(fleet, tmp_path / "worker", REPEATERS):
        tasks = [await submitter.start("guarded", "go") for _ in range(3)]
        for task in tasks:
            await until_attempt(task, 1, AUTH_REQUIRED)
        await backups.take(logs)
        for task in tasks:
            await hand_in(task, "secret")
            assert answers(await ended(task)) == ["got secret"]
        await backups.restore(logs)
        # Their runs were done; their logs say that they are at work.
        for task in tasks:
            await until_attempt(task, 2, AUTH_REQUIRED)
            await hand_in(task, "again")
            assert answers(await ended(task)) == ["got again"]


@pytest.mark.parametrize("are_logs_gone", [False, True])
async def test_files_are_kept_though_the_logs_of_their_tasks_are_not_restored_yet(
    fleet: TaskStates, nats_alone: NatsProcess, tmp_path: Path, *, are_logs_gone: bool
) -> None:
    backups, logs = Backups(nats_alone, tmp_path / "backups"), fleet.bus.streams.events(0)
    files = FileStore(fleet.bus)
    before, newer = submitted(), submitted()
    replica = await fleet.start()
    await fleet.store(before)
    await backups.take(logs)
    link = await files.put(newer.key, ANNS, b"x" * 300_000)
    await fleet.store(newer)
    assert before.key.task in await fleet.listed()
    await replica.stop()
    if are_logs_gone:
        await fleet.bus.js.delete_stream(logs)
        await fleet.lose_view()
    else:
        await backups.restore(logs)
    fleet.timing = replace(fleet.timing, file_interval=0.1, file_without_task=0.0)
    replica = await fleet.start()
    await eventually(lambda: lists(fleet, [] if are_logs_gone else [before.key.task]))
    for _ in range(2):  # A pass may have been beyond the first one's place already.
        nobodys = new_key()
        await files.put(nobodys, ANNS, b"y")
        await eventually(partial(has_no_files, files, nobodys), "nobody's file is deleted")
    assert await files.read(link, newer.key.tenant, ANNS) == b"x" * 300_000
    # Nobody restores the log any more: its task would have been erased.
    await replica.stop()
    upkeep = Upkeep(fleet.bus, await applied(fleet), ServerClock(fleet.bus), fleet.timing)
    await FileUpkeep(upkeep, fleet.reader.progress, kept=0.0).look()
    assert await has_no_files(files, newer.key)


async def lists(fleet: TaskStates, tasks: list[str]) -> bool:
    return list(await fleet.listed()) == tasks


async def has_no_files(files: FileStore, key: TaskKey) -> bool:
    return await files.newest(key) is None
