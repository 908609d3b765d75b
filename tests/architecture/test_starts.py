"""What a process does not use, it does not import: what each has imported when it is ready."""

import re
import subprocess
from pathlib import Path

import pytest

from tests.support import extra_services
from tests.support.deployment import get
from tests.support.forked_process import HEADRACE
from tests.support.servers import NatsProcess, ValkeyProcess, ports
from tests.support.service_process import ServiceProcess

_IMPORT = re.compile(r"^import time: +\d+ \| +\d+ \| +([\w.]+)$", re.MULTILINE)

PROFILED = {"PYTHONPROFILEIMPORTTIME": "1"}
"""Makes Python write each import to stderr, which is the process's log."""

NEVER = (
    "dotenv",
    "google.adk",
    "httpx",
    "langgraph",
    "mcp",
    "openai",
    "opentelemetry.exporter",
    "pydantic_ai",
    "pydantic_settings",
    "pytest",
    "rich",
    "watchfiles.main",  # uvicorn's, which looks for `watchfiles`
)

NOT_AT_START = {
    "gateway": (
        "a2a.client",
        "a2a.compat.v0_3.types",  # with the first request in 0.3, or the first card
        "ag_ui",  # with the first AG-UI request
        "faststream",
        "headrace_gateway.protocols.agui.endpoint",  # as ag_ui
        "headrace_gateway.protocols.mcp.endpoint",  # with the first request of MCP
        "mcp_types",  # as its endpoint
        "headrace_gateway.protocols.ai_sdk.endpoint",  # with the first message to a chat
        "jwt",  # with the first signed card, or for an issuer of tokens
        "opentelemetry.sdk",
        "redis",
        "websockets",  # with the first WebSocket
        "yaml",
    ),
    "worker": (
        "a2a",
        "ag_ui",
        "cryptography",  # for NKeys
        "faststream",
        "google.protobuf",
        "grpc",
        "headrace.adapters",  # with the agents that use them
        "headrace_worker.config",  # for `--config` alone
        "jwt",
        "opentelemetry.sdk",
        "redis",
        "starlette",
        "uvicorn",
        "yaml",
    ),
    "task-state": (
        "a2a",  # with the first notification in 0.3
        "ag_ui",
        "google.protobuf",
        "grpc",
        "httpcore",  # with the first notification
        "jwt",  # as httpcore
        "opentelemetry.metrics._internal",  # redis-py's, which looks for `opentelemetry.metrics`
        "opentelemetry.sdk.resources",
        "uvicorn.config",  # FastStream's, which looks for `uvicorn`
        "yaml",
    ),
    "triggers": (
        "a2a",
        "ag_ui",
        "cryptography",  # for NKeys
        "google.protobuf",
        "grpc",
        "httpcore",
        "jwt",
        "opentelemetry.sdk",
        "redis",
        "starlette",
        "uvicorn.config",  # as for task state
        "yaml",
    ),
}
"""Modules, with what is below them, that are large or another process's."""

_ARGUMENTS = {
    "worker": ["worker", "headrace.demo:agents"],
    "triggers": ["triggers", "serve"],
}
"""Of the command line, where a service's name is not all."""

NOT_FOR_DEV = ("cryptography", "dotenv", "httpx", "nats", "prometheus_client", "pydantic_settings")

NOT_FOR_HELP = ("asyncio", "headrace", "nats", "orjson", "pydantic", "uvloop")


def process(name: str, folder: Path, nats: NatsProcess, valkey: ValkeyProcess) -> ServiceProcess:
    if name == "gateway":
        return extra_services.gateway(folder, nats.url, **PROFILED)[0]
    port = ports.pick()
    environment = {
        "HEADRACE_NATS_URL": nats.url,
        "HEADRACE_REDIS_URL": valkey.url,
        "HEADRACE_METRICS_PORT": str(port),
        **PROFILED,
    }
    arguments = _ARGUMENTS.get(name, [name])
    return ServiceProcess(
        name, folder, arguments, environment, lambda: get(f"127.0.0.1:{port}", "/readyz")[0] == 200
    )


def imported(log: str) -> set[str]:
    found = set(_IMPORT.findall(log))
    assert {"click", "headrace_cli.main"} <= found
    return found


def below(modules: set[str], names: tuple[str, ...]) -> list[str]:
    return sorted(
        module for module in modules if any(f"{module}.".startswith(f"{name}.") for name in names)
    )


@pytest.mark.parametrize("name", NOT_AT_START)
def test_a_service_that_is_ready_has_imported_nothing_for_later(
    name: str, nats_server: NatsProcess, valkey: ValkeyProcess, tmp_path: Path
) -> None:
    with process(name, tmp_path, nats_server, valkey) as service:
        modules = imported(service.log.read_text())
    assert below(modules, ("nats",))
    assert below(modules, NOT_AT_START[name] + NEVER) == []


def run(*arguments: str, **environment: str) -> tuple[str, set[str]]:
    """Run a command, and return what it wrote to stdout and what it imported."""
    done = subprocess.run(
        [HEADRACE, *arguments],
        env=PROFILED | environment,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout, imported(done.stderr)


def test_help_imports_no_command() -> None:
    output, modules = run("--help")
    assert "nats-permissions" in output
    assert below(modules, NOT_FOR_HELP) == []


def test_the_development_stack_starts_without_a_client_of_nats() -> None:
    output, modules = run("dev", "--help")
    assert "--ephemeral" in output
    assert below(modules, NOT_FOR_DEV) == []


def test_commands_import_their_http_client_without_its_command_line() -> None:
    _, modules = run("agents", "--url", "http://127.0.0.1:1")
    assert "httpx" in modules
    assert below(modules, ("pygments", "rich")) == []
