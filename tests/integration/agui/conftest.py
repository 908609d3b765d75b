from collections.abc import AsyncIterator

import httpx
import pytest
import pytest_asyncio

from headrace.jetstream.connection import Bus
from headrace.settings import BusSettings
from headrace_gateway.settings import GatewaySettings
from tests.integration.agui.scripts import AGENTS
from tests.integration.gateway.running import own_settings, running
from tests.support.plain_http import NO_TLS
from tests.support.scripted_fleet import ScriptedFleet
from tests.support.servers import NatsProcess

module_fixture = pytest_asyncio.fixture(scope="module", loop_scope="module")
"""One for all tests of a module: starting and stopping gateways takes most of a test's time."""


@pytest.fixture(scope="module")
def settings(nats_server: NatsProcess) -> GatewaySettings:
    """A gateway's settings, with subjects and streams of the module's own."""
    return own_settings(nats_server.url, grpc_port=0, keepalive=1, feed_bytes=200_000)


@module_fixture
async def bus(settings: GatewaySettings) -> AsyncIterator[Bus]:
    """The fleet's connection."""
    bus = Bus(BusSettings.model_validate(settings.model_dump()))
    await bus.connect("fleet")
    yield bus
    await bus.close()


@module_fixture
async def one_fleet(bus: Bus) -> AsyncIterator[ScriptedFleet]:
    """The module's fleet."""
    fleet = await ScriptedFleet(bus, AGENTS).start()
    yield fleet
    await fleet.stop()


@module_fixture
async def gateway(settings: GatewaySettings, one_fleet: ScriptedFleet) -> AsyncIterator[str]:
    """The URL of a gateway of that fleet."""
    assert one_fleet.working
    async with running(settings) as url:
        yield url


@pytest_asyncio.fixture(loop_scope="module")
async def fleet(one_fleet: ScriptedFleet) -> ScriptedFleet:
    """The fleet, without runs of earlier tests."""
    await one_fleet.settle()
    one_fleet.runs.clear()
    return one_fleet


@pytest_asyncio.fixture(loop_scope="module")
async def http(gateway: str) -> AsyncIterator[httpx.AsyncClient]:
    """A client of that gateway."""
    async with httpx.AsyncClient(base_url=gateway, timeout=60, verify=NO_TLS) as http:
        yield http
