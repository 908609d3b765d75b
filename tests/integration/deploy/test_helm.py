"""The Helm chart: each set of values renders to valid manifests that fit the services."""

import re
import subprocess
from importlib.metadata import version
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
from tests.support import javascript
from tests.support.compose_file import ROOT
from tests.support.helm_chart import (
    CHART,
    RELEASE,
    Manifest,
    installed,
    lint_errors,
    of_kind,
    render,
    rendered,
    values_of,
)

SETS = ["default", "files", "keda", "kind", "nats", "nats-cluster", "small", "valkey"]
WORKERS = {
    "default": {"worker"},
    "files": {"worker"},
    "keda": {"shop", "desk"},
    "kind": {"worker"},
    "nats": {"worker"},
    "nats-cluster": {"shop", "front-desk"},
    "small": {"worker"},
    "valkey": {"worker"},
}
COMPONENTS = ["gateway", "taskState", "triggers", "nats", "valkey"]
"""Names of the values of a component each."""

SCALED = ["gateway", "worker"]
VERSIONS = ["1.27", "1.37"]
"""The oldest Kubernetes that the chart names, and the newest one known to the validator."""

every_set = pytest.mark.parametrize("name", SETS)


def pod(name: str, component: str) -> Manifest:
    spec: Manifest = of_kind(name, "Deployment")[component]["spec"]["template"]["spec"]
    return spec


def container(name: str, component: str) -> Manifest:
    [one] = pod(name, component)["containers"]
    return dict(one)


def told(name: str, component: str) -> dict[str, str]:
    """Return the environment that a component's container gets."""
    shared: dict[str, str] = of_kind(name, "ConfigMap")["config"]["data"]
    return shared | {one["name"]: one["value"] for one in container(name, component)["env"]}


def environment(deployment: Manifest) -> dict[str, str]:
    """Return the variables that a Deployment sets itself."""
    [own] = deployment["spec"]["template"]["spec"]["containers"]
    return {one["name"]: one["value"] for one in own["env"] if "value" in one}


def role_of(component: str) -> type[BusSettings]:
    roles: dict[str, type[BusSettings]] = {
        "gateway": GatewaySettings,
        "task-state": TaskStateSettings,
        "triggers": TriggersSettings,
    }
    return roles.get(component, WorkerSettings)


def settings_of(name: str, component: str, monkeypatch: pytest.MonkeyPatch) -> Any:  # noqa: ANN401 - one of them
    """Return what a component's process makes of its environment."""
    with monkeypatch.context() as patch:
        for variable, value in told(name, component).items():
            # Files of Secrets are on the cluster only.
            is_file = variable.endswith("_FILE")
            patch.setenv(variable.removesuffix("_FILE"), "secret" if is_file else value)
        return role_of(component)()


def test_its_version_is_the_projects() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert chart["version"] == chart["appVersion"] == version("headrace")


def test_the_sets_are_those_of_the_chart() -> None:
    files = (CHART / "ci").glob("*-values.yaml")
    assert sorted(one.name.removesuffix("-values.yaml") for one in files) == SETS


@every_set
def test_helm_lints_each_set_and_would_install_what_it_renders(name: str) -> None:
    assert lint_errors(values_of(name)) == []
    would_be = installed(values_of(name))
    assert sorted(would_be, key=str) == sorted(rendered(name), key=str)


def test_helm_lints_no_values_that_the_chart_does_not_know() -> None:
    errors = lint_errors(values_of("default") | {"gatway": {}})
    assert any("gatway" in error for error in errors)


@every_set
def test_manifests_are_valid_by_kubernetes_schemas(name: str) -> None:
    manifests = [one for one in rendered(name) if one["kind"] != "ScaledObject"]
    assert len(manifests) > 6
    for kubernetes in VERSIONS:
        for one in manifests:
            kubernetes_validate.validate(one, kubernetes, strict=True)


