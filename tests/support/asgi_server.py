"""An ASGI application behind a port of its own, for the length of a block."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Literal

import uvicorn
from starlette.types import ASGIApp

from tests.support.servers import ports


@asynccontextmanager
async def asgi_server(
    app: ASGIApp, *, lifespan: Literal["on", "off"] = "off"
) -> AsyncIterator[str]:
    """Serve `app`, and yield its base URL."""
    port = ports.pick()
    config = uvicorn.Config(app, port=port, log_level="error", lifespan=lifespan)
    server = uvicorn.Server(config)
    # `serve` would replace this process's handlers of signals.
    serving = asyncio.create_task(server._serve())
    try:
        while not server.started:  # noqa: ASYNC110  # uvicorn has no event for it
            await asyncio.sleep(0.01)
        yield f"http://127.0.0.1:{port}"
    finally:
        server.should_exit = server.force_exit = True
        await serving
