"""Tasks at work whose runs are gone: the sweep finds them by their silence, and they end."""

import asyncio
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from headrace.model import events
from headrace.model.entry import Entry
from headrace.model.task import AUTH_REQUIRED, COMPLETED, WORKING
from headrace.tasks import wake
from headrace_task_state.maintenance.sweep import Sweep
from headrace_task_state.maintenance.timing import MaintenanceTiming
from tests.integration.worker.test_follow_ups import answers, hand_in
from tests.integration.worker.test_waits import arrive
from tests.integration.worker.test_waits import asleep as until_waiting
from tests.support.jetstream_api import answered
from tests.support.legal_logs import LegalLog
from tests.support.servers import NatsProcess, ValkeyProcess
from tests.support.task_states import TaskStates, new_key, open_task_states
from tests.support.task_submitter import Task, TaskSubmitter
from tests.support.waiting import eventually
from tests.support.worker_process import WorkerProcess

REPEATER, GUARDED = "tests.support.slow_agents:slow_repeater", "tests.support.slow_agents:guarded"


def worker(fleet: TaskStates, folder: Path, target: str) -> WorkerProcess:
    settings = fleet.settings
    names = {"prefix": settings.prefix, "stream_prefix": settings.stream_prefix}
    return WorkerProcess(folder, target, settings.nats_url, names)


async def runs_of(task: Task) -> int:
    """Return how many runs of the task are in the queue, at work or not."""
    subjects = task.bus.subjects.runs_of_task(task.key)
    info = await answered(
        lambda: task.bus.js.stream_info(task.bus.streams.runs, subjects_filter=subjects)
    )
    return len(info.state.subjects or {})


async def test_tasks_at_work_end_though_their_runs_were_purged_and_their_worker_killed(
    nats_server: NatsProcess,
    valkey: ValkeyProcess,
    tmp_path: Path,
) -> None:
    timing = MaintenanceTiming(
        sweep_interval=0.1, silence=0.5, max_request_interval=1.0, max_silence=1.0
    )
    opened = open_task_states(nats_server.url, valkey.url, timing, sweep_after=0.3)
    with ExitStack() as stack:
        async with opened as fleet:
            await fleet.start()
            submitter = TaskSubmitter(fleet.bus)
            dying = stack.enter_context(worker(fleet, tmp_path / "dying", REPEATER))
            healthy = stack.enter_context(worker(fleet, tmp_path / "healthy", GUARDED))
            lost = [await submitter.start("slow_repeater", str(number)) for number in range(3)]
            held = await submitter.start("guarded", "go")
            await asyncio.gather(*(task.held() for task in (*lost, held)))
            await held.reaches(3)
            await fleet.bus.js.purge_stream(fleet.bus.streams.runs)
            dying.kill()
            stack.enter_context(worker(fleet, tmp_path / "next", REPEATER))
            for task, entries in zip(lost, await asyncio.gather(*map(ended, lost)), strict=True):
                assert entries[-1].stamp.state == COMPLETED, task.key.task
                assert entries[-1].stamp.attempt == 2
            assert answers(entries) == ["2"]
            # Who is asked and answers is left alone.
            assert (await held.held()).worker == healthy.id
            last = await held.last()
            assert (last.stamp.state, last.stamp.attempt) == (AUTH_REQUIRED, 1)
            assert await runs_of(held) == 0
            await hand_in(held, "secret")
            assert answers(await ended(held)) == ["got secret"]
            assert (await held.last()).stamp.attempt == 1


async def test_a_lost_run_is_requested_again_once_its_worker_has_left_the_directory(
    nats_server: NatsProcess, valkey: ValkeyProcess, tmp_path: Path
) -> None:
    never = MaintenanceTiming(silence=3600.0, max_silence=7200.0)
    async with open_task_states(nats_server.url, valkey.url, never) as fleet:
        await fleet.start()
        with ExitStack() as stack:
            dying = stack.enter_context(worker(fleet, tmp_path / "dying", REPEATER))
            task = await TaskSubmitter(fleet.bus).start("slow_repeater", "one")
            await task.held()
            await fleet.bus.js.purge_stream(fleet.bus.streams.runs)
            dying.kill()
            stack.enter_context(worker(fleet, tmp_path / "next", REPEATER))
            assert (await ended(task))[-1].stamp.attempt == 2


