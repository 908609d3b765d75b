"""A development stack on a NATS cluster of three nodes, and who leads its event stream."""

import json
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import nats

from tests.support.cluster import NatsCluster
from tests.support.resuming_audience import Audience
from tests.support.servers import NatsProcess
from tests.support.stack import Stack

_EVENTS = "EVENTS"
_PATIENCE = 5.0


class ClusteredStack:
    """Two gateways and three workers on streams with a copy on each node."""

    def __init__(self, cluster: NatsCluster, folder: Path) -> None:
        """Make the stack that is to be, on `cluster`."""
        self.cluster = cluster
        environment = {"HEADRACE_NATS_URL": cluster.url, "HEADRACE_REPLICAS": "3"}
        self.stack = Stack(folder, gateways=2, workers=3, environment=environment)

    def __enter__(self) -> Self:
        self.stack.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        raised: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self.stack.stop()

    def audience(self, tasks: int) -> Audience:
        """Return clients of its gateways."""
        return Audience(self.stack.gateways, self.cluster.urls, tasks)

    async def leader(self) -> NatsProcess:
        """Return the node that leads the event stream."""
        answer = await self._ask(f"$JS.API.STREAM.INFO.{_EVENTS}")
        return self.cluster.node(answer["cluster"]["leader"])

    async def followers(self) -> list[NatsProcess]:
        """Return the nodes that do not."""
        leader = await self.leader()
        return [node for node in self.cluster.nodes if node is not leader]

    async def step_down(self) -> None:
        """Have the event stream's leader hand over to another node."""
        answer = await self._ask(f"$JS.API.STREAM.LEADER.STEPDOWN.{_EVENTS}")
        assert answer.get("success"), answer

    async def _ask(self, subject: str) -> dict[str, Any]:
        client = await nats.connect(self.cluster.urls)
        try:
            answer = await client.request(subject, b"", timeout=_PATIENCE)
        finally:
            await client.close()
        content: dict[str, Any] = json.loads(answer.data)
        return content
