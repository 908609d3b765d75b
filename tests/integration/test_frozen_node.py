"""One of three NATS nodes freezes to which services of each kind may be connected."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import httpx
import pytest

from tests.support import extra_services
from tests.support.cluster import NatsCluster
from tests.support.compose_file import ROOT
from tests.support.plain_a2a import PlainAgent
from tests.support.servers import ValkeyProcess
from tests.support.service_process import ServiceProcess
from tests.support.task_submitter import fresh_names
from tests.support.waiting import until

LEFT = "connecting to another NATS server"

OTHERS = {
    "worker": (["worker", "tests.support.agents:typist"], " serves "),
    "task-state": (["task-state"], " is ready"),
    "triggers": (["triggers", "serve"], " is ready"),
}
"""Their commands, and what they log once they serve."""


def prepared(
    name: str, folder: Path, nats_url: str, redis_url: str, names: dict[str, str]
) -> ServiceProcess:
    arguments, serves = OTHERS[name]
    environment = {
        "HEADRACE_NATS_URL": nats_url,
        "HEADRACE_REPLICAS": "3",
        "HEADRACE_REDIS_URL": redis_url,
        "PYTHONPATH": str(ROOT),
        **names,
    }
    service = ServiceProcess(
        name, folder, arguments, environment, lambda: serves in service.log.read_text()
    )
    return service


@pytest.fixture
def gateway_url(nats_cluster: NatsCluster, valkey: ValkeyProcess, tmp_path: Path) -> Iterator[str]:
    """URL of a gateway; it and the other services are each connected to any of the nodes."""
    names = {f"HEADRACE_{name.upper()}": value for name, value in fresh_names().items()}
    nats_url = nats_cluster.url
    gateway, url = extra_services.gateway(tmp_path, nats_url, HEADRACE_REPLICAS="3", **names)
    services = [
        gateway,
        *(prepared(name, tmp_path, nats_url, valkey.url, names) for name in OTHERS),
    ]
    with ExitStack() as stack:
        stack.callback(nats_cluster.heal)
        for service in services:
            stack.enter_context(service)
        yield url


async def test_every_connection_of_a_fleet_leaves_a_frozen_node(
    nats_cluster: NatsCluster, gateway_url: str, tmp_path: Path
) -> None:
    """nats-py alone would stay for half a minute."""
    frozen = max(nats_cluster.nodes, key=lambda node: len(nats_cluster.connections(node)))
    others = [node for node in nats_cluster.nodes if node is not frozen]
    names = nats_cluster.connections(frozen)
    assert len(names) > 2  # a gateway has one connection only
    frozen.freeze()
    until(
        lambda: names <= set().union(*map(nats_cluster.connections, others)),
        "all are connected to other nodes",
    )
    async with httpx.AsyncClient() as http:
        sent = await PlainAgent(http, gateway_url, "typist").send("type")
    assert sent.json()["task"]["status"]["state"] == "TASK_STATE_COMPLETED"
    connected = [
        service for service in ("gateway", *OTHERS) if any(service in name for name in names)
    ]
    assert connected
    for service in connected:
        assert LEFT in (tmp_path / f"{service}.log").read_text()
