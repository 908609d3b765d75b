"""The Helm chart's own NATS: its manifests, and its configuration on real servers."""

import json
import socket
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import nats
import pytest
from nats.errors import NoRespondersError

from headrace import Agent, Agents, Emission, RunContext, agent
from headrace.jetstream.api import stream_info
from headrace.model.queues import RunQueue
from headrace.model.task import COMPLETED
from headrace.tasks.runs import ensure_queue
from headrace_gateway.settings import GatewaySettings
from headrace_worker.settings import WorkerSettings
from headrace_worker.worker import Worker
from tests.support.chart_nats import ChartNats, ChartNode
from tests.support.compose_file import ROOT
from tests.support.helm_chart import of_kind, render, values_of
from tests.support.task_submitter import open_submitter

BOTH = pytest.mark.parametrize("name", ["nats", "nats-cluster"])


@agent(name="echo")
async def echo(_: RunContext) -> AsyncIterator[Emission]:
    """Answer the same."""
    yield "hello"


@agent(name="cart")
async def cart(_: RunContext) -> AsyncIterator[Emission]:
    """Answer the same."""
    yield "hello"


@pytest.fixture(scope="module")
def single(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ChartNode]:
    """The only node of the set ``nats``."""
    with ChartNats("nats", tmp_path_factory.mktemp("single")) as it:
        [node] = it.nodes
        yield node


def settings_of(name: str) -> dict[str, str]:
    """Return the settings of all services, as settings' classes name them."""
    data: dict[str, str] = of_kind(name, "ConfigMap")["config"]["data"]
    return {key.removeprefix("HEADRACE_").lower(): value for key, value in data.items()}


async def answered_by(node: ChartNode, group: str, served: Agent, shared: dict[str, str]) -> str:
    """Return the state in which a task of the agent ends, by the gateway's and a group's users."""
    gateway = GatewaySettings.model_validate({**shared, **node.login("gateway")})
    given = {**shared, **node.login(group), "drain_seconds": 0, "startup_timeout": 60}
    async with open_submitter(gateway) as submitter:
        await ensure_queue(submitter.bus, RunQueue.first_of(served.name), 60)
        worker = Worker(WorkerSettings.model_validate(given), Agents([served]))
        await worker.start()
        try:
            entries = await (await submitter.start(served.name)).ended()
            copies = await stream_info(submitter.bus, submitter.bus.streams.events(0), {}, 30)
            assert str(copies["config"]["num_replicas"]) == shared.get("replicas", "1")
        finally:
            await worker.stop()
    return str(entries[-1].stamp.state)


async def test_a_gateway_and_a_worker_work_together_with_their_own_users(single: ChartNode) -> None:
    assert await answered_by(single, "worker", echo, settings_of("nats")) == COMPLETED


@pytest.mark.parametrize("login", [{}, {"user": "gateway", "pass": "wrong"}, {"user": "gateway"}])
def test_no_login_succeeds_without_a_users_password(
    single: ChartNode, login: dict[str, str]
) -> None:
    with socket.create_connection(("127.0.0.1", single.port), timeout=30) as connection:
        connection.recv(4096)
        stated = json.dumps({"verbose": False, **login})
        connection.sendall(f"CONNECT {stated}\r\nPING\r\n".encode())
        assert b"Authorization Violation" in connection.recv(4096)


async def test_a_worker_reaches_nothing_of_other_groups_agents(single: ChartNode) -> None:
    login = single.login("worker")
    client = await nats.connect(
        login["nats_url"], user=login["nats_user"], password=login["nats_password"]
    )
    try:
        with pytest.raises(NoRespondersError):
            await client.request("headrace.run.default.other.task.1", b"{}", timeout=30)
    finally:
        await client.close()


def test_a_node_that_stops_sends_its_clients_away_first(tmp_path: Path) -> None:
    with ChartNats("nats", tmp_path) as chart:
        [node] = chart.nodes
        login = node.login("gateway")
        stated = {"user": login["nats_user"], "pass": login["nats_password"], "protocol": 1}
        with (
            socket.create_connection(("127.0.0.1", node.port), timeout=60) as connection,
            connection.makefile("rb") as answers,
        ):
            assert b'"ldm":true' not in answers.readline()
            options = json.dumps({"verbose": False, **stated})
            connection.sendall(f"CONNECT {options}\r\nPING\r\n".encode())
            assert any(line == b"PONG\r\n" for line in answers)
            node.begin_to_stop()
            assert any(b'"ldm":true' in line for line in answers)


async def test_three_nodes_are_a_cluster_in_which_a_group_serves_its_agents(
    tmp_path: Path,
) -> None:
    shared = settings_of("nats-cluster")
    assert (shared["replicas"], shared["prefix"]) == ("3", "shop")
    with ChartNats("nats-cluster", tmp_path) as cluster:
        assert await answered_by(cluster.nodes[0], "shop", cart, shared) == COMPLETED


