"""What `docker-compose.yml` and `deploy/` ship works: every command line, every file."""

import json
import os
import re
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import grpc
import httpx
import nats
import pytest
import yaml
from nats.aio.client import Client

from headrace.model.queues import DEFAULT_TENANT
from headrace_cli.nats_permissions import DEMO, configuration
from headrace_gateway.server import open_requests
from headrace_gateway.server.endpoints import IndexedHeaders
from headrace_gateway.server.origin import Origins
from headrace_gateway.settings import GatewaySettings
from headrace_gateway.streaming import open_streams
from headrace_gateway.timing import TIMING
from headrace_worker.settings import WorkerSettings
from tests.support.announced import instances
from tests.support.compose_file import COMPOSE_FILE, PASSWORDS, ROOT, ComposeService, load
from tests.support.deployment import Deployment, get
from tests.support.event_stream import Json, all_frames
from tests.support.plain_a2a import PlainAgent
from tests.support.plain_http import NO_TLS
from tests.support.waiting import eventually, until

DOCKERFILE = (ROOT / "deploy" / "Dockerfile").read_text()
PROXY = (ROOT / "deploy" / "nginx.conf").read_text()
DRAIN = "HEADRACE_DRAIN_SECONDS"
DEMO_AGENTS = ["assistant", "counter", "echo"]


@pytest.fixture(scope="module")
def deployment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    with Deployment(tmp_path_factory.mktemp("deployment")) as running:

        def all_are_there() -> bool:
            return all(available_agents(url) == DEMO_AGENTS for url in running.gateway_urls)

        until(all_are_there, "both gateways know the demo agents")
        yield running


@pytest.fixture(scope="module")
def services() -> dict[str, ComposeService]:
    return load()


@pytest.fixture
async def http(deployment: Deployment) -> AsyncIterator[httpx.AsyncClient]:
    mine = {"Authorization": f"Bearer {deployment.token}"}
    async with httpx.AsyncClient(timeout=60, headers=mine, verify=NO_TLS) as client:
        yield client


def available_agents(gateway: str) -> list[str]:
    status, body = get(gateway.removeprefix("http://"), "/v1/agents")
    agents = json.loads(body)["agents"] if status == 200 else []
    return sorted(agent["name"] for agent in agents if agent["available"])


def test_the_fleet_is_two_of_each_service(services: dict[str, ComposeService]) -> None:
    assert {name: service.replicas for name, service in services.items()} == {
        "proxy": 1,
        "gateway": 2,
        "worker": 2,
        "task-state": 2,
        "triggers": 2,
        "nats-volume": 1,
        "nats": 1,
        "valkey": 1,
    }


def test_one_image_runs_all_services(services: dict[str, ComposeService]) -> None:
    ours = [service for service in services.values() if service.build]
    served = {"gateway", "worker", "task-state", "triggers"}
    assert {service.name for service in ours} == served | {"nats-volume"}
    assert {service.image for service in ours} == {"headrace"}
    assert all((ROOT / service.build["dockerfile"]).is_file() for service in ours)
    assert 'ENTRYPOINT ["headrace"]' in DOCKERFILE


def test_the_image_installs_by_hash_and_runs_without_privileges() -> None:
    assert "--require-hashes --requirement requirements.txt" in DOCKERFILE
    assert re.search(r"^USER (?!0\b|root)\S+$", DOCKERFILE, re.MULTILINE)


def test_no_server_has_roots_capabilities() -> None:
    declared = yaml.safe_load(COMPOSE_FILE.read_text())["services"]
    free = [
        name
        for name, service in declared.items()
        if service.get("cap_drop") != ["ALL"]
        or service.get("security_opt") != ["no-new-privileges:true"]
        or "cap_add" in service
    ]
    assert (len(declared), free) == (8, [])


def test_no_server_is_root() -> None:
    declared = yaml.safe_load(COMPOSE_FILE.read_text())["services"]
    # Headrace's image has a user of its own.
    users = {
        name: service.get("user") for name, service in declared.items() if "build" not in service
    }
    assert users == {"proxy": "101:101", "valkey": "999:1000", "nats": "10001:10001"}
    chart = (ROOT / "deploy" / "helm" / "headrace" / "templates" / "valkey.yaml").read_text()
    assert "runAsUser: 999" in chart
    assert "runAsGroup: 1000" in chart


