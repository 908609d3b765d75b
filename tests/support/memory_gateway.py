"""A gateway's application on NATS in memory, for the agent ``echo``, which no worker serves."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from starlette.applications import Starlette

from headrace.directory import Announcer
from headrace.jetstream.connection import Bus
from headrace.jetstream.memory.server import MemoryServer
from headrace.jetstream.memory.transport import MemoryTransport
from headrace.model.agent_card import AgentCard
from headrace.model.queues import RunQueue
from headrace.model.subjects import NORMAL
from headrace.settings import BusSettings
from headrace.tasks.runs import ensure_queue
from headrace_gateway.app import build_app
from headrace_gateway.composition import composed
from headrace_gateway.protocol_table import PROTOCOLS
from headrace_gateway.server.open_requests import OpenRequests
from headrace_gateway.settings import GatewaySettings


@asynccontextmanager
async def memory_gateway(requests: OpenRequests) -> AsyncIterator[Starlette]:
    """Yield the application, which counts its requests in `requests`."""
    server = MemoryServer()

    def connect() -> MemoryTransport:
        return MemoryTransport(server)

    bus = Bus(BusSettings.model_construct(), connect)
    await bus.connect("test")
    await Announcer(bus, "worker-1").announce(AgentCard(name="echo"))
    await ensure_queue(bus, RunQueue("default", "echo", NORMAL))
    async with composed(GatewaySettings(), requests, new_transport=connect) as services:
        yield build_app(services, PROTOCOLS)
    await bus.close()
    server.close()
