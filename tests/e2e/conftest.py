"""The stack that the end-to-end tests share, found whole at the start of each."""

import fcntl
import os
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack
from pathlib import Path

import httpx
import pytest

from tests.support import client_package, containers, extra_services
from tests.support.driven_browser import Page, driven_browser, driven_page, keep_picture
from tests.support.fleet import Fleet
from tests.support.plain_http import KEEP_ALL, NO_TLS
from tests.support.servers import NatsProcess, ValkeyProcess
from tests.support.service_process import ServiceProcess
from tests.support.stack import Stack
from tests.support.waiting import until


@pytest.fixture(scope="package")
def stack_servers(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[tuple[NatsProcess, ValkeyProcess] | None]:
    """The servers of `stack` where they are containers; None: it starts its own."""
    if not containers.are_wanted():
        yield None
        return
    folder = tmp_path_factory.mktemp("stack-servers")
    with NatsProcess(folder / "nats") as nats, ValkeyProcess(folder / "valkey") as valkey:
        yield nats, valkey


@pytest.fixture(scope="package")
def stack(
    tmp_path_factory: pytest.TempPathFactory,
    stack_servers: tuple[NatsProcess, ValkeyProcess] | None,
) -> Iterator[Stack]:
    """`headrace dev` with two gateways, workers and task states, and triggers, for all tests.

    They end with the last of these tests: idle they take a tenth of a core.
    """
    folder, environment = tmp_path_factory.mktemp("stack"), dict[str, str]()
    if stack_servers is not None:
        nats, valkey = stack_servers
        environment = {"HEADRACE_NATS_URL": nats.url, "HEADRACE_REDIS_URL": valkey.url}
    shared = Stack(
        folder, gateways=2, workers=2, task_states=2, triggers=1, environment=environment
    )
    with shared as running:
        yield running


@pytest.fixture
async def fleet(stack: Stack, stack_servers: tuple[NatsProcess, ValkeyProcess] | None) -> Fleet:
    """The shared stack, whole; a test may break it in ways that it recovers from."""
    shared = Fleet(stack, stack_servers)
    await shared.until_whole()
    return shared


@pytest.fixture(scope="package")
def client_app(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the scripts of these tests, where `@headrace/client` is installed.

    Processes that share the tests share it, too.
    """
    own = tmp_path_factory.getbasetemp()
    shared = own.parent if "PYTEST_XDIST_WORKER" in os.environ else own
    with (shared / "client_app.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        folder = shared / "client_app"
        return folder / "app" if folder.exists() else client_package.installed(folder)


@pytest.fixture
async def http() -> AsyncIterator[httpx.AsyncClient]:
    """A plain HTTP client: no header but what HTTP needs."""
    async with httpx.AsyncClient(timeout=90, limits=KEEP_ALL, verify=NO_TLS) as client:
        yield client


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A browser for the tabs of a module's tests: one takes a second of processor time to start."""
    with driven_browser(tmp_path_factory.mktemp("browser")) as browser:
        yield browser


@pytest.fixture
async def page(request: pytest.FixtureRequest, browser: str) -> AsyncIterator[Page]:
    """A tab that has loaded nothing yet, and in which nothing is executed that should not be.

    What it shows at the end is kept in the folder `HEADRACE_TEST_PICTURES`, if that is set.
    """
    async with driven_page(browser) as page:
        await page.resize(1200, 800)
        yield page
        if folder := os.environ.get("HEADRACE_TEST_PICTURES"):
            keep_picture(await page.picture(), Path(folder) / f"{request.node.name}.png")
        assert page.complaints == []


@pytest.fixture
def slow_counters(stack: Stack, tmp_path: Path) -> Iterator[list[ServiceProcess]]:
    """Two more workers, with `tests.support.slow_counter`, to be killed."""
    nats_url = stack.dev()["nats_url"]
    folders = (tmp_path / f"slow_counters-{number}" for number in range(2))
    workers = [
        extra_services.worker(at, "slow_counters", nats_url, "slow_counter") for at in folders
    ]
    with ExitStack() as running:
        for worker in workers:
            running.enter_context(worker)
        until(
            lambda: extra_services.is_served(stack.gateways, "slow-counter"),
            "slow_counters are served",
        )
        yield workers


@pytest.fixture(scope="package")
def extra_worker(
    stack: Stack, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ServiceProcess]:
    """A worker beside the shared stack's own, with `tests.support.agents`."""
    folder, nats_url = tmp_path_factory.mktemp("extra"), stack.dev()["nats_url"]
    with extra_services.worker(folder, "agents", nats_url) as worker:
        until(lambda: extra_services.is_served(stack.gateways, "asker"), "its agents are there")
        yield worker
