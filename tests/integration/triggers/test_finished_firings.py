"""Firings and due runs that nats-server has again after they were acknowledged."""

from functools import partial
from pathlib import Path

import pytest

from headrace.jetstream.api import store, stream_info, until_answered
from headrace.jetstream.connection import Bus
from headrace.jetstream.durables import ensure_consumer, of_due_runs, of_firings
from headrace.model.entry import CONTRACT_VERSION, VERSION
from headrace.schedules import Schedules
from headrace_triggers.main import TriggersReplica, remove_finished_firings
from headrace_triggers.settings import TriggersSettings
from tests.integration.triggers.test_due_runs import KEY as TASK
from tests.integration.triggers.test_due_runs import delayed, queued
from tests.integration.triggers.test_scheduled_tasks import KEY, fired, schedule
from tests.support.backups import Backups
from tests.support.servers import NatsProcess
from tests.support.triggers import begun
from tests.support.waiting import TIMEOUT, eventually


@pytest.fixture(scope="module")
def nats_server(own_nats_server: NatsProcess) -> NatsProcess:
    """The node, which a test here restarts."""
    return own_nats_server


async def has(bus: Bus, number: int) -> bool:
    """Return whether the stream has that many firings, and that many due runs."""
    subjects, stream = bus.subjects, bus.streams.schedules
    for queue in (subjects.firing(*KEY.tokens), subjects.due_runs()):
        ask = partial(stream_info, bus, stream, {"subjects_filter": queue})
        found = (await until_answered(bus, ask, TIMEOUT))["state"].get("subjects") or {}
        if sum(found.values()) != number:
            return False
    return True


@pytest.mark.usefixtures("directory")
async def test_finished_firings_that_nats_brings_back_are_removed_and_begin_nothing(
    bus: Bus,
    settings: TriggersSettings,
    schedules: Schedules,
    nats_server: NatsProcess,
    tmp_path: Path,
) -> None:
    await schedules.put(KEY, schedule())
    await schedules.run_now(KEY, "1")
    run = bus.subjects.due(bus.subjects.run(TASK, 1))
    await store(bus, run, delayed(-1.0).encode(), TIMEOUT, {VERSION: CONTRACT_VERSION})
    assert await has(bus, 1)
    # nats-server 2.15, killed several times, has acknowledged firings again.
    backups = Backups(nats_server, tmp_path)
    await backups.take(bus.streams.schedules)
    replica = TriggersReplica(settings)
    await replica.start()
    await fired(schedules, "began")
    await eventually(lambda: queued(bus), "the run is queued")
    await eventually(lambda: has(bus, 0), "both are finished")
    await replica.stop()
    await backups.restore_messages(bus.streams.schedules)
    assert await has(bus, 1)
    replica = TriggersReplica(settings, finished_interval=0.2)
    await replica.start()
    await eventually(lambda: has(bus, 0), "what came back is removed")
    await replica.stop()
    assert len(await begun(bus)) == 1
    assert await schedules.get(KEY) is not None


async def test_a_run_that_falls_due_in_the_place_of_a_lost_one_is_not_removed(
    bus: Bus, nats_server: NatsProcess, tmp_path: Path
) -> None:
    stream, queue = bus.streams.schedules, of_due_runs(bus.subjects)
    for one in (of_firings(bus.subjects), queue):
        await ensure_consumer(bus, stream, one)
    backups = Backups(nats_server, tmp_path)
    await backups.take(stream)

    async def fire(run: int) -> int:
        due = bus.subjects.due(bus.subjects.run(TASK, run))
        return await until_answered(bus, lambda: store(bus, due, b"{}", TIMEOUT), TIMEOUT)

    lost = await fire(1)
    pulling = await bus.js.pull_subscribe_bind(queue.durable_name, stream)
    [finished] = await pulling.fetch(1, timeout=TIMEOUT)
    await finished.ack_sync(timeout=TIMEOUT)
    await backups.restore_messages(stream)
    # NATS then lowers the ack floor to the last message that it has left.
    assert await fire(2) == lost
    await remove_finished_firings(bus)
    [waiting] = await pulling.fetch(1, timeout=TIMEOUT)
    assert waiting.subject == bus.subjects.due(bus.subjects.run(TASK, 2))
