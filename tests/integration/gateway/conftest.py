from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import grpc.aio
import httpx
import pytest
import pytest_asyncio

from headrace.jetstream.connection import Bus
from headrace.settings import BusSettings
from headrace_gateway.settings import GatewaySettings
from headrace_gateway.timing import TIMING, GatewayTiming
from tests.integration.gateway.scripts import AGENTS
from tests.support.clients.bindings import Rest, Rpc, Talk
from tests.support.clients.grpc_binding import Grpc
from tests.support.module_loops import module_fixture, run_on_module_loops
from tests.support.plain_http import KEEP_ALL, NO_TLS
from tests.support.running_gateway import own_settings, running
from tests.support.scripted_fleet import Agents, ScriptedFleet
from tests.support.servers import NatsProcess, ports


@pytest.fixture(scope="module")
def options() -> dict[str, Any]:
    """Settings that the gateway of a folder or a module has beside its own places."""
    return {}


@pytest.fixture(scope="module")
def agents() -> Agents:
    """The agents of the module's fleet."""
    return AGENTS


@pytest.fixture(scope="module")
def client_headers() -> dict[str, str]:
    """What the module's client says with each request."""
    return {"A2A-Version": "1.0"}


@pytest.fixture(scope="module")
def settings(nats_server: NatsProcess, options: dict[str, Any]) -> GatewaySettings:
    """A gateway's settings, with subjects and streams of the module's own."""
    return own_settings(nats_server.url, **options)


@pytest.fixture(scope="module")
def timing() -> GatewayTiming:
    """Durations of the module's gateway that are not settings."""
    return TIMING


@module_fixture
async def bus(settings: GatewaySettings) -> AsyncIterator[Bus]:
    """The fleet's connection."""
    bus = Bus(BusSettings.model_validate(settings.model_dump()))
    await bus.connect("fleet")
    yield bus
    await bus.close()


@module_fixture
async def one_fleet(bus: Bus, agents: Agents) -> AsyncIterator[ScriptedFleet]:
    """The module's fleet."""
    fleet = await ScriptedFleet(bus, agents).start()
    yield fleet
    await fleet.stop()


@module_fixture
async def gateway(
    settings: GatewaySettings, timing: GatewayTiming, one_fleet: ScriptedFleet
) -> AsyncIterator[str]:
    """The URL of a gateway of that fleet."""
    assert one_fleet.working
    async with running(settings, timing=timing) as url:
        yield url


@pytest_asyncio.fixture(loop_scope="module")
async def fleet(one_fleet: ScriptedFleet) -> AsyncIterator[ScriptedFleet]:
    """The fleet, made whole again after the test."""
    await one_fleet.settle()
    one_fleet.runs.clear()
    yield one_fleet
    for run in one_fleet.runs:
        run.go_on.set()
    await one_fleet.stop_state()
    await one_fleet.start_state()
    one_fleet.working = one_fleet.following = True


@pytest_asyncio.fixture(loop_scope="module")
async def http(gateway: str, client_headers: dict[str, str]) -> AsyncIterator[httpx.AsyncClient]:
    """A client of that gateway."""
    async with httpx.AsyncClient(
        base_url=gateway, headers=client_headers, timeout=60, limits=KEEP_ALL, verify=NO_TLS
    ) as http:
        yield http


@module_fixture
async def another_gateway(settings: GatewaySettings, gateway: str) -> AsyncIterator[str]:
    """The URL of a second gateway of the same fleet."""
    assert gateway
    update = {"http_port": ports.pick(), "grpc_port": 0}
    async with running(settings.model_copy(update=update)) as url:
        yield url


@pytest_asyncio.fixture(loop_scope="module")
async def elsewhere(
    another_gateway: str, client_headers: dict[str, str]
) -> AsyncIterator[httpx.AsyncClient]:
    """A client of the second gateway."""
    async with httpx.AsyncClient(
        base_url=another_gateway,
        headers=client_headers,
        timeout=60,
        limits=KEEP_ALL,
        verify=NO_TLS,
    ) as http:
        yield http


@pytest.fixture(params=[Rest, Rpc], ids=["rest", "jsonrpc"])
def json_talk(request: pytest.FixtureRequest, http: httpx.AsyncClient) -> Talk:
    """Either JSON binding, over that client."""
    binding: Talk = request.param(http)
    return binding


@pytest_asyncio.fixture(loop_scope="module", params=[Rest, Rpc, Grpc])
async def talk(
    request: pytest.FixtureRequest, http: httpx.AsyncClient, settings: GatewaySettings
) -> AsyncIterator[Talk]:
    """Each binding, to that gateway."""
    if request.param is not Grpc:
        yield request.param(http)
        return
    async with grpc.aio.insecure_channel(f"127.0.0.1:{settings.grpc_port}") as channel:
        yield Grpc(http, None, channel)


@pytest.hookimpl
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run the tests of this folder on their modules' loops, where the fixtures are."""
    run_on_module_loops(items, Path(__file__).parent)
