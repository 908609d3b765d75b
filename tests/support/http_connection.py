"""A connection of the gateway's HTTP server, without a network."""

import asyncio
from typing import Any, cast

from starlette.types import ASGIApp
from uvicorn.server import ServerState

from headrace_gateway.server.http_protocol import HttpProtocol, ServerConfig


class Socket:
    """A transport that keeps what is written."""

    def __init__(self, host: str) -> None:
        """Begin open, with nothing written, to a client on `host`."""
        self.written, self.closed = b"", False
        self._host = host

    def write(self, data: bytes) -> None:
        """Keep `data`."""
        self.written += data

    def get_extra_info(self, name: str) -> object:
        """Know the client's address only."""
        return (self._host, 50_000) if name == "peername" else None

    def get_write_buffer_size(self) -> int:
        """Return 0: everything is received at once."""
        return 0

    def is_closing(self) -> bool:
        """Return whether it has been closed."""
        return self.closed

    def close(self) -> None:
        """Close."""
        self.closed = True

    def pause_reading(self) -> None:
        """Go on: each test writes what it wants read."""

    abort, resume_reading = close, pause_reading


def config_of(app: ASGIApp) -> ServerConfig:
    """Return the configuration of a server of `app`."""
    config = ServerConfig(cast("Any", app), access_log=False, log_config=None, lifespan="off")
    config.load()
    return config


def connection(config: ServerConfig, host: str = "127.0.0.1") -> tuple[HttpProtocol, Socket]:
    """Return a connection to a server, from `host`."""
    protocol, socket = HttpProtocol(config, ServerState(), {}), Socket(host)
    protocol.connection_made(cast("asyncio.Transport", socket))
    return protocol, socket