def test_nats_starts_once_its_volume_is_checked() -> None:
    declared = yaml.safe_load(COMPOSE_FILE.read_text())["services"]
    nats, check = declared["nats"], declared["nats-volume"]
    waits = {"nats-volume": {"condition": "service_completed_successfully"}}
    assert nats["depends_on"] == waits
    assert nats["volumes"][-1] == check["volumes"][0] == "nats:/data"
    assert (check["network_mode"], check["restart"]) == ("none", "no")


def test_a_new_volume_belongs_to_the_user_of_nats() -> None:
    declared = yaml.safe_load(COMPOSE_FILE.read_text())["services"]
    # An empty volume gets the owner of the folder in the image that it is first mounted over.
    owner = re.search(r"--owner (\d+) --group (\d+) /data$", DOCKERFILE, re.MULTILINE)
    user = re.search(r"^USER (\d+):(\d+)$", DOCKERFILE, re.MULTILINE)
    assert owner is not None
    assert user is not None
    assert owner.groups() == user.groups() == tuple(declared["nats"]["user"].split(":"))


def test_a_volume_of_another_user_is_refused(
    services: dict[str, ComposeService], tmp_path: Path
) -> None:
    declared = yaml.safe_load(COMPOSE_FILE.read_text())["services"]["nats-volume"]
    [script] = services["nats-volume"].command

    def checked(folder: str) -> subprocess.CompletedProcess[str]:
        command = [*declared["entrypoint"], script.replace("$$", "$").replace("/data", folder)]
        return subprocess.run(command, check=False, capture_output=True, text=True, timeout=60)

    own, foreign = checked(str(tmp_path)), checked(_foreign(tmp_path / "foreign"))
    assert (own.returncode, own.stderr) == (0, "")
    assert foreign.returncode == 1
    assert "the volume of NATS belongs to another user" in foreign.stderr


def _foreign(folder: Path) -> str:
    """Return a folder of another user's."""
    if os.geteuid() != 0:
        return "/"
    folder.mkdir()
    os.chown(folder, 10001, 10001)
    return str(folder)


def test_the_proxy_writes_only_below_tmp() -> None:
    written = re.findall(r"^\s*(?:pid|\w+_temp_path) (\S+);", PROXY, re.MULTILINE)
    assert len(written) == 6
    assert [path for path in written if not path.startswith("/tmp/")] == []  # noqa: S108 - the container's own


def test_everything_that_the_image_copies_exists() -> None:
    context = DOCKERFILE.partition("COPY --from")[0]
    copied = [line.split()[1:-1] for line in context.splitlines() if line.startswith("COPY")]
    names = [name for line in copied for name in line]
    assert "shared" in names
    assert [name for name in names if not (ROOT / name).exists()] == []
    let_in = (ROOT / "deploy" / "Dockerfile.dockerignore").read_text().splitlines()
    assert [name for name in names if f"!{name}" not in let_in] == []


def test_every_service_has_longer_to_end_in_than_it_takes(
    services: dict[str, ComposeService],
) -> None:
    drain = WorkerSettings(drain_seconds=float(services["worker"].environment[DRAIN]))
    needed = {
        "gateway": open_streams.CLOSE_TIMEOUT + open_requests.GRACE + TIMING.drain,
        "worker": drain.drain_seconds + drain.cleanup_seconds,
    }
    assert [role for role, most in needed.items() if services[role].grace <= most] == []


def test_every_file_that_is_mounted_exists(services: dict[str, ComposeService]) -> None:
    mounted = [path for service in services.values() for path in service.files.values()]
    assert len(mounted) == 4
    assert [path for path in mounted if not path.is_file()] == []


def test_the_servers_are_out_of_reach_from_outside(services: dict[str, ComposeService]) -> None:
    assert services["nats"].networks == services["valkey"].networks == ("bus",)
    assert services["nats"].ports == services["valkey"].ports == ()
    assert "bus" not in services["proxy"].networks


def test_agents_and_webhooks_can_call_what_is_outside(services: dict[str, ComposeService]) -> None:
    for name in ("worker", "task-state"):
        assert "outside" in services[name].networks


@pytest.mark.parametrize(
    ("upstream", "variable"),
    [("gateways", "HEADRACE_HTTP_PORT"), ("grpc_gateways", "HEADRACE_GRPC_PORT")],
)
def test_the_proxy_leads_to_the_gateways(
    services: dict[str, ComposeService], upstream: str, variable: str
) -> None:
    block = re.search(rf"upstream {upstream} \{{(.*?)\}}", PROXY, re.DOTALL)
    assert block is not None
    server = re.search(r"server (\S+):(\d+) resolve", block[1])
    assert server is not None
    name, port = server.groups()
    assert services[name].environment[variable] == port
    assert set(services[name].networks) >= set(services["proxy"].networks)
    assert re.search(rf"(proxy|grpc)_pass \w+://{upstream};", PROXY)


