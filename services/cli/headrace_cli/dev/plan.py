"""The processes of the development stack and their settings."""

import hashlib
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from headrace_cli.dev import prometheus
from headrace_cli.dev.child_process import ChildSpec
from headrace_cli.dev.nats_server import TIMER_SLACK, NatsServer
from headrace_cli.dev.ports import MetricsAddresses, Ports
from headrace_cli.dev.prometheus import PrometheusServer
from headrace_cli.dev.settings import DevSettings
from headrace_cli.dev.valkey_server import ValkeyServer

_LOOPBACK = {"0.0.0.0": "127.0.0.1", "::": "::1", "": "127.0.0.1"}  # noqa: S104  # compared, not bound

_PUBLIC_URL = "HEADRACE_PUBLIC_URL"

_NO_NEWS = (
    "[INF]",
    "Plaintext passwords detected",  # The one user has none: the server listens on loopback only.
    "Memory overcommit must be enabled",  # Matters for snapshots, which are off.
    "Received SIGTERM scheduling shutdown",
    "is now ready to exit",
)


@dataclass(frozen=True, slots=True)
class Plan:
    """A stack before its start: its servers, its services and its addresses."""

    nats: NatsServer | None
    """None where HEADRACE_NATS_URL names one."""
    valkey: ValkeyServer | None
    """None where HEADRACE_REDIS_URL names one."""
    nats_url: str
    redis_url: str
    gateway_urls: tuple[str, ...]
    services: tuple[ChildSpec, ...]
    metrics: MetricsAddresses | None
    """None unless services of all roles are observed."""
    prometheus: PrometheusServer | None
    """None where it is not wanted or not installed."""

    def workers(self, settings: DevSettings, running: Sequence[ChildSpec]) -> list[ChildSpec]:
        """Return the workers with the agents of `settings`, to start while `running` are there."""
        command = _worker(settings)
        specs = [replace(one, command=command) for one in self.services if one.role == "worker"]
        return specs if self.metrics is None else _observed(specs, self.metrics, running)

    def servers(self) -> list[tuple[NatsServer | ValkeyServer, ChildSpec]]:
        """Return the embedded servers and how each is started; write their configuration files.

        Raises:
            CannotStart: a server does not exist for this platform.
        """
        pairs: list[tuple[NatsServer | ValkeyServer, ChildSpec]] = []
        if self.nats is not None:
            command, port = tuple(self.nats.command()), self.nats.port
            environment = self.nats.environment(os.environ, os.cpu_count() or 1)
            spec = ChildSpec(
                "nats",
                0,
                command,
                environment,
                port=port,
                timer_slack=TIMER_SLACK,
                is_shown=_is_news,
            )
            pairs.append((self.nats, spec))
        if self.valkey is not None:
            command = tuple(self.valkey.command())
            spec = ChildSpec("redis", 0, command, port=self.valkey.port, is_shown=_is_news)
            pairs.append((self.valkey, spec))
        return pairs

    def observers(self) -> list[ChildSpec]:
        """Return how Prometheus is started, if it is; write its configuration file."""
        if self.prometheus is None:
            return []
        command, port = tuple(self.prometheus.command()), self.prometheus.port
        return [ChildSpec("prometheus", 0, command, port=port, is_shown=prometheus.is_news)]


def draw(settings: DevSettings, folder: Path, storage: Path, control: Path) -> Plan:
    """Return the plan for `settings`: configuration in `folder`, the servers' data in `storage`.

    Gateways reach the control socket at `control`.

    Raises:
        CannotStart: a requested port is taken.
    """
    http = Ports(settings.http_host)
    http_ports = http.claim(settings.http_port, settings.gateways, "--port (HEADRACE_HTTP_PORT)")
    grpc_ports = http.claim(settings.grpc_port, settings.gateways, "HEADRACE_GRPC_PORT")
    local = http if settings.http_host == "127.0.0.1" else Ports()
    nats, valkey = _embedded(settings, local, folder, storage)
    nats_url = nats.url if nats else settings.nats_url
    redis_url = valkey.url if valkey else settings.redis_url
    shared = {
        **_no_credentials("HEADRACE_NATS_", nats is not None),
        **_no_credentials("HEADRACE_REDIS_", valkey is not None),
        "HEADRACE_NATS_URL": nats_url,
        "HEADRACE_REDIS_URL": redis_url,
        **_of_all_services(settings, folder),
    }
    of_gateways = {"HEADRACE_DEV_CONTROL": str(control), **_default_agent(settings)}
    addresses = [f"{_reachable(settings.http_host)}:{port}" for port in http_ports]
    gateways = [
        replace(_gateway(shared | of_gateways, index, port, grpc), metrics=address)
        for index, (port, grpc, address) in enumerate(
            zip(http_ports, grpc_ports, addresses, strict=True)
        )
    ]
    others, metrics = _others(settings, shared, f"http://{addresses[0]}"), None
    if settings.observe:
        metrics = MetricsAddresses(local)
        others = _observed(others, metrics, ())
    return Plan(
        nats,
        valkey,
        nats_url,
        redis_url,
        gateway_urls=tuple(f"http://{address}" for address in addresses),
        services=(*others, *gateways),
        metrics=metrics,
        prometheus=_prometheus(settings, local, folder, storage),
    )


