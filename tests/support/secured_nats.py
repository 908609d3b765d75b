"""nats-servers that require credentials, and clusters of them that advertise their addresses."""

import json
import re
from http.client import HTTPConnection, HTTPException
from pathlib import Path

from headrace_cli.dev.nats_server import ClusterPlace
from tests.support.cluster import NatsCluster
from tests.support.servers import NatsProcess, ports

_ROUTES = re.compile(r"^accounts .*\nno_auth_user: .*\n", re.MULTILINE)


class SecuredNats(NatsProcess):
    """One node whose `security` (lines of configuration) stands in place of the open account."""

    def __init__(
        self,
        folder: Path,
        security: str,
        *,
        name: str = "headrace",
        cluster: ClusterPlace | None = None,
    ) -> None:
        """Make a server on a free port that keeps everything under `folder`."""
        super().__init__(folder, name=name, cluster=cluster)
        self.security = security

    def command(self) -> list[str]:
        command = super().command()
        file = Path(command[-1])
        text, replaced = _ROUTES.subn("", file.read_text())
        assert replaced == 1
        file.write_text(
            f"{text.replace('no_advertise: true', 'no_advertise: false')}\n"
            f'client_advertise: "127.0.0.1:{self.port}"\n{self.security}\n'
        )
        return command

    def answers(self) -> bool:
        connection = HTTPConnection("127.0.0.1", self.monitor_port, timeout=2)
        try:
            connection.request("GET", "/healthz?js-server-only=true")
            return connection.getresponse().status == 200
        except (OSError, HTTPException):
            return False
        finally:
            connection.close()

    def refused(self) -> int:
        """Return how often it has refused who connected."""
        return len(
            re.findall(r"authentication error|Authorization Violation", self.log.read_text())
        )


class SecuredCluster(NatsCluster):
    """Three nodes that tell clients of each other."""

    nodes: list[SecuredNats]  # type: ignore[assignment]

    def __init__(self, folder: Path, security: str) -> None:
        routes = tuple(ports.pick() for _ in range(3))
        self.nodes = [
            SecuredNats(
                folder / f"node-{index}",
                security,
                name=f"node-{index}",
                cluster=ClusterPlace(route, routes),
            )
            for index, route in enumerate(routes)
        ]


def quoted(text: str) -> str:
    """Return `text` as nats-server's configuration has it."""
    return json.dumps(text, ensure_ascii=False)
