"""The stack that the end-to-end tests share, found whole at the start of each."""

from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack
from pathlib import Path

import httpx
import pytest

from tests.support import extra_services
from tests.support.fleet import Fleet
from tests.support.plain_http import NO_TLS
from tests.support.servers import NatsProcess, ValkeyProcess
from tests.support.service_process import ServiceProcess
from tests.support.stack import Stack
from tests.support.waiting import until


@pytest.fixture
async def fleet(stack: Stack, stack_servers: tuple[NatsProcess, ValkeyProcess] | None) -> Fleet:
    """The shared stack, whole; a test may break it in ways that it recovers from."""
    shared = Fleet(stack, stack_servers)
    await shared.until_whole()
    return shared


@pytest.fixture
async def http() -> AsyncIterator[httpx.AsyncClient]:
    """A plain HTTP client: no header but what HTTP needs."""
    async with httpx.AsyncClient(timeout=90, verify=NO_TLS) as client:
        yield client


@pytest.fixture
def laggards(stack: Stack, tmp_path: Path) -> Iterator[list[ServiceProcess]]:
    """Two workers beside the shared stack's own, with `tests.support.laggard`, to be killed."""
    nats_url = stack.dev()["nats_url"]
    folders = (tmp_path / f"laggards-{number}" for number in range(2))
    workers = [extra_services.worker(at, "laggards", nats_url, "laggard") for at in folders]
    with ExitStack() as running:
        for worker in workers:
            running.enter_context(worker)
        until(lambda: extra_services.is_served(stack.gateways, "laggard"), "laggards are served")
        yield workers


@pytest.fixture(scope="session")
def extra_workers(
    stack: Stack, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[list[ServiceProcess]]:
    """Two workers beside the shared stack's own, with `tests.support.agents`."""
    folder, nats_url = tmp_path_factory.mktemp("extra"), stack.dev()["nats_url"]
    workers = [extra_services.worker(folder / str(n), "agents", nats_url) for n in range(2)]
    for worker in workers:
        worker.start(wait=False)
    until(lambda: extra_services.is_served(stack.gateways, "asker"), "the extra agents are there")
    yield workers
    for worker in workers:
        worker.kill()
