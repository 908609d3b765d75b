"""Notifications survive whoever dies: at least once, in order, and each with the same id."""

import asyncio
import logging
import signal
from pathlib import Path

import pytest

from headrace.jetstream.kv import stream_of
from headrace.log.read import last_stored
from headrace.model.task import COMPLETED
from headrace_task_state.maintenance.timing import MaintenanceTiming
from tests.integration.task_state.webhooks.conftest import Hooked, Opening
from tests.integration.task_state.webhooks.test_bus_answers import Orders, finish, ids_of
from tests.integration.task_state.webhooks.test_delivery import task_received, until_received
from tests.support.backups import Backups
from tests.support.receiver import Receiver
from tests.support.servers import NatsProcess
from tests.support.task_states import TaskStates, folded
from tests.support.waiting import eventually


@pytest.fixture(scope="module")
def nats_server(own_nats_server: NatsProcess) -> NatsProcess:
    """The node, which a test here restarts."""
    return own_nats_server


async def test_a_task_state_killed_again_and_again_sends_everything(
    fleet: TaskStates, hooked: Hooked, receiver: Receiver, tmp_path: Path
) -> None:
    await hooked.hook(receiver.url())
    log = hooked.log
    log.submit("hello")
    for round_ in range(3):
        process = await fleet.spawn(tmp_path, f"task-state-{round_}")
        log.begin_attempt()
        before = len(receiver.came)
        for number in range(20):
            log.append([log.chunk(f"a{number}", "x")])
            await hooked.store()
        await receiver.until(lambda so_far=before: len(receiver.came) > so_far + 2, "some came")  # type: ignore[misc]
        process.send_signal(signal.SIGKILL)
        await asyncio.to_thread(process.wait, 10)
    log.append([log.status(COMPLETED)], state=COMPLETED)
    await hooked.store()
    await fleet.spawn(tmp_path, "last")
    await until_received(hooked)
    assert task_received(receiver) == folded(log)
    first: dict[str, bytes] = {}
    for one in receiver.came:
        assert first.setdefault(one.id, one.raw) == one.raw
    generations = [int(name.split(":")[1]) for name in first]
    assert generations == sorted(generations)


async def test_nats_killed_meanwhile_costs_no_notification(
    fleet: TaskStates, hooked: Hooked, receiver: Receiver, nats_server: NatsProcess
) -> None:
    receiver.plan["/hook"] = [200, 500, 500, 200]
    await fleet.start()
    await hooked.hook(receiver.url())
    log = hooked.log
    log.submit("hello")
    log.begin_attempt()
    await hooked.store()
    await receiver.until(lambda: len(receiver.came) > 1, "the second one fails")
    await asyncio.to_thread(nats_server.restart)
    log.append([log.status(COMPLETED)], state=COMPLETED)
    await hooked.store()
    await until_received(hooked)
    assert task_received(receiver) == folded(log)


async def test_a_replica_that_stops_hands_over_at_once(
    fleet: TaskStates, hooked: Hooked, receiver: Receiver
) -> None:
    receiver.plan["/hook"] = [503]
    first = await fleet.start()
    await hooked.hook(receiver.url())
    hooked.log.submit("hello")
    await hooked.store()
    await receiver.until(lambda: receiver.came, "it is tried")
    receiver.plan["/hook"] = [200]
    await first.stop()
    await fleet.start()
    await until_received(hooked)
    assert task_received(receiver) == folded(hooked.log)


async def is_erased(one: Hooked) -> bool:
    """Return whether a task has neither a log nor webhooks."""
    last = await last_stored(one.fleet.bus, one.log.key)
    return last is None and not await one.webhooks.list(one.log.key)


@pytest.mark.parametrize("timing", [MaintenanceTiming(answer_looked_for=0.5)], ids=["hasty"])
async def test_answers_of_an_erased_task_that_nats_brings_back_are_stored_once(
    open_fleet: Opening,
    nats_server: NatsProcess,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    fleet = await open_fleet(retention=1.0, tombstone_seconds=1.0)
    hooked, orders = Hooked(fleet), Orders(fleet)
    await orders.make(duplicate_window=0.1)
    await finish(hooked, orders.answers(what="events", mode="binary"))
    # After three kills within seconds, nats-server 2.15 may have undone what it deleted.
    backups = Backups(nats_server, tmp_path / "backups")
    removed = fleet.bus.streams.events(0), stream_of(fleet.bus.streams.push)
    await backups.take(*removed)
    replica = await fleet.start()
    await eventually(lambda: is_erased(hooked), "the task is erased")
    answers = await orders.got(4)
    await replica.stop()
    await backups.restore(*removed)
    await fleet.lose_view()
    assert not await is_erased(hooked)
    await fleet.start()
    await eventually(lambda: is_erased(hooked), "it is erased again")
    assert ids_of(await orders.got(4)) == ids_of(answers)
    found = [one.message for one in caplog.records if "stored already" in one.message]
    assert len(found) == 4
