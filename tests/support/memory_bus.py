"""A connection to a NATS server in memory."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from headrace.jetstream.connection import Bus
from headrace.jetstream.memory.server import MemoryServer
from headrace.jetstream.memory.transport import MemoryTransport
from headrace.settings import BusSettings


@asynccontextmanager
async def memory_bus() -> AsyncIterator[Bus]:
    """Yield a connection to an empty server, which nobody else uses."""
    server = MemoryServer()
    bus = Bus(BusSettings.model_construct(), lambda: MemoryTransport(server))
    await bus.connect("test")
    try:
        yield bus
    finally:
        await bus.close()
        server.close()
