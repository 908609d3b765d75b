"""Run a gateway in this process."""

import asyncio
import secrets
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import partial

import httpx

from headrace.service import Stop, serve
from headrace_gateway.main import serving
from headrace_gateway.protocol_table import PROTOCOLS, Protocol
from headrace_gateway.settings import GatewaySettings
from headrace_gateway.timing import TIMING, GatewayTiming
from tests.support.plain_http import NO_TLS
from tests.support.servers import ports
from tests.support.waiting import eventually


def own_settings(nats_url: str, **given: object) -> GatewaySettings:
    """Return a gateway's settings: free ports, subjects and streams of its own, and `given`."""
    name = f"gateway{secrets.token_hex(4)}"
    own = {"prefix": name, "stream_prefix": name, "http_port": ports.pick()}
    own |= {"grpc_port": ports.pick(), "startup_timeout": 60}
    return GatewaySettings.model_validate({"nats_url": nats_url, **own, **given})


@asynccontextmanager
async def running(
    settings: GatewaySettings,
    protocols: Sequence[Protocol] = PROTOCOLS,
    timing: GatewayTiming = TIMING,
) -> AsyncIterator[str]:
    """Yield the URL of a gateway that is ready, and serves `protocols`."""
    url, stop = f"http://127.0.0.1:{settings.http_port}", Stop()
    block = partial(serving, settings, protocols=protocols, timing=timing)
    running = asyncio.create_task(serve(block, stop))
    try:
        async with httpx.AsyncClient(base_url=url, timeout=60, verify=NO_TLS) as http:
            await until_ready(http)
        yield url
    finally:
        stop.set()
        await asyncio.wait_for(running, 60)


async def until_ready(http: httpx.AsyncClient) -> None:
    """Return as soon as the gateway at the other end is ready."""

    async def is_ready() -> bool:
        try:
            return (await http.get("/readyz")).is_success
        except httpx.TransportError:
            return False

    await eventually(is_ready, "the gateway is ready")
