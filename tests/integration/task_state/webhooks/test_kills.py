"""Notifications survive whoever dies: at least once, in order, and each with the same id."""

import asyncio
import signal
from pathlib import Path

import pytest

from headrace.model.task import COMPLETED
from tests.integration.task_state.webhooks.conftest import Hooked
from tests.integration.task_state.webhooks.test_delivery import task_received, until_received
from tests.support.receiver import Receiver
from tests.support.servers import NatsProcess
from tests.support.task_states import TaskStates, folded


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