@BOTH
def test_it_is_configured_like_that_of_compose(name: str) -> None:
    def directives(text: str) -> set[str]:
        lines = (line.strip() for line in text.splitlines())
        return {line.partition(" #")[0].strip() for line in lines if line[:1] not in ("", "#")}

    own = directives(of_kind(name, "ConfigMap")["nats"]["data"]["nats.conf"])
    shipped = directives((ROOT / "deploy" / "nats.conf").read_text())
    replaced = {line for line in shipped if line.startswith(("server_name:", "include "))}
    assert len(replaced) == 2
    assert shipped - replaced <= own


@BOTH
def test_services_connect_to_it_and_nodes_know_each_other(name: str) -> None:
    services, nodes = of_kind(name, "Service"), of_kind(name, "StatefulSet")["nats"]
    [client] = services["nats"]["spec"]["ports"]
    assert settings_of(name)["nats_url"] == f"nats://fleet-nats:{client['port']}"
    headless = services["nats-headless"]
    assert headless["metadata"]["name"] == nodes["spec"]["serviceName"]
    assert headless["spec"]["publishNotReadyAddresses"] is True
    labels = nodes["spec"]["template"]["metadata"]["labels"]
    [container] = nodes["spec"]["template"]["spec"]["containers"]
    open_ports = {one["name"] for one in container["ports"]}
    for service in (services["nats"], headless):
        assert service["spec"]["selector"].items() <= labels.items()
        assert {one["targetPort"] for one in service["spec"]["ports"]} <= open_ports
    text = of_kind(name, "ConfigMap")["nats"]["data"]["nats.conf"]
    names = [
        f'"nats://fleet-nats-{index}.fleet-nats-headless:6222"'
        for index in range(nodes["spec"]["replicas"])
    ]
    assert ("routes" in open_ports) is (len(names) > 1)
    assert len(names) == 1 or all(one in text for one in names)


@BOTH
def test_its_users_have_the_passwords_of_the_services(name: str) -> None:
    [container] = of_kind(name, "StatefulSet")["nats"]["spec"]["template"]["spec"]["containers"]
    given = {
        one["name"]: one["valueFrom"]["secretKeyRef"]["name"]
        for one in container["env"]
        if "secretKeyRef" in one.get("valueFrom", {})
    }
    deployments = of_kind(name, "Deployment")
    assert len(deployments) >= 4
    for one in deployments.values():
        pod = one["spec"]["template"]["spec"]
        [service] = pod["containers"]
        user = {each["name"]: each["value"] for each in service["env"]}["HEADRACE_NATS_USER"]
        secrets = {each["name"]: each.get("secret") for each in pod["volumes"]}
        variable = f"HEADRACE_NATS_{user.upper().replace('-', '_')}_PASSWORD"
        assert given.pop(variable) == secrets["nats"]["secretName"]
    assert given == {"HEADRACE_NATS_OPERATOR_PASSWORD": "headrace-nats-operator"}


@BOTH
def test_only_the_releases_pods_reach_it_and_only_nodes_its_routes(name: str) -> None:
    policy = of_kind(name, "NetworkPolicy")["nats"]["spec"]
    admitted = {
        rule["ports"][0]["port"]: next(iter(rule["from"][0].values()))["matchLabels"]
        for rule in policy["ingress"]
    }
    release = {"app.kubernetes.io/name": "headrace", "app.kubernetes.io/instance": "fleet"}
    assert admitted[4222] == release
    assert admitted[8222] == {"headrace.metrics": "true"}
    node = {**release, "app.kubernetes.io/component": "nats"}
    assert admitted.get(6222) == (node if name == "nats-cluster" else None)


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        ({"workers": {"worker": {"agents": []}}}, r"nats\.enabled needs workers\.worker\.agents"),
        ({"nats": {"replicas": 3}, "networkPolicy": {"enabled": False}}, "networkPolicy"),
        ({"nats": {"replicas": 2}}, "schema"),
        ({"gateway": {"natsUser": "front"}}, "natsUser gateway, not front"),
    ],
)
def test_values_that_can_not_work_are_refused(wrong: dict[str, Any], reason: str) -> None:
    given = values_of("nats")
    for part, values in wrong.items():
        if part == "workers":
            given[part]["worker"] |= values["worker"]
        else:
            given[part] = {**given.get(part, {}), **values}
    with pytest.raises(Exception, match=reason):
        render(given)


def test_it_is_rendered_only_if_enabled() -> None:
    kinds = ("StatefulSet", "Service", "ConfigMap", "NetworkPolicy", "PodDisruptionBudget")
    assert all("nats" in of_kind("nats", kind) for kind in kinds)
    assert not any("nats" in of_kind("default", kind) for kind in kinds)
    assert settings_of("default")["nats_url"] == "nats://nats:4222"
