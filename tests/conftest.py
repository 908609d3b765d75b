"""Real servers and one real stack, each started once, when the first test asks for it."""

from collections.abc import Iterator

import pytest

from tests.support.cluster import NatsCluster
from tests.support.servers import NatsProcess, ValkeyProcess
from tests.support.stack import Stack


@pytest.fixture(scope="session")
def nats_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NatsProcess]:
    """One nats-server for all tests; who kills or freezes it brings it back."""
    with NatsProcess(tmp_path_factory.mktemp("nats")) as server:
        yield server


@pytest.fixture(scope="session")
def nats_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NatsCluster]:
    """Three nodes for all tests; who breaks one calls `heal`."""
    with NatsCluster(tmp_path_factory.mktemp("cluster")) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def valkey(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ValkeyProcess]:
    """One Valkey for all tests; who kills or freezes it brings it back."""
    with ValkeyProcess(tmp_path_factory.mktemp("valkey")) as server:
        yield server


@pytest.fixture(scope="session")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """`headrace dev` with two gateways, three workers and two task states, for all tests."""
    folder = tmp_path_factory.mktemp("stack")
    with Stack(folder, gateways=2, workers=3, task_states=2) as running:
        yield running
