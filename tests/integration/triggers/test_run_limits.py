"""Events wait in their stream while a quota, or the limit of waiting runs, is reached."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from nats.aio.msg import Msg

from headrace.directory import AgentCard, Announcer
from headrace.jetstream.connection import Bus
from headrace.model.messages import GetUsage, UsageCounts, UsageFound
from headrace.model.queues import RunQueue
from headrace.model.task import TaskKey
from headrace.tasks.runs import ensure_queue
from headrace_triggers.main import TriggersReplica
from headrace_triggers.settings import TriggersSettings
from tests.support.triggers import Orders, begun
from tests.support.waiting import eventually

QUOTA = '[[quota]]\nname = "daily"\ntenant = "limited"\nruns = 1\n'


@pytest.fixture
async def orders(settings: TriggersSettings, bus: Bus) -> Orders:
    """A stream of orders that begins tasks of two tenants, whose names are the tasks' contexts."""
    await Announcer(bus, "worker-1").announce(AgentCard(name="shop"))
    orders = await Orders.make(bus, settings.prefix)
    for tenant in ("limited", "default"):
        await orders.trigger(tenant, context=tenant)
    return orders


@asynccontextmanager
async def replica(settings: TriggersSettings, **limits: object) -> AsyncIterator[None]:
    made = TriggersReplica(settings.model_copy(update=limits))
    try:
        await made.start()
        yield
    finally:
        await made.stop()


@asynccontextmanager
async def usage_of(bus: Bus, tenants: dict[str, int]) -> AsyncIterator[None]:
    """Answer for task state how many runs each of the `tenants` has used."""
    other = {"input_tokens": 0, "output_tokens": 0, "tokens": 0, "cost": 0.0, "run_seconds": 0.0}

    async def answer(msg: Msg) -> None:
        runs = tenants.get(GetUsage.decode(msg.subject, msg.data).tenant, 0)
        row = UsageCounts.model_validate({"owner": "ann", "root": "shop", "runs": runs, **other})
        await bus.publish(msg.reply, UsageFound(rows=[row]).encode())

    subscription = await bus.subscribe(bus.subjects.state("usage"), answer)
    yield
    await bus.unsubscribe(subscription)


async def tenants_begun(bus: Bus) -> list[str]:
    return sorted(task["contextId"] for task in await begun(bus))


async def until(bus: Bus, *tenants: str) -> None:
    async def are_begun() -> bool:
        return await tenants_begun(bus) == sorted(tenants)

    await eventually(are_begun, f"tasks of {tenants} have begun")


async def delivered_again(orders: Orders) -> None:
    """Return once an event was refused and has been delivered again."""

    async def is_so() -> bool:
        found = await orders.bus.js.consumers_info(orders.stream)
        return any(one.num_redelivered for one in found)

    await eventually(is_so, "an event is delivered again")


async def test_events_of_a_tenant_beyond_its_quota_wait_and_those_of_others_do_not(
    settings: TriggersSettings, bus: Bus, orders: Orders, tmp_path: Path
) -> None:
    quotas, used = tmp_path / "quotas.toml", {"limited": 1}
    quotas.write_text(QUOTA)
    async with usage_of(bus, used), replica(settings, quotas=quotas):
        await orders.publish(1)
        await orders.publish(2)
        await until(bus, "default", "default")
        await delivered_again(orders)
        assert await tenants_begun(bus) == ["default", "default"]
        used["limited"] = 0
        await until(bus, "default", "default", "limited", "limited")
        await orders.settled()


async def test_events_wait_while_as_many_runs_wait_for_the_agent_as_may(
    settings: TriggersSettings, bus: Bus, orders: Orders
) -> None:
    for tenant in ("limited", "default"):
        await ensure_queue(bus, RunQueue("shop", tenant))
    async with replica(settings, max_waiting_per_tenant=1):
        await orders.publish(1)
        await until(bus, "default", "limited")
        await orders.publish(2)
        await delivered_again(orders)
        assert await tenants_begun(bus) == ["default", "limited"]
        [task] = [one for one in await begun(bus) if one["contextId"] == "limited"]
        run = bus.subjects.run(TaskKey("limited", "shop", task["id"]), 1, "normal")
        await bus.js.purge_stream(bus.streams.runs, subject=run)
        await until(bus, "default", "limited", "limited")