def test_the_proxy_is_reached_at_every_port_that_it_listens_on(
    services: dict[str, ComposeService],
) -> None:
    listening = re.findall(r"listen (\d+);", PROXY)
    assert len(listening) == 2
    assert [port.rpartition(":")[2] for port in services["proxy"].ports] == listening


def test_the_proxy_takes_what_the_gateways_take_and_holds_nothing_back() -> None:
    limit = re.search(r"client_max_body_size (\d+);", PROXY)
    output = re.search(r"exceeds the limit of (\d+) bytes", PROXY)
    assert limit is not None
    assert output is not None
    most = GatewaySettings.model_fields["max_body_bytes"].default
    assert int(limit[1]) == int(output[1]) == most
    assert "proxy_buffering off;" in PROXY


def test_the_proxys_own_errors_have_the_shape_of_the_gateways() -> None:
    bodies = [json.loads(body) for body in re.findall(r"return \d+ '(.*)';", PROXY)]
    assert [sorted(body["error"]) for body in bodies] == [["code", "message", "status"]] * 2
    assert f"grpc-status {grpc.StatusCode.UNAVAILABLE.value[0]};" in PROXY


def test_variables_choose_agents_and_address() -> None:
    chosen = load(
        {
            "HEADRACE_AGENTS": "mine:agents",
            "HEADRACE_HTTP_PORT": "9000",
            "HEADRACE_GRPC_PORT": "9001",
        }
    )
    assert chosen["worker"].command == ["worker", "mine:agents"]
    assert chosen["proxy"].ports == ("127.0.0.1:9000:8080", "127.0.0.1:9001:50051")
    assert chosen["gateway"].environment["HEADRACE_PUBLIC_URL"] == "http://localhost:9000"
    assert chosen["gateway"].environment["HEADRACE_PUBLIC_GRPC"] == "localhost:9001"


def test_every_gateway_becomes_ready(deployment: Deployment) -> None:
    statuses = [get(url.removeprefix("http://"), "/readyz")[0] for url in deployment.gateway_urls]
    assert statuses == [200, 200]


async def test_cards_name_the_address_of_the_proxy(
    deployment: Deployment, services: dict[str, ComposeService], http: httpx.AsyncClient
) -> None:
    public = services["gateway"].environment["HEADRACE_PUBLIC_URL"]
    assert services["proxy"].ports[0].split(":")[1] == public.rpartition(":")[2]
    card = (await http.get(f"{deployment.gateway_urls[0]}/.well-known/agent-card.json")).json()
    urls = {i["protocolBinding"]: i["url"] for i in card["supportedInterfaces"]}
    assert urls.pop("GRPC") == services["gateway"].environment["HEADRACE_PUBLIC_GRPC"]
    assert urls
    assert all(url.startswith(f"{public}/") for url in urls.values())


