"""What nats-server brings back into the queue of webhooks after ``kill -9``."""

import asyncio
from collections.abc import AsyncIterator

import pytest
from nats.aio.msg import Msg

from headrace.jetstream.api import stream_info, until_answered
from headrace.jetstream.durables import ensure_consumer, of_pushes
from headrace.jetstream.kv import Bucket
from headrace.model.events import Json
from headrace.model.task import COMPLETED, TaskKey
from headrace.webhooks import Address, TaskWebhook, WebhookProgress, Webhooks
from headrace_task_state.maintenance.queue_upkeep import QueueUpkeep
from headrace_task_state.maintenance.timing import MaintenanceTiming
from tests.support.legal_logs import LegalLog
from tests.support.servers import NatsProcess, ValkeyProcess
from tests.support.task_states import TaskStates, new_key, open_task_states
from tests.support.waiting import TIMEOUT, eventually

TASKS = 3
OFTEN = MaintenanceTiming(queue_interval=0.1)

SENT = TaskWebhook(
    id="hook",
    owner="anonymous",
    address=Address(url="http://127.0.0.1:1/"),
    progress=WebhookProgress(generation=2, sequence=2),
)
"""The record of a webhook that was sent everything."""


@pytest.fixture
async def fleet(nats_alone: NatsProcess, valkey: ValkeyProcess) -> AsyncIterator[TaskStates]:
    """A fleet on a server that may be killed, without a replica."""
    async with open_task_states(nats_alone.url, valkey.url, OFTEN) as opened:
        yield opened


async def test_what_a_killed_nats_server_brings_back_is_removed_and_what_waits_is_not(
    fleet: TaskStates, nats_alone: NatsProcess
) -> None:
    done, waiting = [new_key() for _ in range(TASKS)], [new_key() for _ in range(TASKS)]
    await ensure_consumer(fleet.bus, fleet.bus.streams.pushes, of_pushes(fleet.bus.subjects, 0))
    # The first message of each task is replaced by the second, which is acknowledged.
    await wake(fleet, [*done, *done])
    messages = await delivered(fleet, len(done))
    # NATS deletes a file without messages, and all that could come back with it.
    await wake(fleet, waiting)
    for msg in messages:
        await msg.ack_sync(timeout=TIMEOUT)
    assert await queued(fleet) == subjects(fleet, waiting)
    await asyncio.to_thread(nats_alone.restart)
    assert await queued(fleet) == subjects(fleet, [*done, *waiting])
    await QueueUpkeep(fleet.bus, fleet.timing).remove_finished()
    assert await queued(fleet) >= subjects(fleet, waiting)
    await fleet.start()

    async def is_empty() -> bool:
        return not await queued(fleet)

    await eventually(is_empty, "what came back is removed, and what waited is processed")


async def test_webhooks_of_erased_tasks_that_a_killed_nats_server_brings_back_are_deleted(
    fleet: TaskStates, nats_alone: NatsProcess
) -> None:
    erased, kept = [new_key() for _ in range(TASKS)], [new_key() for _ in range(TASKS)]
    bucket = Bucket(fleet.bus, fleet.bus.streams.push)
    for key in (*erased, *kept):
        await bucket.put(name_of(key), SENT.encode(), 0)
    for key in kept:
        log = LegalLog(key)
        log.submit("hello")
        log.append([log.status(COMPLETED)], state=COMPLETED)
        await fleet.store(log)
    for key in erased:
        await bucket.delete(name_of(key), seconds=1)

    async def are_gone() -> bool:
        state = await stream_info(fleet.bus, f"KV_{fleet.bus.streams.push}")
        return int(state["state"]["messages"]) == len(kept)

    await eventually(are_gone, "the deletion markers have expired")
    await asyncio.to_thread(nats_alone.restart)
    names = {name_of(key) for key in (*erased, *kept)}
    assert set(await until_answered(fleet.bus, bucket.keys, TIMEOUT)) == names
    await fleet.start()

    async def are_only_kept() -> bool:
        found = {key for key, _ in await bucket.under(">")}
        return found == {name_of(key) for key in kept}

    await eventually(are_only_kept, "those of erased tasks are deleted, others are not")


def name_of(key: TaskKey) -> str:
    return f"{key.tenant}.{key.agent}.{key.task}.hook"


async def wake(fleet: TaskStates, keys: list[TaskKey]) -> None:
    for key in keys:
        await Webhooks(fleet.bus).wake(key, "hook")


async def delivered(fleet: TaskStates, number: int) -> list[Msg]:
    """Return the next messages of the consumer, without an acknowledgement."""
    name = of_pushes(fleet.bus.subjects, 0).durable_name
    pulling = await fleet.bus.js.pull_subscribe_bind(name, fleet.bus.streams.pushes)
    messages = list[Msg]()
    while len(messages) < number:
        messages += await pulling.fetch(number - len(messages), timeout=TIMEOUT)
    await pulling.unsubscribe()
    return messages


async def queued(fleet: TaskStates) -> set[str]:
    async def ask() -> Json:
        return await stream_info(fleet.bus, fleet.bus.streams.pushes, {"subjects_filter": ">"})

    return set((await until_answered(fleet.bus, ask, TIMEOUT))["state"].get("subjects") or {})


def subjects(fleet: TaskStates, keys: list[TaskKey]) -> set[str]:
    return {fleet.bus.subjects.push(key, "hook") for key in keys}
