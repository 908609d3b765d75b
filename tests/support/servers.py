"""Real servers for tests: one nats-server, one Valkey."""

from pathlib import Path

from headrace_cli.dev.nats_server import ClusterPlace, NatsServer
from headrace_cli.dev.ports import Ports
from headrace_cli.dev.valkey_server import ValkeyServer
from tests.support.compose_file import load
from tests.support.server_process import ServerProcess

ports = Ports()
"""The ports of everything that the tests start."""

_COMPOSE = load()


class NatsProcess(ServerProcess):
    """One nats-server with JetStream on loopback.

    Nobody can publish on ``<any one token>.live.>``, so tests may each have a prefix of their own.
    """

    image = _COMPOSE["nats"].image

    def __init__(
        self,
        folder: Path,
        *,
        name: str = "headrace",
        sync_interval: str = "",
        cluster: ClusterPlace | None = None,
    ) -> None:
        """Make a server on a free port that keeps everything under `folder`."""
        super().__init__(name, folder)
        self._server = NatsServer(
            ports.pick(),
            folder,
            folder / f"{name}-data",
            name=name,
            prefix="*",
            sync_interval=sync_interval,
            monitor_port=ports.pick(),
            cluster=cluster,
        )

    @property
    def url(self) -> str:
        """Where clients connect."""
        return self._server.url

    @property
    def port(self) -> int:
        """Where clients connect."""
        return self._server.port

    @property
    def monitor_port(self) -> int:
        """Where it answers ``/jsz``, ``/healthz`` and the like over HTTP."""
        assert self._server.monitor_port is not None
        return self._server.monitor_port

    def command(self) -> list[str]:
        return self._server.command()

    def answers(self) -> bool:
        return self._server.answers()


class ValkeyProcess(ServerProcess):
    """One Valkey on loopback, which keeps its data over a restart."""

    image = _COMPOSE["valkey"].image

    def __init__(self, folder: Path, *, name: str = "valkey") -> None:
        """Make a server on a free port that keeps everything under `folder`."""
        super().__init__(name, folder)
        self._server = ValkeyServer(ports.pick(), folder, folder / f"{name}-data")

    @property
    def url(self) -> str:
        """Where clients connect."""
        return self._server.url

    @property
    def port(self) -> int:
        """Where clients connect."""
        return self._server.port

    def command(self) -> list[str]:
        return self._server.command()

    def answers(self) -> bool:
        return self._server.answers()