def test_a_gateway_goes_by_no_name_but_its_own(
    services: dict[str, ComposeService], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in services["gateway"].environment.items():
        monkeypatch.setenv(name, value)
    origins = Origins(GatewaySettings())
    assert origins.refusal(IndexedHeaders([(b"host", b"localhost:8080")])) == ""
    assert origins.refusal(IndexedHeaders([(b"host", b"127.0.0.1:8080")])) == ""
    assert origins.refusal(IndexedHeaders([(b"host", b"evil.example:8080")])) != ""


@pytest.mark.parametrize("role", ["gateway", "worker", "task-state", "triggers"])
def test_every_services_health_check_passes_whatever_the_agents_modules_are_called(
    deployment: Deployment, role: str, tmp_path: Path
) -> None:
    for module in ("socket", "urllib"):
        (tmp_path / f"{module}.py").write_text("raise SystemExit('this is an agent')")
    kind, program, *arguments = deployment.services[role].healthcheck
    assert (kind, program) == ("CMD", "python")
    urls = deployment.health_urls(role)
    assert len(urls) == deployment.services[role].replicas
    for url in urls:
        port = url.rpartition(":")[2]
        there = [argument.replace("8080", port) for argument in arguments]
        assert port in there[-1]

        def passes(command: list[str] = there) -> bool:
            checked = subprocess.run(
                [sys.executable, *command], check=False, timeout=60, cwd=tmp_path
            )
            return checked.returncode == 0

        until(passes, f"the health check of a {role} passes")


def test_a_health_check_fails_where_nothing_is_ready(services: dict[str, ComposeService]) -> None:
    [_, _, *arguments] = services["gateway"].healthcheck
    with socket.create_server(("127.0.0.1", 0)) as server, ThreadPoolExecutor() as pool:
        port = str(server.getsockname()[1])
        command = [argument.replace("8080", port) for argument in arguments]
        checked = pool.submit(
            subprocess.run, [sys.executable, *command], check=False, capture_output=True, timeout=60
        )
        connection, _ = server.accept()
        with connection:
            assert connection.recv(4096).startswith(b"GET /readyz HTTP/1.1\r\nHost: 127.0.0.1\r\n")
            connection.sendall(b"HTTP/1.1 503 Service Unavailable\r\n\r\n")
        assert checked.result(60).returncode == 1


def test_valkey_does_not_start_without_its_configuration(
    services: dict[str, ComposeService], tmp_path: Path
) -> None:
    shell, option, script = services["valkey"].command
    script = re.sub(r"/(etc|tmp)/", rf"{tmp_path}/\1-", script.replace("$$", "$"))
    command = [shell, option, script]
    started = tmp_path / "started"
    entry = tmp_path / "docker-entrypoint.sh"
    entry.write_text(f"#!/bin/sh\necho $* > {started}\n")
    entry.chmod(0o755)
    environment = {"PATH": f"{tmp_path}:/usr/bin:/bin", "REDISCLI_AUTH": "secret"}

    def starts() -> bool:
        subprocess.run(command, env=environment, check=False, capture_output=True, timeout=60)
        return started.exists()

    assert not starts()
    (tmp_path / "etc-valkey").mkdir()
    (tmp_path / "etc-valkey" / "valkey.conf").write_text("maxmemory 1gb\n")
    assert starts()
    made = tmp_path / "tmp-valkey.conf"
    assert made.read_text() == "maxmemory 1gb\nrequirepass secret\n"


def test_every_worker_announces_its_agents(deployment: Deployment) -> None:
    url = deployment.nats.url("operator")
    until(lambda: len(instances(url, "echo")) == 2, "both workers have announced echo")


async def test_task_state_follows(deployment: Deployment) -> None:
    url = deployment.nats.url("operator")
    async with await nats.connect(url, inbox_prefix="_INBOX.operator") as client:

        async def follows() -> bool:
            return bool((await ask(client, "headrace.state.ready")).get("following"))

        await eventually(follows, "task state follows")


async def test_a_message_to_one_gateway_is_read_from_the_other(
    deployment: Deployment, http: httpx.AsyncClient
) -> None:
    first, second = deployment.gateway_urls
    async with PlainAgent(http, first, "counter").stream("3") as response:
        frames = await all_frames(response)
    assert frames[-1].state == "COMPLETED"
    found = await PlainAgent(http, second, "counter").get(frames[0].event["task"]["id"])
    assert found.json()["status"]["state"] == "TASK_STATE_COMPLETED"


def test_the_shipped_accounts_are_those_of_the_code() -> None:
    shipped = (ROOT / "deploy" / "nats-accounts.conf").read_text()
    made = configuration((DEMO,), (DEFAULT_TENANT,))
    assert shipped == made, "run: headrace nats-permissions > deploy/nats-accounts.conf"


def test_the_shipped_nats_accepts_no_login_without_a_password(deployment: Deployment) -> None:
    with socket.create_connection(("127.0.0.1", deployment.nats.port), timeout=30) as connection:
        connection.recv(4096)
        connection.sendall(b'CONNECT {"verbose":false}\r\nPING\r\n')
        assert b"Authorization Violation" in connection.recv(4096)


def test_passwords_are_made_once(tmp_path: Path, services: dict[str, ComposeService]) -> None:
    file = tmp_path / ".env"
    file.write_text("HEADRACE_NATS_WORKER_PASSWORD=chosen\n")
    for _ in range(2):
        subprocess.run([ROOT / "deploy" / "passwords", file], check=True, timeout=60)
    made = dict(line.split("=") for line in file.read_text().splitlines())
    others = {"HEADRACE_REDIS_PASSWORD", "HEADRACE_TOKEN"}
    passwords = services["nats"].environment.keys() - {"GOMEMLIMIT"}
    assert made.keys() == passwords | others
    assert made["HEADRACE_NATS_WORKER_PASSWORD"] == "chosen"
    assert len(set(made.values())) == len(made)


def test_the_shipped_valkey_accepts_no_login_without_a_password(deployment: Deployment) -> None:
    with socket.create_connection(("127.0.0.1", deployment.valkey.port), timeout=30) as connection:
        connection.sendall(b"PING\r\n")
        assert connection.recv(4096).startswith(b"-NOAUTH")


def test_no_secret_is_on_a_command_line(deployment: Deployment) -> None:
    secrets = [*PASSWORDS.values(), deployment.token]
    assert all(secrets)
    servers = (deployment.nats, deployment.valkey, *deployment.gateways, *deployment.others)
    for server in servers:
        line = Path(f"/proc/{server.pid}/cmdline").read_text()
        assert [secret for secret in secrets if secret in line] == [], server.name
        log = server.log.read_text()
        assert [secret for secret in secrets if secret in log] == [], server.name


async def test_no_call_is_accepted_without_the_token(deployment: Deployment) -> None:
    async with httpx.AsyncClient(timeout=60, verify=NO_TLS) as stranger:
        sent = await stranger.post(
            f"{deployment.gateway_urls[0]}/v1/agents/echo/message:send", json={}
        )
    assert sent.status_code == 401


def test_gateways_find_their_credentials(services: dict[str, ComposeService]) -> None:
    [secret] = services["gateway"].secrets
    assert services["gateway"].environment["HEADRACE_CREDENTIALS"] == f"/run/secrets/{secret}"


def test_images_may_be_named_by_digest() -> None:
    digest = "sha256:" + "0" * 64
    names = {
        "gateway": "IMAGE",
        "proxy": "PROXY_IMAGE",
        "nats": "NATS_IMAGE",
        "valkey": "VALKEY_IMAGE",
    }
    chosen = load({f"HEADRACE_{name}": f"{name}@{digest}" for name in names.values()})
    assert {name: chosen[name].image for name in names} == {
        name: f"{image}@{digest}" for name, image in names.items()
    }
    assert len(re.findall(r"^FROM \$\{PYTHON_IMAGE\}", DOCKERFILE, re.MULTILINE)) == 2


async def test_no_service_has_tried_what_it_may_not(
    deployment: Deployment, http: httpx.AsyncClient
) -> None:
    sent = await PlainAgent(http, deployment.gateway_urls[0], "echo").send("hello")
    assert sent.json()["task"]["status"]["state"] == "TASK_STATE_COMPLETED"
    log = deployment.nats.log.read_text()
    assert [line for line in log.splitlines() if "Permissions Violation" in line] == []


def test_the_shipped_nats_syncs_every_write(deployment: Deployment) -> None:
    _, body = get(f"127.0.0.1:{deployment.nats.monitor_port}", "/jsz")
    assert json.loads(body)["config"]["sync_always"] is True


def test_every_containers_log_and_memory_are_limited() -> None:
    listed = yaml.safe_load(COMPOSE_FILE.read_text())["services"]
    assert set(listed) == set(load())
    logs = {name: one["logging"]["options"] for name, one in listed.items()}
    assert [name for name, one in logs.items() if not {"max-size", "max-file"} <= set(one)] == []
    memory = {name: one["deploy"]["resources"]["limits"]["memory"] for name, one in listed.items()}
    assert [name for name, limit in memory.items() if not re.fullmatch(r"\d+[mg]", limit)] == []
    valkey = (ROOT / "deploy" / "valkey.conf").read_text()
    [own] = re.findall(r"^maxmemory (\d+)gb$", valkey, re.MULTILINE)
    assert int(own) <= int(memory["valkey"].removesuffix("g")) / 2


def test_the_shipped_valkey_evicts_nothing_and_keeps_its_data(deployment: Deployment) -> None:
    assert deployment.valkey.ask("CONFIG GET maxmemory-policy") == "noeviction"
    assert deployment.valkey.ask("CONFIG GET maxmemory") == str(2**30)
    assert deployment.valkey.ask("CONFIG GET appendonly") == "yes"
    assert any(Path(deployment.valkey.folder, "appendonlydir").iterdir())


async def ask(client: Client, subject: str) -> Json:
    answer: Json = json.loads((await client.request(subject, b"{}", timeout=30)).data)
    return answer
