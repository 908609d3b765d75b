"""A fleet of each test's own, as far as firings need one: a bus and an agent that is announced."""

from collections.abc import AsyncIterator

import pytest

from headrace.directory import AgentCard, Announcer, Directory
from headrace.jetstream.connection import Bus
from headrace_triggers.settings import TriggersSettings
from tests.support.servers import NatsProcess
from tests.support.task_submitter import fresh_names


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