def test_a_manifest_that_is_not_valid_is_refused() -> None:
    [service] = of_kind("default", "Service").values()
    wrong = service | {"spec": service["spec"] | {"selectors": {}}}
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(wrong, VERSIONS[0], strict=True)


def test_scaled_objects_are_valid_by_kedas_schema() -> None:
    scaled = {name: of_kind(name, "ScaledObject") for name in SETS}
    expected = {"keda": {"gateway", "shop", "desk"}, "nats-cluster": {"shop"}}
    assert {name: set(found) for name, found in scaled.items() if found} == expected
    wrong = {"apiVersion": "keda.sh/v1alpha1", "kind": "ScaledObject", "metadata": {"name": "no"}}
    wrong |= {"spec": {"scaleTargetRef": {"name": "x"}, "triggers": "none"}}
    rendered_ones = [one for found in scaled.values() for one in found.values()]
    [complaint] = javascript.run("keda.mjs", [*rendered_ones, wrong])
    assert complaint.startswith("no: ")


@every_set
def test_replicas_are_set_by_the_chart_or_by_an_autoscaler(name: str) -> None:
    deployments = of_kind(name, "Deployment")
    assert set(deployments) == {"gateway", "task-state", "triggers"} | WORKERS[name]
    fixed = {component for component, one in deployments.items() if "replicas" in one["spec"]}
    scalers = of_kind(name, "HorizontalPodAutoscaler") | of_kind(name, "ScaledObject")
    assert set(scalers) == set(deployments) - fixed
    targets = {one["spec"]["scaleTargetRef"]["name"] for one in scalers.values()}
    assert targets == {deployments[component]["metadata"]["name"] for component in scalers}


def test_a_group_scales_by_all_versions_of_an_agent_or_by_those_that_it_names() -> None:
    scaled = of_kind("nats-cluster", "ScaledObject")["shop"]
    query = scaled["spec"]["triggers"][0]["metadata"]["query"]
    assert 'headrace_runs_waiting{agent=~"cart|search"}' in query
    values = values_of("keda")
    values["workers"]["shop"]["agents"] = ["search", "cart@2.1", "cart@3"]
    queries = [
        one["spec"]["triggers"][0]["metadata"]["query"]
        for one in render(values)
        if one["kind"] == "ScaledObject"
    ]
    named = ('agent=~"search"', 'agent="cart",version="2.1"', 'agent="cart",version="3"')
    of = [f'{{{one},namespace="prod"}}' for one in named]
    waiting, working = (
        " or ".join(f"headrace_runs_{kind}{one}" for one in of) for kind in ("waiting", "working")
    )
    assert f"sum(max by (agent, version) ({waiting})) + (sum({working}) or vector(0))" in queries


def test_gateways_scale_by_streams_and_workers_by_their_agents_runs() -> None:
    scaled = of_kind("keda", "ScaledObject")
    queries = {
        component: one["spec"]["triggers"][0]["metadata"]["query"]
        for component, one in scaled.items()
    }
    assert queries["gateway"] == 'sum(headrace_open_streams{namespace="prod"})'
    only = 'agent=~"cart|search",namespace="prod"'
    assert queries["shop"] == (
        f"sum(max by (agent, version) (headrace_runs_waiting{{{only}}}))"
        f" + (sum(headrace_runs_working{{{only}}}) or vector(0))"
    )


