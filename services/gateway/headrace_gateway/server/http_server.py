"""The HTTP server, told when to stop instead of taking signals itself."""

from collections.abc import Iterator
from contextlib import contextmanager

import uvicorn
from starlette.types import ASGIApp

from headrace_gateway.server.http_protocol import HttpWire, SocketWire
from headrace_gateway.server.open_requests import GRACE
from headrace_gateway.settings import GatewaySettings

_KEEP_ALIVE = 75


class HttpServer(uvicorn.Server):
    """Uvicorn on uvloop's loop with httptools."""

    def __init__(self, app: ASGIApp, settings: GatewaySettings) -> None:
        """Serve `app`."""
        super().__init__(
            uvicorn.Config(
                app,
                http=HttpWire,
                ws=SocketWire,
                ws_max_size=settings.max_body_bytes,
                ws_ping_interval=settings.keepalive,
                # A client that reads slowly finds the ping late, behind what it has yet to read.
                # It is cut off when it takes nothing at all, as every stream is.
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
        )

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave signals to the process: it has more to stop than this server."""
        yield
