"""Each event begins one task, whatever dies in the middle."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from headrace.directory import AgentCard, Announcer, DirectoryTiming
from headrace.jetstream.connection import Bus
from headrace.settings import BusSettings
from tests.support.deployment import get
from tests.support.servers import NatsProcess, ports
from tests.support.service_process import ServiceProcess
from tests.support.task_submitter import fresh_names
from tests.support.triggers import Orders, begun
from tests.support.waiting import eventually

EVENTS = 200


@pytest.fixture
async def replicas(
    own_nats_server: NatsProcess, names: dict[str, str], tmp_path: Path
) -> AsyncIterator[list[ServiceProcess]]:
    """Two replicas as processes, which are ready."""
    async with AsyncExitStack() as stack:
        made = [replica(own_nats_server, names, tmp_path / f"{number}") for number in range(2)]
        for one in made:
            stack.push_async_callback(asyncio.to_thread, one.kill)
            await asyncio.to_thread(one.start)
        yield made


@pytest.fixture
def names() -> dict[str, str]:
    return fresh_names()


@pytest.fixture
async def bus(own_nats_server: NatsProcess, names: dict[str, str]) -> AsyncIterator[Bus]:
    bus = Bus(BusSettings.model_validate({"nats_url": own_nats_server.url, **names}))
    await bus.connect("test")
    yield bus
    await bus.close()


def replica(nats: NatsProcess, names: dict[str, str], folder: Path) -> ServiceProcess:
    port = ports.pick()
    environment = {"HEADRACE_NATS_URL": nats.url, "HEADRACE_METRICS_PORT": str(port)}
    environment |= {f"HEADRACE_{name.upper()}": value for name, value in names.items()}
    return ServiceProcess(
        "triggers",
        folder,
        ["triggers", "serve"],
        environment,
        lambda: get(f"127.0.0.1:{port}", "/readyz")[0] == 200,
    )


async def test_each_event_begins_one_task_over_a_killed_replica_and_a_restart_of_nats(
    own_nats_server: NatsProcess, bus: Bus, names: dict[str, str], replicas: list[ServiceProcess]
) -> None:
    await Announcer(bus, "w", DirectoryTiming(instance_ttl=3600)).announce(AgentCard(name="shop"))
    orders = await Orders.make(bus, names["prefix"])
    await orders.trigger(limit=32)

    async def have_begun(count: int) -> None:
        async def are_there() -> bool:
            stream = bus.streams.events(0)
            return (await bus.js.stream_info(stream)).state.messages >= count

        await eventually(are_there, f"{count} tasks have begun")

    for number in range(EVENTS // 2):
        await orders.publish({"n": number})
    await have_begun(10)
    await asyncio.to_thread(replicas[0].kill)
    await asyncio.to_thread(own_nats_server.restart)
    await eventually(lambda: _is_back(bus), "the test is connected again")
    for number in range(EVENTS // 2, EVENTS):
        await orders.publish({"n": number})
    await have_begun(EVENTS)
    await orders.settled()
    numbers = [task["history"][0]["parts"][0]["data"]["n"] for task in await begun(bus)]
    assert sorted(numbers) == list(range(EVENTS))


async def _is_back(bus: Bus) -> bool:
    return bus.connected