@every_set
def test_settings_are_those_of_the_services(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    components = sorted(of_kind(name, "Deployment"))
    assert len(components) >= 3
    known = {
        f"HEADRACE_{field.upper()}"
        for kind in (GatewaySettings, TaskStateSettings, WorkerSettings)
        for field in kind.model_fields
    }
    shared = of_kind(name, "ConfigMap")["config"]["data"]
    assert set(shared) <= known
    for component in components:
        own = {one["name"] for one in container(name, component)["env"]}
        assert own <= {f"HEADRACE_{f.upper()}" for f in role_of(component).model_fields}
        settings = settings_of(name, component, monkeypatch)
        ports = {one["name"]: one["containerPort"] for one in container(name, component)["ports"]}
        if component == "gateway":
            assert ports == {"http": settings.http_port, "grpc": settings.grpc_port}
        else:
            assert ports == {"metrics": settings.metrics_port}


@every_set
def test_each_has_longer_to_end_in_than_it_takes(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    grace = {
        component: pod(name, component)["terminationGracePeriodSeconds"]
        for component in of_kind(name, "Deployment")
    }
    _, pause = container(name, "gateway")["lifecycle"]["preStop"]["exec"]["command"]
    ending = open_streams.CLOSE_TIMEOUT + open_requests.GRACE + TIMING.drain
    assert grace["gateway"] > int(pause) + ending
    assert WORKERS[name] <= set(grace)
    for group in WORKERS[name]:
        worker = settings_of(name, group, monkeypatch)
        assert grace[group] > worker.drain_seconds + worker.cleanup_seconds


@every_set
def test_no_container_is_root_and_disruptions_take_one_pod_at_a_time(name: str) -> None:
    pods = {
        component: one["spec"]["template"]
        for kind in ("Deployment", "StatefulSet")
        for component, one in of_kind(name, kind).items()
        if component != "valkey"
    }
    assert set(of_kind(name, "PodDisruptionBudget")) == set(pods)
    for component, one in pods.items():
        context = one["spec"]["securityContext"]
        assert (context["runAsNonRoot"], context["runAsUser"]) == (True, 10001)
        for own in (*one["spec"]["containers"], *one["spec"].get("initContainers", ())):
            assert own["securityContext"]["readOnlyRootFilesystem"] is True
            assert own["securityContext"]["capabilities"] == {"drop": ["ALL"]}
        selector = of_kind(name, "PodDisruptionBudget")[component]["spec"]["selector"]
        labels = one["metadata"]["labels"]
        assert selector["matchLabels"].items() <= labels.items()


def test_passwords_are_in_secrets_that_exist_already() -> None:
    assert [one["kind"] for one in rendered("keda") if one["kind"] == "Secret"] == []
    secrets = {
        component: {
            one["secret"]["secretName"]
            for one in pod("keda", component)["volumes"]
            if "secret" in one
        }
        for component in of_kind("keda", "Deployment")
    }
    assert secrets == {
        "gateway": {"headrace-nats-gateway", "headrace-credentials"},
        "task-state": {"headrace-nats-task-state", "headrace-redis"},
        "triggers": {"headrace-nats-triggers"},
        "shop": {"headrace-nats-shop"},
        "desk": {"desk-nats"},
    }


FILES = ["quotas", "prices", "credentials", "signing_keys"]
"""Settings that name files, besides those that end in ``_file``. The chart does not mount
the folder and the socket of ``headrace dev``, which other settings name."""


def files_of(settings: type[BusSettings]) -> set[str]:
    """Return the variables of a service that name files."""
    fields = settings.model_fields
    named = {one for one in fields if one.endswith("_file")} | (fields.keys() & set(FILES))
    of_paths = {one for one, field in fields.items() if "Path" in str(field.annotation)}
    assert of_paths <= named | {"data_dir", "dev_control"}
    return {f"HEADRACE_{one.upper()}" for one in named}


def mounted(name: str, component: str) -> dict[str, str]:
    """Return where each file of a component's Secrets and ConfigMaps is from, by its path."""
    found = dict[str, str]()
    [one], volumes = pod(name, component)["containers"], pod(name, component)["volumes"]
    folders = {mount["name"]: mount["mountPath"] for mount in one["volumeMounts"]}
    assert folders.keys() == {volume["name"] for volume in volumes}
    for volume in volumes:
        source = volume.get("secret") or volume.get("configMap") or {}
        origin = source.get("secretName") or source.get("name")
        for item in source.get("items", [{"key": "*", "path": "*"}]):
            found[f"{folders[volume['name']]}/{item['path']}"] = f"{origin}/{item['key']}"
    return found


@every_set
def test_each_file_that_a_setting_names_is_mounted(name: str) -> None:
    components = of_kind(name, "Deployment")
    assert len(components) >= 4
    for component in components:
        paths = mounted(name, component)
        for variable in files_of(role_of(component)) & told(name, component).keys():
            for path in told(name, component)[variable].split(","):
                folder = path.rpartition("/")[0]
                assert path in paths or f"{folder}/*" in paths, variable


@every_set
def test_no_volume_is_mounted_of_which_no_setting_names_a_file(name: str) -> None:
    components = of_kind(name, "Deployment")
    assert len(components) >= 4
    for component in components:
        stated = ",".join(told(name, component).values()).split(",")
        for path in mounted(name, component).keys() - {"/tmp/*"}:  # noqa: S108 - of a pod
            folder = path.removesuffix("*")
            assert path in stated or any(one.startswith(folder) for one in stated), path


def test_values_mount_the_files_of_each_setting() -> None:
    values = values_of("files")
    given = {
        "gateway": values["gateway"]["files"],
        "task-state": values["taskState"]["files"],
        "triggers": values["triggers"]["files"],
        "worker": values["workers"]["worker"]["files"],
    }
    used = {*values["files"], *(one for of in given.values() for one in of)}
    every = set().union(*(files_of(role_of(component)) for component in given))
    assert every == used
    for component, own in given.items():
        paths, stated = mounted("files", component), told("files", component)
        fleets = dict(values["files"])
        if component != "triggers":
            # Others have logins of their own.
            del fleets["HEADRACE_NATS_TOKEN_FILE"]
        for variable, files in (fleets | own).items():
            origins = [
                f"{one.get('secret') or one['configMap']}/{one['key']}"
                for one in (files if isinstance(files, list) else [files])
            ]
            assert [paths[path] for path in stated[variable].split(",")] == origins


def test_gateways_reach_what_the_values_add_to_dns_and_nats() -> None:
    ports = {
        name: [
            one["port"]
            for rule in of_kind(name, "NetworkPolicy")["gateway"]["spec"]["egress"]
            for one in rule["ports"]
        ]
        for name in ("default", "files")
    }
    assert ports == {"default": [53, 53, 4222], "files": [53, 53, 4222, 4318]}


def test_a_login_of_a_services_own_replaces_that_of_all() -> None:
    logins = {
        component: {
            one.removeprefix("HEADRACE_NATS_")
            for one in told("files", component)
            if re.fullmatch("HEADRACE_NATS_(USER|PASSWORD|TOKEN|NKEY|CREDS)(_FILE)?", one)
        }
        for component in of_kind("files", "Deployment")
    }
    assert logins == {
        "gateway": {"CREDS_FILE"},
        "task-state": {"NKEY_FILE"},
        "triggers": {"TOKEN_FILE"},
        "worker": {"USER_FILE", "PASSWORD_FILE"},
    }


def test_a_group_of_workers_has_its_own_image_agents_and_settings() -> None:
    own = container("keda", "shop")
    assert own["image"] == "registry.example/shop:7"
    assert own["args"] == ["worker", "shop.agents:agents"]
    assert told("keda", "shop")["HEADRACE_CONCURRENCY"] == "100"
    assert "HEADRACE_CONCURRENCY" not in told("keda", "desk")
    assert container("keda", "desk")["image"].startswith("registry.example/headrace@sha256:")
    assert told("keda", "desk")["HEADRACE_NATS_USER"] == "desk-user"


def test_numbers_are_written_as_services_read_them() -> None:
    values = values_of("default") | {"config": {"HEADRACE_EVENTS_MAX_BYTES": 200_000_000_000}}
    values["gateway"] = {
        "config": {"HEADRACE_MAX_BODY_BYTES": 10_000_000, "HEADRACE_SWEEP_AFTER": 0.5}
    }
    values["gateway"]["autoscaling"] = {"by": "keda", "streamsPerReplica": 1_000_000}
    values["workers"]["worker"]["drainSeconds"] = 1_000_000
    made = {(one["kind"], one["metadata"]["name"]): one for one in render(values)}
    shared = made["ConfigMap", f"{RELEASE}-config"]["data"]
    assert shared["HEADRACE_EVENTS_MAX_BYTES"] == "200000000000"
    gateway, worker = (environment(made["Deployment", f"{RELEASE}-{one}"]) for one in SCALED)
    assert gateway["HEADRACE_MAX_BODY_BYTES"] == "10000000"
    assert gateway["HEADRACE_SWEEP_AFTER"] == "0.5"
    assert worker["HEADRACE_DRAIN_SECONDS"] == "1000000"
    [trigger] = made["ScaledObject", f"{RELEASE}-gateway"]["spec"]["triggers"]
    assert trigger["metadata"]["threshold"] == "1000000"


SCHEDULING: dict[str, Any] = {
    "nodeSelector": {"pool": "agents"},
    "tolerations": [{"key": "gpu", "operator": "Exists", "effect": "NoSchedule"}],
    "affinity": {
        "podAntiAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [
                {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {}}}
            ]
        }
    },
}


