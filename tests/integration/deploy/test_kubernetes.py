"""The manifests and alerts of `deploy/` fit the services that they are for."""

import re
from functools import cache
from typing import Any

import kubernetes_validate
import pytest
import yaml

from headrace.settings import BusSettings
from headrace_gateway.server import open_requests
from headrace_gateway.settings import GatewaySettings
from headrace_gateway.streaming import open_streams
from headrace_gateway.timing import TIMING
from headrace_task_state.settings import TaskStateSettings
from headrace_triggers.settings import TriggersSettings
from headrace_worker.settings import WorkerSettings
from tests.support.compose_file import ROOT, load

FOLDER = ROOT / "deploy" / "kubernetes"
ROLES: dict[str, type[BusSettings]] = {
    "gateway": GatewaySettings,
    "worker": WorkerSettings,
    "task-state": TaskStateSettings,
    "triggers": TriggersSettings,
}
PAGE = (ROOT / "docs" / "metrics.md").read_text()

type Manifest = dict[str, Any]

every_role = pytest.mark.parametrize("role", ROLES)


@cache
def manifests(kind: str) -> dict[str, Manifest]:
    """Return what ``kubectl apply -k`` applies of one kind, by name."""
    listed = yaml.safe_load((FOLDER / "kustomization.yaml").read_text())["resources"]
    found = [one for name in listed for one in yaml.safe_load_all((FOLDER / name).read_text())]
    return {one["metadata"]["name"]: one for one in found if one["kind"] == kind}


def pod(role: str) -> Manifest:
    template: Manifest = manifests("Deployment")[f"headrace-{role}"]["spec"]["template"]
    return template


def container(role: str) -> Manifest:
    [one] = pod(role)["spec"]["containers"]
    return dict(one)


def told(role: str) -> dict[str, str]:
    """Return the environment that a role's container gets."""
    shared: dict[str, str] = manifests("ConfigMap")["headrace"]["data"]
    return shared | {one["name"]: one["value"] for one in container(role)["env"]}


def settings_of(role: str, monkeypatch: pytest.MonkeyPatch) -> Any:  # noqa: ANN401 - one of them
    """Return what a role's process makes of its environment."""
    for name, value in told(role).items():
        # Files of Secrets are on the cluster only.
        is_file = name.endswith("_FILE")
        monkeypatch.setenv(name.removesuffix("_FILE"), "secret" if is_file else value)
    return ROLES[role]()


def test_every_file_is_applied() -> None:
    listed = yaml.safe_load((FOLDER / "kustomization.yaml").read_text())["resources"]
    assert sorted([*listed, "kustomization.yaml"]) == sorted(p.name for p in FOLDER.iterdir())
    assert set(manifests("Deployment")) == {f"headrace-{role}" for role in ROLES}


@every_role
def test_each_runs_the_command_of_its_role_on_the_one_image(role: str) -> None:
    service = load()[role]
    assert (container(role)["image"], container(role)["args"]) == (service.image, service.command)


def test_every_variable_is_one_of_a_service() -> None:
    known = {f"HEADRACE_{f.upper()}" for kind in ROLES.values() for f in kind.model_fields}
    shared = manifests("ConfigMap")["headrace"]["data"]
    assert [name for name in shared if name not in known] == []
    for role, kind in ROLES.items():
        own = {f"HEADRACE_{field.upper()}" for field in kind.model_fields}
        assert [one["name"] for one in container(role)["env"] if one["name"] not in own] == []


