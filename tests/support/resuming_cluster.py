"""A development stack on a NATS cluster of three nodes, and who leads its event stream."""

from pathlib import Path
from types import TracebackType
from typing import Any, Self

import nats

from tests.support.cluster import NatsCluster
from tests.support.resuming_audience import Audience
from tests.support.servers import NatsProcess
from tests.support.stack import Stack
from tests.support.stored_log import ask
from tests.support.waiting import eventually

_EVENTS = "EVENTS"


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
        """Return the node that leads the event stream, once there is one."""
        leaders = list[str]()

        async def is_known() -> bool:
            answer = await self._ask(f"$JS.API.STREAM.INFO.{_EVENTS}")
            leaders.append(answer.get("cluster", {}).get("leader", ""))
            return bool(leaders[-1])

        await eventually(is_known, "the event stream has a leader")
        return self.cluster.node(leaders[-1])

    async def followers(self) -> list[NatsProcess]:
        """Return the nodes that do not."""
        leader = await self.leader()
        return [node for node in self.cluster.nodes if node is not leader]

    async def step_down(self) -> None:
        """Have the event stream's leader hand over to another node, once there is one."""

        async def has_stepped_down() -> bool:
            return bool(
                (await self._ask(f"$JS.API.STREAM.LEADER.STEPDOWN.{_EVENTS}")).get("success")
            )

        await eventually(has_stepped_down, "the leader hands over")

    async def _ask(self, subject: str) -> dict[str, Any]:
        client = await nats.connect(self.cluster.urls)
        try:
            return await ask(client, subject)
        finally:
            await client.close()