def test_values_choose_the_nodes_of_every_component() -> None:
    values = values_of("nats")
    of_workers = values["workers"]["worker"] | SCHEDULING
    own = {name: values.get(name, {}) | SCHEDULING for name in COMPONENTS}
    made = render(values | own | {"workers": {"worker": of_workers}})
    pods = {
        one["metadata"]["name"].removeprefix(f"{RELEASE}-"): one["spec"]["template"]["spec"]
        for one in made
        if one["kind"] in {"Deployment", "StatefulSet"}
    }
    assert set(pods) == {"gateway", "task-state", "triggers", "worker", "nats", "valkey"}
    assert all(one.items() >= SCHEDULING.items() for one in pods.values())
    for one in made:
        kubernetes_validate.validate(one, VERSIONS[-1], strict=True)


def test_variables_of_others_come_from_secrets() -> None:
    values = values_of("keda")
    values["secretEnv"] = {"OTEL_EXPORTER_OTLP_HEADERS": {"secret": "collector", "key": "headers"}}
    values["workerDefaults"] = {"secretEnv": {"API_KEY": {"secret": "models", "key": "all"}}}
    values["workers"]["shop"]["secretEnv"] = {"API_KEY": {"secret": "models", "key": "shop"}}
    values["workers"]["desk"]["config"] = {"OTEL_EXPORTER_OTLP_HEADERS": "api-key=none"}
    found = dict[str, dict[str, str]]()
    for one in render(values):
        if one["kind"] == "Deployment":
            kubernetes_validate.validate(one, VERSIONS[-1], strict=True)
            [own] = one["spec"]["template"]["spec"]["containers"]
            names = [variable["name"] for variable in own["env"]]
            assert len(set(names)) == len(names)
            secrets = {
                variable["name"]: variable["valueFrom"]["secretKeyRef"]
                for variable in own["env"]
                if "valueFrom" in variable
            }
            name = one["metadata"]["name"].removeprefix(f"{RELEASE}-")
            found[name] = {of: f"{at['name']}/{at['key']}" for of, at in secrets.items()}
    shared = {"OTEL_EXPORTER_OTLP_HEADERS": "collector/headers"}
    assert found == {
        **dict.fromkeys(("gateway", "task-state", "triggers"), shared),
        "shop": {"API_KEY": "models/shop", **shared},
        "desk": {"API_KEY": "models/all", **shared},
    }


