"""The webhooks that a range's notifier knows, while they are deleted."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import replace

from headrace.jetstream.server_clock import ServerClock
from headrace.model.task import TaskKey
from headrace.signing import SigningKeys
from headrace.webhooks import Webhooks
from headrace_task_state.store import LeaseLost
from headrace_task_state.webhooks.range_notifier import RangeNotifier
from headrace_task_state.webhooks.sender import SenderResources, sender_resources
from tests.integration.task_state.webhooks.conftest import Hooked
from tests.support.receiver import Receiver
from tests.support.task_states import TaskStates
from tests.support.waiting import TIMEOUT, eventually


class WatchedWebhooks(Webhooks):
    """Have the queue process each task's webhook once more, when it is deleted already."""

    async def delete_all(self, key: TaskKey) -> None:
        await super().delete_all(key)
        await self.wake(key, "hook")
        await eventually(self._are_processed, "the queue has found that it is deleted")

    async def _are_processed(self) -> bool:
        info = await self._bus.js.consumer_info(self._bus.streams.pushes, "push-0")
        return not (info.num_pending or info.num_ack_pending)


async def held() -> None:
    """The lease is there."""


class LostLease:
    """The lease of a replica that was suspended, and has not noticed that another one has it."""

    def __init__(self) -> None:
        self.asked = 0

    async def confirm(self) -> None:
        self.asked += 1
        raise LeaseLost("the lease was lost")


def sending(fleet: TaskStates) -> AbstractAsyncContextManager[SenderResources]:
    keys, clock = SigningKeys(fleet.bus), ServerClock(fleet.bus)
    return sender_resources(fleet.bus, fleet.settings, keys, fleet.timing, clock, retention=3600.0)


async def test_a_new_webhook_is_left_to_the_replica_that_has_the_range(
    fleet: TaskStates, hooked: Hooked, receiver: Receiver
) -> None:
    lost, tasks = LostLease(), [hooked, Hooked(fleet)]
    async with (
        sending(fleet) as resources,
        running(RangeNotifier(resources, fleet.ranges[0], lost.confirm)),
    ):
        for one in tasks:
            await one.hook(receiver.url())
            one.log.submit("hello")
            await one.store()

        async def has_come_again() -> bool:
            return lost.asked > len(tasks)

        await eventually(has_come_again, "the queue keeps what is not its own")
        assert receiver.came == []
        async with running(RangeNotifier(resources, fleet.ranges[0], held)):
            await receiver.until(lambda: len(receiver.came) == len(tasks), "both are told")


@asynccontextmanager
async def running(notifier: RangeNotifier) -> AsyncIterator[None]:
    task = asyncio.create_task(notifier.run())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_a_task_is_forgotten_whose_webhook_the_queue_finds_deleted_meanwhile(
    fleet: TaskStates, hooked: Hooked, receiver: Receiver
) -> None:
    other = Hooked(fleet)
    for one in (hooked, other):
        await one.hook(receiver.url())
        one.log.submit("hello")
        await one.store()
    async with sending(fleet) as resources:
        webhooks = WatchedWebhooks(fleet.bus)
        notifier = RangeNotifier(replace(resources, webhooks=webhooks), fleet.ranges[0], held)
        async with running(notifier):
            await receiver.until(lambda: len(receiver.came) == 2, "both were sent")
            for one in (hooked, other):
                async with asyncio.timeout(TIMEOUT):
                    await notifier.forget(one.log.key)
                assert await webhooks.list(one.log.key) == []
