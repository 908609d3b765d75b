"""Delayed run requests, which JetStream fires and a triggers service puts into the queue."""

import gc
import logging
import threading
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta

import pytest
from nats.js.errors import NotFoundError

from headrace.jetstream.api import store
from headrace.jetstream.broker import FleetBroker
from headrace.jetstream.connection import Bus
from headrace.jetstream.consumers import consumer_names
from headrace.model.entry import CONTRACT_VERSION, VERSION
from headrace.model.messages import RunRequest
from headrace.model.run import Run, RunTerms
from headrace.model.subjects import NORMAL
from headrace.model.task import TaskKey, mint_task_id
from headrace.tasks.runs import RunRequests
from headrace_triggers.due_runs import DueRuns
from headrace_triggers.scheduled_tasks import ScheduledTasks
from headrace_triggers.settings import TriggersSettings
from tests.support.waiting import eventually

KEY = TaskKey("default", "shop", mint_task_id(0))


def delayed(seconds: float, priority: str = NORMAL) -> Run:
    start = (datetime.now(UTC) + timedelta(seconds=seconds)).isoformat()
    return Run(KEY, 1, "abcdefgh", "c", "ann", RunTerms(priority, "2", start))


@pytest.fixture
async def taking(settings: TriggersSettings, bus: Bus) -> AsyncIterator[None]:
    """A replica takes what is due."""
    broker = FleetBroker(settings, "test", injects=False)
    DueRuns(bus).subscribe(broker)
    await broker.start()
    yield
    await broker.stop()


async def queued(bus: Bus) -> tuple[str, RunRequest] | None:
    try:
        msg = await bus.js.get_last_msg(bus.streams.runs, bus.subjects.runs_of_task(KEY))
    except NotFoundError:
        return None
    return msg.subject or "", RunRequest.decode("run", msg.data or b"")


async def count(bus: Bus, subject: str) -> int:
    info = await bus.js.stream_info(bus.streams.schedules, subjects_filter=subject)
    return sum((info.state.subjects or {}).values())


@pytest.mark.usefixtures("taking")
async def test_a_delayed_run_is_in_the_queue_when_it_is_due(bus: Bus) -> None:
    later, threads = delayed(3.0, "low"), set(threading.enumerate())
    assert await RunRequests(bus).publish(later)
    assert not await RunRequests(bus).publish(later)
    early = await queued(bus)
    assert early is None or datetime.now(UTC) >= datetime.fromisoformat(str(later.terms.start_at))
    subject, run = await eventually(lambda: queued(bus), "the run is queued")
    assert subject == bus.subjects.run(KEY, 1, "low", "2")
    assert run == RunRequest(log="abcdefgh", context="c", owner="ann", version="2")

    async def is_empty() -> bool:
        return not await count(bus, ">")

    await eventually(is_empty, "nothing is left of the delay")
    assert set(threading.enumerate()) <= threads


async def test_a_run_that_is_due_waits_for_a_replica(bus: Bus, settings: TriggersSettings) -> None:
    await RunRequests(bus).publish(delayed(0.2))

    async def is_due() -> bool:
        return bool(await count(bus, bus.subjects.due_runs()))

    await eventually(is_due, "the run is due")
    broker = FleetBroker(settings, "test", injects=False)
    DueRuns(bus).subscribe(broker)
    await broker.start()
    try:
        await eventually(lambda: queued(bus), "the run is queued")
    finally:
        await broker.stop()


async def test_replicas_take_what_fires_also_if_garbage_is_collected_before_they_start(
    bus: Bus, settings: TriggersSettings, replicas: list[ScheduledTasks]
) -> None:
    broker = FleetBroker(settings, "test", injects=False)
    DueRuns(bus).subscribe(broker)
    replicas[0].subscribe(broker)
    gc.collect()
    await broker.start()
    try:
        assert set(await consumer_names(bus, bus.streams.schedules)) == {"due-runs", "firings"}
    finally:
        await broker.stop()


async def test_a_delayed_run_states_its_version_also_when_it_is_due(bus: Bus) -> None:
    await RunRequests(bus).publish(delayed(0.2))
    due = bus.subjects.due(bus.subjects.run(KEY, 1, version="2"))

    async def headers() -> dict[str, str] | None:
        try:
            return (await bus.js.get_last_msg(bus.streams.schedules, due)).headers
        except NotFoundError:
            return None

    assert (await eventually(headers, "the run is due"))[VERSION] == CONTRACT_VERSION


@pytest.mark.usefixtures("taking")
async def test_a_due_run_of_a_later_version_is_left_to_a_replica_that_reads_it(
    bus: Bus, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    due = bus.subjects.due(bus.subjects.run(KEY, 1))
    await store(bus, due, delayed(-1.0).encode(), 5.0, {VERSION: "4"})

    async def is_left() -> bool:
        return "Headrace-Version is 4; this release reads 2 to 3" in caplog.text

    await eventually(is_left, "the replica leaves it")
    assert await count(bus, due) == 1
    assert await queued(bus) is None


async def test_a_run_whose_time_has_passed_is_queued_at_once(bus: Bus) -> None:
    await RunRequests(bus).publish(delayed(-1.0))
    assert await queued(bus) is not None
    assert not await count(bus, ">")
