"""A NATS cluster of three nodes on loopback; each can be killed, frozen and restarted."""

import json
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from headrace_cli.dev.nats_server import ClusterPlace
from tests.support.servers import NatsProcess, ports
from tests.support.waiting import until

_SIZE = 3
_TIMEOUT = 90.0
_HTTP_TIMEOUT = 2.0


class NatsCluster:
    """Three nodes, named ``node-0`` to ``node-2`` as JetStream names leaders."""

    def __init__(self, folder: Path, *, sync_interval: str = "") -> None:
        """Make a cluster on free ports that keeps everything under `folder`."""
        routes = tuple(ports.pick() for _ in range(_SIZE))
        self.nodes = [
            NatsProcess(
                folder / f"node-{index}",
                name=f"node-{index}",
                sync_interval=sync_interval,
                cluster=ClusterPlace(route, routes),
            )
            for index, route in enumerate(routes)
        ]

    @property
    def url(self) -> str:
        """Where clients connect: all nodes, comma-separated."""
        return ",".join(self.urls)

    @property
    def urls(self) -> list[str]:
        """Where clients connect, per node."""
        return [node.url for node in self.nodes]

    def start(self) -> Self:
        """Start every node that does not run; return when the cluster is whole."""
        for node in self.nodes:
            if not node.is_running:
                node.start(wait=False)
        self.until_whole()
        return self

    def until_whole(self, timeout: float = _TIMEOUT) -> None:
        """Return when all nodes run, have caught up and agree on a leader."""
        for node in self.nodes:
            node.until_answers(timeout)
        until(self.is_whole, "the cluster is whole", timeout)

    def stop(self) -> None:
        """End every node."""
        for node in self.nodes:
            node.kill()

    def heal(self) -> None:
        """Thaw and start what a test froze and killed; return when the cluster is whole."""
        for node in self.nodes:
            if node.is_running:
                node.thaw()
        self.start()

    def node(self, name: str) -> NatsProcess:
        """Return the node that JetStream calls `name`, say as a stream's leader."""
        return next(node for node in self.nodes if node.name == name)

    @staticmethod
    def connections(node: NatsProcess) -> set[str]:
        """Return the names of the clients that `node` has; empty if it does not answer."""
        listed = _monitored(node, "/connz").get("connections", [])
        # One that has just been accepted has no name yet.
        return {each["name"] for each in listed if "name" in each}

    def meta_leader(self) -> NatsProcess | None:
        """Return the node that leads the cluster, as most of those that answer see it."""
        seen = [leader for node in self.nodes if (leader := _leader_seen_by(node))]
        return self.node(max(seen, key=seen.count)) if seen else None

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        raised: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self.stop()

    def is_whole(self) -> bool:
        """Tell whether all nodes run, are healthy and agree on a leader."""
        leaders = {_leader_seen_by(node) for node in self.nodes}
        return len(leaders) == 1 and "" not in leaders and all(map(_is_healthy, self.nodes))


def _leader_seen_by(node: NatsProcess) -> str:
    """Return the meta leader's name; empty if `node` knows none, or does not answer."""
    return str(_monitored(node, "/jsz").get("meta_cluster", {}).get("leader", ""))


def _is_healthy(node: NatsProcess) -> bool:
    return _monitored(node, "/healthz").get("status") == "ok"


def _monitored(node: NatsProcess, path: str) -> dict[str, Any]:
    connection = HTTPConnection("127.0.0.1", node.monitor_port, timeout=_HTTP_TIMEOUT)
    try:
        connection.request("GET", path)
        content: dict[str, Any] = json.loads(connection.getresponse().read())
    except (OSError, HTTPException, ValueError):
        return {}
    finally:
        connection.close()
    return content
