"""The gateway's HTTP server."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, cast

import uvicorn
from starlette.types import ASGIApp

from headrace.ticks import until_tick
from headrace_gateway.server.http_protocol import HttpProtocol, ServerConfig
from headrace_gateway.server.open_requests import GRACE
from headrace_gateway.settings import GatewaySettings
from headrace_gateway.timing import TIMING, GatewayTiming

_KEEP_ALIVE = 75


def _websocket_protocol(**named: Any) -> asyncio.Protocol:  # noqa: ANN401 - uvicorn's, passed on
    """Make the protocol of a WebSocket."""
    # Here, because a gateway without WebSockets does not need their library.
    from headrace_gateway.server.websocket_protocol import (  # noqa: PLC0415 - see above
        WebSocketProtocol,
    )

    return WebSocketProtocol(**named)


class HttpServer(uvicorn.Server):
    """Uvicorn on uvloop's loop with httptools."""

    def __init__(
        self, app: ASGIApp, settings: GatewaySettings, timing: GatewayTiming = TIMING
    ) -> None:
        """Serve `app`."""
        config = ServerConfig(
            app,
            http=HttpProtocol,
            # Uvicorn calls it for each WebSocket, as it would the class.
            ws=cast("type[asyncio.Protocol]", _websocket_protocol),
            ws_max_size=settings.max_body_bytes,
            ws_ping_interval=settings.keepalive,
            # The ping of a slow client arrives late, after the unread bytes before it. A client
            # that reads nothing is disconnected by the stall timeout, like every stream.
            ws_ping_timeout=None,
            ws_per_message_deflate=False,
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            timeout_keep_alive=_KEEP_ALIVE,
            timeout_graceful_shutdown=int(GRACE),
        )
        config.timing = timing
        super().__init__(config)
        self._stopping = asyncio.Event()

    def stop(self) -> None:
        """Have `serve` end: accept no more connections, and wait for the requests in progress."""
        self.should_exit = True
        self._stopping.set()

    async def main_loop(self) -> None:
        """Update the Date header once a second. Uvicorn looks ten times a second for its end."""
        while not await self.on_tick(0):
            with suppress(TimeoutError):
                await asyncio.wait_for(self._stopping.wait(), until_tick(1))

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave signals to the process, which has more to stop than this server."""
        yield
