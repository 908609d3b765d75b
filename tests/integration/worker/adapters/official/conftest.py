"""A gateway and task state over real servers, for agents in the style of official examples."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import httpx
import pytest
import pytest_asyncio

from headrace_gateway.settings import GatewaySettings
from tests.integration.worker.adapters.official.users import RecordedRun, read_again
from tests.support.module_loops import module_fixture, run_on_module_loops
from tests.support.plain_http import NO_TLS
from tests.support.running_gateway import running
from tests.support.servers import NatsProcess, ValkeyProcess, ports
from tests.support.task_states import open_task_states
from tests.support.task_submitter import fresh_names


@pytest.fixture(scope="module")
def names() -> dict[str, str]:
    """Prefixes of one module."""
    return fresh_names()


@module_fixture
async def gateway(
    nats_server: NatsProcess, valkey: ValkeyProcess, names: dict[str, str]
) -> AsyncIterator[str]:
    """The URL of a gateway."""
    places = {"http_port": ports.pick(), "grpc_port": 0, "startup_timeout": 60}
    given = {"nats_url": nats_server.url, **places, **names}
    async with open_task_states(nats_server.url, valkey.url, **names) as states:
        await states.start()
        await states.followed()
        async with running(GatewaySettings.model_validate(given)) as url:
            yield url


@pytest_asyncio.fixture(loop_scope="module")
async def http(gateway: str) -> AsyncIterator[httpx.AsyncClient]:
    """A client of that gateway."""
    async with httpx.AsyncClient(base_url=gateway, timeout=60, verify=NO_TLS) as client:
        yield client


@pytest.fixture(scope="module")
def runs() -> Iterator[list[RecordedRun]]:
    """Where a module's AG-UI runs are recorded: the official client reads them all at the end."""
    recorded: list[RecordedRun] = []
    yield recorded
    read_again(recorded)


@pytest.hookimpl
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run the tests of this folder on their modules' loops, where the fixtures are."""
    run_on_module_loops(items, Path(__file__).parent)
