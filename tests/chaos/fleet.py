"""The stack under test, on one NATS node or on three."""

import json
import sys
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import ExitStack, asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import nats
from nats.errors import Error as NatsError

from headrace.jetstream.connection import Bus
from headrace.settings import BusSettings
from headrace_task_state.store_redis.connection import Connection
from headrace_task_state.store_redis.settings import RedisSettings
from tests.chaos.hostile import CHAIN_TASKS
from tests.chaos.step_journal import FILE
from tests.support.cluster import NatsCluster
from tests.support.compose_file import ROOT
from tests.support.stack import Stack

GATEWAYS, WORKERS, TASK_STATES, TRIGGERS = 2, 4, 2, 2
HEADRACE: Sequence[str | Path] = (sys.executable, "-m", "headrace_cli")
_ANSWERS = 5.0


class Fleet:
    """Two gateways, four workers, two task states, Redis and NATS."""

    def __init__(self, stack: Stack, steps: Path, cluster: NatsCluster | None = None) -> None:
        """Wrap a running stack, and its NATS cluster if it has one."""
        self.stack, self.cluster = stack, cluster
        self.steps = steps
        """The file of the `StepJournal`."""

    @property
    def gateways(self) -> list[str]:
        """The gateways' URLs."""
        return self.stack.gateways

    @property
    def nats_url(self) -> str:
        """URLs of all NATS nodes, comma-separated."""
        return self.stack.dev()["nats_url"]

    async def ask_nats(self, subject: str, body: object = None) -> dict[str, Any]:
        """Return the answer of JetStream's API; empty if there is none."""
        try:
            client = await nats.connect(
                self.nats_url.split(","), allow_reconnect=False, connect_timeout=_ANSWERS
            )
        except (OSError, TimeoutError, NatsError):
            return {}
        try:
            data = b"" if body is None else json.dumps(body).encode()
            answer = await client.request(subject, data, timeout=_ANSWERS)
        except (TimeoutError, NatsError):
            return {}
        finally:
            await client.close()
        content: dict[str, Any] = json.loads(answer.data)
        return content

    @asynccontextmanager
    async def redis(self) -> AsyncIterator[Connection]:
        """Yield a connection to Redis."""
        url = self.stack.dev()["redis_url"]
        connection = Connection(RedisSettings.model_validate({"redis_url": url}))
        try:
            yield connection
        finally:
            await connection.close()

    @asynccontextmanager
    async def bus(self) -> AsyncIterator[Bus]:
        """Yield a connection to NATS that reconnects without limit."""
        bus = Bus(BusSettings.model_validate({"nats_url": self.nats_url}))
        await bus.dial("chaos")
        try:
            yield bus
        finally:
            await bus.close()


@contextmanager
def fleet_in(
    folder: Path,
    *,
    nodes: int,
    retention: float,
    program: Sequence[str | Path] = HEADRACE,
    has_triggers: bool = False,
) -> Iterator[Fleet]:
    """Yield a fleet on `nodes` NATS nodes that keeps finished tasks for `retention` seconds.

    `program` starts it, as ``headrace`` would. Only a fleet that `has_triggers` has services for
    events and schedules.
    """
    environment = {
        "PYTHONPATH": str(ROOT),
        "HEADRACE_RETENTION": str(retention),
        "HEADRACE_TOMBSTONE_SECONDS": str(retention),
        "HEADRACE_CHAIN_TASKS": str(CHAIN_TASKS),
        FILE: str(folder / "steps"),
    }
    with ExitStack() as running:
        cluster = None
        if nodes > 1:
            cluster = running.enter_context(NatsCluster(folder / "cluster"))
            environment |= {"HEADRACE_NATS_URL": cluster.url, "HEADRACE_REPLICAS": str(nodes)}
        stack = Stack(
            folder,
            gateways=GATEWAYS,
            workers=WORKERS,
            task_states=TASK_STATES,
            triggers=TRIGGERS if has_triggers else 0,
            agents="tests.chaos.agents:agents",
            environment=environment,
            program=program,
        )
        yield Fleet(running.enter_context(stack), folder / "steps", cluster)
