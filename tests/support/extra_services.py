"""Services that tests add to the shared stack: other agents, other routes to NATS."""

import json
from pathlib import Path

from tests.support.compose_file import ROOT
from tests.support.deployment import get
from tests.support.servers import ports
from tests.support.service_process import ServiceProcess


def worker(folder: Path, agents: str, nats_url: str, module: str = "agents") -> ServiceProcess:
    """Return a worker for `agents` of a module of `tests.support`; it is ready once it runs."""
    environment = {"HEADRACE_NATS_URL": nats_url, "PYTHONPATH": str(ROOT)}
    arguments = ["worker", f"tests.support.{module}:{agents}"]
    return ServiceProcess("worker", folder, arguments, environment, lambda: True)


def gateway(folder: Path, nats_url: str, **settings: str) -> tuple[ServiceProcess, str]:
    """Return a gateway on a free port, and its URL; more settings go by their variables."""
    port = ports.pick()
    environment = {
        "HEADRACE_NATS_URL": nats_url,
        "HEADRACE_HTTP_PORT": str(port),
        "HEADRACE_GRPC_PORT": str(ports.pick()),
        **settings,
    }
    address = f"127.0.0.1:{port}"
    process = ServiceProcess(
        "gateway", folder, ["gateway"], environment, lambda: get(address, "/readyz")[0] == 200
    )
    return process, f"http://{address}"


def is_served(gateways: list[str], agent: str) -> bool:
    """Tell whether every one of `gateways` knows a live worker of `agent`."""
    return all(_is_served_at(url, agent) for url in gateways)


def _is_served_at(url: str, agent: str) -> bool:
    status, body = get(url.removeprefix("http://"), "/v1/agents")
    found = json.loads(body)["agents"] if status == 200 else []
    return any(each["name"] == agent and each["available"] for each in found)