@every_role
def test_ports_are_those_that_the_service_listens_on(
    role: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = settings_of(role, monkeypatch)
    ports = {one["name"]: one["containerPort"] for one in container(role)["ports"]}
    if role == "gateway":
        assert ports == {"http": settings.http_port, "grpc": settings.grpc_port}
        assert settings.http_host == "0.0.0.0"  # noqa: S104 - compared, not bound
    else:
        assert ports == {"metrics": settings.metrics_port}
        assert settings.metrics_host == "0.0.0.0"  # noqa: S104 - compared, not bound
    scraped = pod(role)["metadata"]["annotations"]["prometheus.io/port"]
    assert int(scraped) == ports["http" if role == "gateway" else "metrics"]


@every_role
def test_it_lives_by_healthz_and_serves_by_readyz(role: str) -> None:
    one, port = container(role), "http" if role == "gateway" else "metrics"
    assert one["livenessProbe"]["httpGet"] == {"path": "/healthz", "port": port}
    assert one["startupProbe"]["httpGet"] == {"path": "/healthz", "port": port}
    assert one["readinessProbe"]["httpGet"] == {"path": "/readyz", "port": port}


def test_the_service_leads_to_the_gateways_ports() -> None:
    service = manifests("Service")["headrace"]["spec"]
    assert service["selector"].items() <= pod("gateway")["metadata"]["labels"].items()
    named = {one["name"]: one["containerPort"] for one in container("gateway")["ports"]}
    assert {one["targetPort"]: one["port"] for one in service["ports"]} == named


@every_role
def test_everything_that_selects_a_role_selects_its_pods(role: str) -> None:
    name, labels = f"headrace-{role}", pod(role)["metadata"]["labels"]
    for kind in ("Deployment", "PodDisruptionBudget"):
        assert manifests(kind)[name]["spec"]["selector"]["matchLabels"] == labels
    scaled = [
        one["spec"]["scaleTargetRef"] for one in manifests("HorizontalPodAutoscaler").values()
    ]
    assert {one["name"] for one in scaled} < set(manifests("Deployment"))


def test_replicas_are_set_by_the_manifest_or_by_an_autoscaler() -> None:
    deployments = manifests("Deployment")
    scaled = {
        one["spec"]["scaleTargetRef"]["name"]
        for one in manifests("HorizontalPodAutoscaler").values()
    }
    assert {name for name, one in deployments.items() if "replicas" not in one["spec"]} == scaled


@every_role
def test_pods_of_a_role_are_spread_over_nodes(role: str) -> None:
    [spread] = pod(role)["spec"]["topologySpreadConstraints"]
    assert spread["labelSelector"]["matchLabels"] == pod(role)["metadata"]["labels"]


@pytest.mark.parametrize("kubernetes", ["1.27", "1.37"])
def test_manifests_are_valid_by_kubernetes_schemas(kubernetes: str) -> None:
    kinds = ("ConfigMap", "Deployment", "Service", "PodDisruptionBudget", "NetworkPolicy")
    found = [
        one for kind in (*kinds, "HorizontalPodAutoscaler") for one in manifests(kind).values()
    ]
    assert len(found) >= 12
    for one in found:
        kubernetes_validate.validate(one, kubernetes, strict=True)


def test_each_has_longer_to_end_in_than_it_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    grace = {role: pod(role)["spec"]["terminationGracePeriodSeconds"] for role in ROLES}
    program, pause = container("gateway")["lifecycle"]["preStop"]["exec"]["command"]
    assert program == "sleep"
    assert (
        grace["gateway"]
        > int(pause) + open_streams.CLOSE_TIMEOUT + open_requests.GRACE + TIMING.drain
    )
    worker = settings_of("worker", monkeypatch)
    assert grace["worker"] > worker.drain_seconds + worker.cleanup_seconds
    assert all(grace[role] >= load()[role].grace for role in ROLES)


@every_role
def test_no_container_is_root_or_writes_to_the_image(role: str) -> None:
    user = re.search(r"^USER (\d+):(\d+)$", (ROOT / "deploy/Dockerfile").read_text(), re.MULTILINE)
    assert user is not None
    context = pod(role)["spec"]["securityContext"]
    assert (context["runAsUser"], context["runAsGroup"]) == (int(user[1]), int(user[2]))
    own = container(role)["securityContext"]
    assert own["readOnlyRootFilesystem"] is True
    assert own["allowPrivilegeEscalation"] is False
    assert own["capabilities"] == {"drop": ["ALL"]}
    # Variables of Kubernetes' own for a Service headrace-http would be taken for settings.
    assert pod(role)["spec"]["enableServiceLinks"] is False


def alerts() -> dict[str, str]:
    """Return each alert's expression, by its name."""
    [group] = yaml.safe_load((ROOT / "deploy" / "alerts.yml").read_text())["groups"]
    return {rule["alert"]: rule["expr"] for rule in group["rules"]}


def test_alerts_go_by_metrics_that_are_documented() -> None:
    documented = set(re.findall(r"`(headrace_\w+)`", PAGE))
    assert alerts()
    for name, expression in alerts().items():
        used = set(re.findall(r"headrace_\w+", expression))
        assert used, name
        assert {re.sub(r"_(count|sum|bucket)$", "", one) for one in used} <= documented, name


def secret_at(role: str, path: str) -> str:
    """Return the name of the Secret that a role's container finds at a path, and the key in it."""
    folder, _, key = path.rpartition("/")
    [mount] = [one for one in container(role)["volumeMounts"] if one["mountPath"] == folder]
    assert mount["readOnly"] is True
    [volume] = [one for one in pod(role)["spec"]["volumes"] if one["name"] == mount["name"]]
    return f"{volume['secret']['secretName']}/{key}"


def test_credentials_and_passwords_are_secrets() -> None:
    path = told("gateway")["HEADRACE_CREDENTIALS"]
    assert secret_at("gateway", path) == "headrace-credentials/credentials.toml"
    path = told("task-state")["HEADRACE_REDIS_PASSWORD_FILE"]
    assert secret_at("task-state", path) == "headrace-redis/password"
    shared = manifests("ConfigMap")["headrace"]["data"]
    assert [name for name in shared if re.search("PASSWORD|TOKEN|NKEY|CREDS", name)] == []


def test_only_gateways_are_reachable_from_outside() -> None:
    policies = {name: one["spec"] for name, one in manifests("NetworkPolicy").items()}
    everything, gateways = policies["headrace"], policies["headrace-gateway"]
    for role in ROLES:
        labels = pod(role)["metadata"]["labels"]
        assert everything["podSelector"]["matchLabels"].items() <= labels.items()
        is_gateway = gateways["podSelector"]["matchLabels"].items() <= labels.items()
        assert is_gateway == (role == "gateway")
    assert all("from" in rule for rule in everything["ingress"])
    listening = {one["containerPort"] for one in container("gateway")["ports"]}
    assert {port["port"] for rule in gateways["ingress"] for port in rule["ports"]} == listening
    nats = int(told("gateway")["HEADRACE_NATS_URL"].rpartition(":")[2])
    assert nats in {port["port"] for rule in gateways["egress"] for port in rule["ports"]}


@every_role
def test_each_has_a_nats_user_of_its_own_whose_password_is_a_secret(role: str) -> None:
    accounts = (ROOT / "deploy" / "nats-accounts.conf").read_text()
    assert f'user: "{told(role)["HEADRACE_NATS_USER"]}", password: $' in accounts
    [mount] = [one for one in container(role)["volumeMounts"] if one["name"] == "nats"]
    assert told(role)["HEADRACE_NATS_PASSWORD_FILE"] == f"{mount['mountPath']}/password"
    [volume] = [one for one in pod(role)["spec"]["volumes"] if one["name"] == "nats"]
    assert volume["secret"] == {"secretName": f"headrace-nats-{role}"}
