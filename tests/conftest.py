"""Real servers, each started when the first test asks for it."""

import gc
import os
import signal
from collections.abc import Generator, Iterator, Sequence

import pytest
from execnet import XSpec
from xdist.remote import Producer

from tests.support import containers, lost_connections, memory_folder
from tests.support.cluster import NatsCluster
from tests.support.draws import draw_by_seed
from tests.support.forked_nodes import ForkedNodes
from tests.support.resuming_sizes import SEED
from tests.support.servers import NatsProcess, ValkeyProcess
from tests.support.stack_scheduling import StackScheduling
from tests.support.successive_servers import SuccessiveServers

_SERVERS = pytest.StashKey[str]()

_OF_SERVERS_IN_GO = {"GOMAXPROCS": "1", "GOGC": "400"}
"""For nats-server and Prometheus: the cores are the tests', of which several run at once.

On two cores, a nats-server takes a third less processor time for the same requests where it wakes
no thread of its own for each.
"""


@pytest.hookimpl(tryfirst=True)  # Hypothesis' plugin reads the seed.
def pytest_configure(config: pytest.Config) -> None:
    """Take signals as from a terminal, draw by the seed; choose servers and their folder."""
    os.environ.update(_OF_SERVERS_IN_GO | os.environ)
    for number in (signal.SIGINT, signal.SIGHUP):
        # Ignored in background jobs and under nohup, and by every stack that tests start there.
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, signal.SIG_DFL)
    lost_connections.fix_asyncio()
    draw_by_seed(config)
    try:
        config.stash[_SERVERS] = containers.choose([NatsProcess.image, ValkeyProcess.image])
    except (ValueError, containers.NoEngine) as problem:
        raise pytest.UsageError(str(problem)) from problem
    memory_folder.choose(os.environ)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Leave what is collected to no garbage collection: modules and tests stay to the end.

    They are a million objects, which each of the processes that share the tests would go
    through dozens of times while they come, and again whenever a test collects.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_xdist_setupnodes(config: pytest.Config, specs: Sequence[XSpec]) -> None:
    """Have all processes that share the tests forked from one that has imported them."""
    if len(specs) > 2 and all(spec.popen and not spec.python for spec in specs):
        nodes = ForkedNodes(config.args)
        config.add_cleanup(nodes.close)
        if nodes.are_ready:
            for spec in specs:
                spec.python = nodes.python


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> StackScheduling | None:
    """Let two processes run what needs the shared stack."""
    return StackScheduling(config, log) if config.getvalue("dist") == "loadfile" else None


def pytest_report_header(config: pytest.Config) -> str:
    """Say which servers the tests run on."""
    return f"servers: {config.stash[_SERVERS]}"


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """Say by which seed all was drawn, and on which servers: also where no header is shown."""
    terminalreporter.write_line(f"drawn with HEADRACE_SEED={SEED}")
    terminalreporter.write_line(f"servers: {config.stash[_SERVERS]}")


@pytest.fixture(scope="session")
def nats_servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SuccessiveServers]:
    """The nats-server for all tests, and those that take its place when it is full."""
    with SuccessiveServers(lambda: tmp_path_factory.mktemp("nats")) as servers:
        yield servers


@pytest.fixture(scope="module")
def nats_server(nats_servers: SuccessiveServers) -> NatsProcess:
    """A nats-server for all tests of a module, and others; who kills or freezes it brings it back.

    Tests leave their streams in it.
    """
    return nats_servers.current()


@pytest.fixture(scope="module")
def own_nats_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NatsProcess]:
    """A nats-server for a module's tests that restart it: it has only their streams to recover.

    With those of a thousand tests before, that may take longer than anybody waits.
    """
    with NatsProcess(tmp_path_factory.mktemp("own-nats")) as server:
        yield server


@pytest.fixture(scope="module")
def nats_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NatsCluster]:
    """Three nodes for a module's tests; who breaks one calls `heal`.

    Few modules need them, and until they end they take a twentieth of a core while idle.
    """
    with NatsCluster(tmp_path_factory.mktemp("cluster")) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def valkey(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ValkeyProcess]:
    """One Valkey for all tests; who kills or freezes it brings it back."""
    with ValkeyProcess(tmp_path_factory.mktemp("valkey")) as server:
        yield server
