"""A development stack on a NATS cluster of three nodes, and the leader of its event stream."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import TracebackType
from typing import Self

import nats
from nats.aio.client import Client

from tests.support.cluster import NatsCluster
from tests.support.jetstream_api import Json, ask, leader_of
from tests.support.resuming_clients import ResumingClients
from tests.support.servers import NatsProcess
from tests.support.stack import BASIC_AGENTS, Stack
from tests.support.waiting import eventually

_EVENTS = "EVENTS"


class ClusteredStack:
    """Two gateways and two workers on streams with a copy on each node."""

    def __init__(self, cluster: NatsCluster, folder: Path) -> None:
        """Make the stack that is to be, on `cluster`."""
        self.cluster = cluster
        environment = {"HEADRACE_NATS_URL": cluster.url, "HEADRACE_REPLICAS": "3"}
        self.stack = Stack(
            folder, gateways=2, workers=2, agents=BASIC_AGENTS, environment=environment
        )

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

    def resuming_clients(self, tasks: int) -> ResumingClients:
        """Return clients of its gateways."""
        return ResumingClients(self.stack.gateways, self.cluster.urls, tasks)

    async def leader(self) -> NatsProcess:
        """Return the node that leads the event stream, once there is one."""
        async with self._connected() as client:
            return self.cluster.node(await leader_of(client, f"STREAM.INFO.{_EVENTS}"))

    async def followers(self) -> list[NatsProcess]:
        """Return the nodes that do not."""
        leader = await self.leader()
        return [node for node in self.cluster.nodes if node is not leader]

    async def step_down(self) -> None:
        """Have the event stream's leader hand over to another node, once there is one."""
        async with self._connected() as client:

            async def has_stepped_down() -> bool:
                answer = await ask(client, f"$JS.API.STREAM.LEADER.STEPDOWN.{_EVENTS}")
                return bool(answer.get("success"))

            await eventually(has_stepped_down, "the leader hands over")

    async def gather_leaders(self) -> NatsProcess:
        """Have one node lead every stream and bucket but the event stream; return that node."""
        gathering = (await self.followers())[0]
        placed = {"placement": {"preferred": gathering.name}}
        async with self._connected() as client:
            names = (await ask(client, "$JS.API.STREAM.NAMES"))["streams"]
            for name in set(names) - {_EVENTS}:
                await self._lead(client, name, gathering.name, placed)
        return gathering

    @staticmethod
    async def _lead(client: Client, stream: str, node: str, placed: Json) -> None:
        async def is_led() -> bool:
            if await leader_of(client, f"STREAM.INFO.{stream}") == node:
                return True
            await ask(client, f"$JS.API.STREAM.LEADER.STEPDOWN.{stream}", placed)
            return False

        await eventually(is_led, f"{node} leads {stream}")

    @asynccontextmanager
    async def _connected(self) -> AsyncIterator[Client]:
        client = await nats.connect(self.cluster.urls)
        try:
            yield client
        finally:
            await client.close()
