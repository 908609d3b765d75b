"""Task state, which adapters ask for a conversation's earlier tasks, and a trusted authority."""

import secrets
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import certifi
import pytest
import pytest_asyncio

from headrace.jetstream.connection import Bus
from headrace.settings import BusSettings
from tests.support.module_loops import module_fixture, run_on_module_loops
from tests.support.servers import NatsProcess, ValkeyProcess
from tests.support.task_states import open_task_states
from tests.support.task_submitter import TaskSubmitter, fresh_names


@pytest.fixture(scope="module")
def names() -> dict[str, str]:
    """Prefixes of one module: its tests share a fleet, and each has its contexts to itself."""
    return fresh_names()


@module_fixture
async def fleet_bus(nats_server: NatsProcess, names: dict[str, str]) -> AsyncIterator[Bus]:
    """The module's connection to its fleet."""
    bus = Bus(BusSettings.model_validate({"nats_url": nats_server.url, **names}))
    await bus.connect("submitter")
    yield bus
    await bus.close()


@pytest_asyncio.fixture(loop_scope="module")
async def submitter(fleet_bus: Bus) -> AsyncIterator[TaskSubmitter]:
    """Submits a test's tasks as the gateway does, without HTTP."""
    yield TaskSubmitter(fleet_bus, apart=f"-{secrets.token_hex(4)}")
    # What a test that failed has left in the queue is not for the worker of the next.
    await fleet_bus.js.purge_stream(fleet_bus.streams.runs)


@module_fixture
async def task_state(
    nats_server: NatsProcess, valkey: ValkeyProcess, names: dict[str, str], fleet_bus: Bus
) -> AsyncIterator[None]:
    """Task state that follows the logs of the module's tasks."""
    del fleet_bus
    async with open_task_states(nats_server.url, valkey.url, **names) as states:
        await states.start()
        await states.followed()
        yield


@pytest.fixture(scope="package", autouse=True)
def one_authority(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The only authority that HTTP clients trust; no test talks to anybody by TLS.

    To load all of them takes each client of a framework 33 ms of processor time.
    """
    end = "-----END CERTIFICATE-----\n"
    first, found, _ = Path(certifi.where()).read_text().partition(end)
    file = tmp_path_factory.mktemp("authority") / "one.pem"
    file.write_text(first + found)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SSL_CERT_FILE", str(file))
        patch.delenv("SSL_CERT_DIR", raising=False)
        yield file


@pytest.hookimpl
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run the tests of this folder on their modules' loops, where the fixtures are."""
    run_on_module_loops(items, Path(__file__).parent)
