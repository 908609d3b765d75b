"""A gateway's application on NATS in memory, for the agent ``echo``."""

from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

from nats.aio.msg import Msg
from starlette.types import ASGIApp

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
from headrace_gateway.services import Services
from headrace_gateway.settings import GatewaySettings
from headrace_gateway.timing import TIMING, GatewayTiming

type ServeRun = Callable[[Bus, Msg], Coroutine[Any, Any, None]]
"""Serves a run, given its request."""


@asynccontextmanager
async def memory_gateway(
    requests: OpenRequests,
    serve_run: ServeRun | None = None,
    *,
    server: MemoryServer | None = None,
    timing: GatewayTiming = TIMING,
) -> AsyncIterator[ASGIApp]:
    """Yield the application, which counts its requests in `requests`.

    `serve_run` is called for each run. Without it no worker serves the agent. `server` is NATS, if
    a test needs one of its own.
    """
    services = memory_services(requests, GatewaySettings(), serve_run, server=server, timing=timing)
    async with services as found:
        yield build_app(found, PROTOCOLS)


@asynccontextmanager
async def memory_services(
    requests: OpenRequests,
    settings: GatewaySettings,
    serve_run: ServeRun | None = None,
    *,
    server: MemoryServer | None = None,
    timing: GatewayTiming = TIMING,
) -> AsyncIterator[Services]:
    """Yield the services of a gateway with `settings`; otherwise as `memory_gateway`."""
    nats = server or MemoryServer()

    def connect() -> MemoryTransport:
        return MemoryTransport(nats)

    bus = Bus(BusSettings.model_construct(), connect)
    await bus.connect("test")
    await Announcer(bus, "worker-1").announce(AgentCard(name="echo"))
    await ensure_queue(bus, RunQueue("default", "echo", NORMAL))
    if serve_run is not None:
        await bus.subscribe(bus.subjects.runs_of_agent("echo"), partial(serve_run, bus))
    async with composed(settings, requests, timing, connect) as services:
        yield services
    await bus.close()
    nats.close()