def _of_all_services(settings: DevSettings, folder: Path) -> dict[str, str]:
    """Return the variables that do not depend on the servers."""
    return {
        "HEADRACE_DATA_DIR": str(folder),
        "HEADRACE_PUSH_ALLOW": settings.push_allow,
        "HEADRACE_CORS_ORIGINS": settings.cors_origins,
        # All services can't share one port; the gateways serve their metrics at /metrics.
        "HEADRACE_METRICS_PORT": "0",
        "PYTHONUNBUFFERED": "1",
    }


def _embedded(
    settings: DevSettings, ports: Ports, folder: Path, storage: Path
) -> tuple[NatsServer | None, ValkeyServer | None]:
    nats = valkey = None
    if not settings.nats_url:
        nats = NatsServer(
            ports.pick(),
            folder / "nats",
            storage / "nats" / "data",
            name=f"headrace-{hashlib.sha256(str(folder).encode()).hexdigest()[:8]}",
            prefix=settings.prefix,
            sync_interval=settings.nats_sync_interval,
        )
    if not settings.redis_url:
        valkey = ValkeyServer(ports.pick(), folder / "valkey", storage / "valkey" / "data")
    return nats, valkey


def _prometheus(
    settings: DevSettings, ports: Ports, folder: Path, storage: Path
) -> PrometheusServer | None:
    program = prometheus.program_path() if settings.observe else None
    if program is None:
        return None
    return PrometheusServer(
        program,
        ports.pick(),
        prometheus.targets_in(folder),
        storage / "prometheus" / "data",
        settings.observe_rules,
    )


def _observed(
    specs: Sequence[ChildSpec], metrics: MetricsAddresses, running: Sequence[ChildSpec]
) -> list[ChildSpec]:
    """Return `specs` with addresses for their metrics that none of `running` has."""
    picked = metrics.pick(len(specs), {one.metrics for one in running})
    return [_at(address, spec) for address, spec in zip(picked, specs, strict=True)]


def _at(address: str, spec: ChildSpec) -> ChildSpec:
    """Return `spec` with its metrics at `address`."""
    host, _, port = address.partition(":")
    variables = {"HEADRACE_METRICS_HOST": host, "HEADRACE_METRICS_PORT": port}
    return replace(spec, environment={**spec.environment, **variables}, metrics=address)


def _no_credentials(prefix: str, is_embedded: bool) -> dict[str, str]:  # noqa: FBT001 - a fact
    """Return variables that hide this process's credentials from services of an embedded server."""
    names = [name for name in os.environ if name.startswith(prefix)]
    return dict.fromkeys(names, "") if is_embedded else {}


def _default_agent(settings: DevSettings) -> dict[str, str]:
    name = settings.default_agent
    return {"HEADRACE_DEFAULT_AGENT": name} if name else {}


def _gateway(shared: dict[str, str], index: int, port: int, grpc: int) -> ChildSpec:
    mine = {"HEADRACE_HTTP_PORT": str(port), "HEADRACE_GRPC_PORT": str(grpc)}
    if index:
        # All gateways can't share one port.
        mine["HEADRACE_EXTRA_HTTP_PORTS"] = ""
    return ChildSpec("gateway", index, _headrace("gateway"), shared | mine, port, grpc)


def _others(settings: DevSettings, environment: dict[str, str], address: str) -> list[ChildSpec]:
    # The webhooks of runs are at the first gateway, unless the user has another address.
    of_workers = {**environment, _PUBLIC_URL: os.environ.get(_PUBLIC_URL) or address}
    states = [
        ChildSpec("task-state", index, _headrace("task-state"), environment)
        for index in range(settings.task_states)
    ]
    triggers = [
        ChildSpec("triggers", index, _headrace("triggers", "serve"), environment)
        for index in range(settings.triggers)
    ]
    workers = [
        ChildSpec("worker", index, _worker(settings), of_workers)
        for index in range(settings.workers)
    ]
    return [*states, *triggers, *workers]


def _worker(settings: DevSettings) -> tuple[str, ...]:
    # Reloading replaces the whole process, for the file as for code.
    which = ("--config", settings.config) if settings.config else (settings.agents,)
    return _headrace("worker", "--no-reload", *which)


def _headrace(*arguments: str) -> tuple[str, ...]:
    return (sys.executable, "-m", "headrace_cli", *arguments)


def _reachable(host: str) -> str:
    host = _LOOPBACK.get(host, host)
    return f"[{host}]" if ":" in host else host


def _is_news(line: str) -> bool:
    """Return whether a server's line is more than a report of a normal start or stop."""
    return not any(words in line for words in _NO_NEWS)