def test_valkey_is_rendered_only_if_enabled() -> None:
    kinds = ("StatefulSet", "Service", "ConfigMap", "NetworkPolicy")
    assert all("valkey" in of_kind("valkey", kind) for kind in kinds)
    assert not any("valkey" in of_kind("default", kind) for kind in kinds)


def test_services_use_the_charts_own_valkey() -> None:
    service = of_kind("valkey", "Service")["valkey"]
    [port] = service["spec"]["ports"]
    url = f"redis://{service['metadata']['name']}:{port['port']}/0"
    assert told("valkey", "task-state")["HEADRACE_REDIS_URL"] == url
    assert told("default", "task-state")["HEADRACE_REDIS_URL"] == "redis://valkey:6379/0"
    pods = of_kind("valkey", "StatefulSet")["valkey"]["spec"]["template"]
    assert service["spec"]["selector"].items() <= pods["metadata"]["labels"].items()
    [one] = pods["spec"]["containers"]
    [password] = one["env"]
    secret = password["valueFrom"]["secretKeyRef"]["name"]
    assert {"name": "redis", "secret": {"secretName": secret}} in pod("valkey", "task-state")[
        "volumes"
    ]


def test_the_charts_own_valkey_is_configured_like_that_of_compose() -> None:
    def directives(text: str) -> set[str]:
        return {line for line in text.splitlines() if line and not line.startswith("#")}

    own = of_kind("valkey", "ConfigMap")["valkey"]["data"]["valkey.conf"]
    assert directives(own) == directives((ROOT / "deploy" / "valkey.conf").read_text())