async def ended(task: Task) -> list[Entry]:
    """Return the log once the task is over."""

    async def look() -> list[Entry] | None:
        last = await task.last()
        return await task.entries(last) if last.ends_task else None

    return await eventually(look)


async def test_a_silent_task_whose_run_is_there_is_not_requested_twice(
    nats_server: NatsProcess,
    valkey: ValkeyProcess,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    timing = MaintenanceTiming(
        sweep_interval=0.1, silence=0.2, max_request_interval=0.2, max_silence=0.2
    )
    opened = open_task_states(nats_server.url, valkey.url, timing, sweep_after=0.1)
    async with opened as fleet:
        submitter = TaskSubmitter(fleet.bus)
        with worker(fleet, tmp_path / "worker", REPEATER) as dying:
            task = await submitter.start("slow_repeater", "one")
            await task.held()
            dying.kill()
        await fleet.start()
        looks: list[str] = []
        publish = Sweep._publish

        async def counted(self: Sweep, *args: object) -> None:
            await publish(self, *args)  # type: ignore[arg-type]
            looks.append(task.key.task)

        monkeypatch.setattr(Sweep, "_publish", counted)

        async def looked() -> bool:
            return len(looks) > 2

        await eventually(looked)
        assert await runs_of(task) == 1


async def test_a_run_that_sleeps_is_requested_only_if_its_sleep_is_over(
    nats_server: NatsProcess, valkey: ValkeyProcess
) -> None:
    timing = MaintenanceTiming(
        sweep_interval=0.1, silence=0.2, max_request_interval=0.2, max_silence=0.2
    )
    opened = open_task_states(nats_server.url, valkey.url, timing, sweep_after=0.1)
    async with opened as fleet:
        await fleet.start()
        ends = (timedelta(hours=1), timedelta(seconds=1), timedelta(seconds=-1))
        long, short, past = logs = [asleep(end) for end in ends]
        for log in logs:
            await fleet.store(log)

        async def requested(log: LegalLog) -> bool:
            subject = fleet.bus.subjects.runs_of_task(log.key)
            info = await fleet.bus.js.stream_info(fleet.bus.streams.runs, subjects_filter=subject)
            return bool(info.state.subjects)

        await eventually(lambda: requested(past), "the run that should be awake is requested")
        await eventually(lambda: requested(short), "the run that woke is requested")
        assert not await requested(long)


async def test_a_waiting_run_is_woken_though_who_recorded_its_event_was_killed_before_that(
    nats_server: NatsProcess,
    valkey: ValkeyProcess,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def killed(*_: object) -> None:
        """Do nothing."""

    timing = MaintenanceTiming(
        sweep_interval=0.1, silence=0.2, max_request_interval=0.2, max_silence=0.2
    )
    opened = open_task_states(nats_server.url, valkey.url, timing, sweep_after=0.1)
    async with opened as fleet:
        with worker(fleet, tmp_path / "worker", "tests.integration.worker.test_waits:clerk"):
            task = await TaskSubmitter(fleet.bus).start("clerk")
            await until_waiting(task)
            monkeypatch.setattr(wake, "release", killed)
            assert await arrive(task)
            await fleet.start()
            entries = await ended(task)
    assert entries[-1].stamp.state == COMPLETED


def asleep(time: timedelta) -> LegalLog:
    """Return the log of a run that sleeps for `time` from now."""
    log = LegalLog(new_key())
    log.submit("hello")
    log.begin_attempt()
    until = (datetime.now(UTC) + time).isoformat()
    metadata = {events.HANDED_BACK: events.ASLEEP, events.ASLEEP_UNTIL: until}
    log.append([log.status(WORKING, metadata=metadata)])
    return log
