"""NATS for the contract tests: one node or three, with the same requests to both."""

from dataclasses import dataclass

from headrace.jetstream.connection import Bus
from tests.support.cluster import NatsCluster
from tests.support.jetstream_api import leader_of
from tests.support.servers import NatsProcess


@dataclass(frozen=True, slots=True)
class Topology:
    """Servers that can be killed and frozen; whoever does so calls `heal`."""

    nodes: list[NatsProcess]
    cluster: NatsCluster | None = None

    @property
    def url(self) -> str:
        """All nodes, comma-separated."""
        return ",".join(node.url for node in self.nodes)

    @property
    def replicas(self) -> int:
        """Copies of each stream: one per node."""
        return len(self.nodes)

    def heal(self) -> None:
        """Thaw and start what a test froze and killed; return when all answer."""
        if self.cluster is not None:
            self.cluster.heal()
            return
        for node in self.nodes:
            node.thaw()
            if not node.is_running:
                node.start()

    async def leader(self, bus: Bus, stream: str) -> NatsProcess:
        """Return the node that leads `stream`; alone, the one node."""
        if self.cluster is None:
            return self.nodes[0]
        return self.cluster.node(await leader_of(bus.connection, f"STREAM.INFO.{stream}"))

    async def followers(self, bus: Bus, stream: str) -> list[NatsProcess]:
        """Return the nodes that do not lead `stream`."""
        leader = await self.leader(bus, stream)
        return [node for node in self.nodes if node is not leader]
