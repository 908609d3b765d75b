"""A fleet of each test's own, as far as firings need one: a bus and an agent that is announced."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack

import pytest

from headrace.directory import AgentCard, Announcer, Directory
from headrace.jetstream.broker import FleetBroker
from headrace.jetstream.connection import Bus
from headrace.schedules import Schedules
from headrace_triggers.delivery import Deliveries
from headrace_triggers.scheduled_tasks import ScheduledTasks
from headrace_triggers.settings import TriggersSettings
from tests.support.servers import NatsProcess
from tests.support.task_submitter import fresh_names
from tests.support.triggers import firings


@pytest.fixture
def settings(nats_server: NatsProcess) -> TriggersSettings:
    return TriggersSettings.model_validate({"nats_url": nats_server.url, **fresh_names()})


@pytest.fixture
async def bus(settings: TriggersSettings) -> AsyncIterator[Bus]:
    bus = Bus(settings)
    await bus.connect("test")
    yield bus
    await bus.close()


@pytest.fixture
async def directory(bus: Bus) -> AsyncIterator[Directory]:
    """The agents: ``shop``."""
    await Announcer(bus, "worker-1").announce(AgentCard(name="shop"))
    directory = Directory(bus)
    await directory.start()
    yield directory
    await directory.stop()


@pytest.fixture
def schedules(bus: Bus) -> Schedules:
    return Schedules(bus)


@pytest.fixture
def replicas(bus: Bus, directory: Directory) -> list[ScheduledTasks]:
    """Two replicas, which take no firings but those that they are given."""
    begins = firings(bus, directory)
    return [ScheduledTasks(bus, begins, Deliveries(bus, begins), ack_wait=5.0) for _ in range(2)]


@pytest.fixture
async def take(
    settings: TriggersSettings, replicas: list[ScheduledTasks]
) -> AsyncIterator[Callable[[], Awaitable[None]]]:
    """Lets the replicas take what JetStream fires, and has fired."""
    async with AsyncExitStack() as stack:

        async def start() -> None:
            for replica in replicas:
                broker = FleetBroker(settings, "test", injects=False)
                replica.subscribe(broker)
                await broker.start()
                stack.push_async_callback(broker.stop)

        yield start


@pytest.fixture
async def taking(take: Callable[[], Awaitable[None]]) -> None:
    """The replicas take what JetStream fires."""
    await take()