@pytest.mark.parametrize(
    "wrong",
    [
        {"gatway": {}},
        {"gateway": {"autoscaling": {"by": "streams"}}},
        {"config": {"NATS_URL": "nats://nats:4222"}},
        {"workers": {"gateway": {"target": "shop:agents"}}},
        {"workers": {"shop": {}}},
        {"workers": {"valkey": {"target": "shop:agents"}}},
        {"workers": {"nats": {"target": "shop:agents"}}},
        {"files": {"QUOTAS": {"secret": "a", "key": "b"}}},
        {"files": {"HEADRACE_QUOTAS": "/quotas.toml"}},
        {"files": {"HEADRACE_QUOTAS": {"secret": "a"}}},
        {"files": {"HEADRACE_QUOTAS": {"secret": "a", "configMap": "b", "key": "c"}}},
        {"gateway": {"files": {"HEADRACE_QUOTAS": {"secret": "a", "key": "../b"}}}},
        {"secretEnv": {"API_KEY": "plain"}},
        {"secretEnv": {"HEADRACE_NATS_PASSWORD": {"secret": "a", "key": "b"}}},
        {"taskState": {"secretEnv": {"API-KEY": {"secret": "a", "key": "b"}}}},
    ],
)
def test_wrong_values_are_refused(wrong: dict[str, Any]) -> None:
    assert render(values_of("default"))
    with pytest.raises(Exception, match="schema"):
        render(wrong)


@pytest.mark.parametrize("by", ["cpu", "keda"])
def test_an_autoscaler_with_more_than_its_most_replicas_is_refused(by: str) -> None:
    values = values_of("default")
    values["workers"]["worker"]["autoscaling"] = {"by": by, "max": 1}
    with pytest.raises(
        Exception, match=r"worker: autoscaling\.min is 2, more than autoscaling\.max, 1"
    ):
        render(values)
    values["workers"]["worker"]["autoscaling"] = {"by": "none", "max": 1}
    assert render(values)


def test_what_tries_the_chart_makes_each_secret_and_asks_the_service_that_there_is() -> None:
    script = (ROOT / "deploy" / "try-chart").read_text()
    made = set(re.findall(r"headrace-(?:nats-[a-z-]+|redis|credentials)", script))
    manifests = yaml.safe_dump_all(render(values_of("kind")))
    assert made == set(re.findall(r"headrace-(?:nats-[a-z-]+|redis|credentials)", manifests))
    [service] = re.findall(r"^SERVICE=(\S+)", script, re.MULTILINE)
    services = [one for one in render(values_of("kind")) if one["kind"] == "Service"]
    assert service in [one["metadata"]["name"] for one in services]
    syntax = ["bash", "-n", str(ROOT / "deploy" / "try-chart")]
    subprocess.run(syntax, check=True)
