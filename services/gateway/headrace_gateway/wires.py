"""Clients' connections, which tell whatever comes by them what waits there unread."""

from typing import Any, cast

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

from headrace_gateway.backlog import EXTENSION, Backlog


class HttpWire(HttpToolsProtocol):
    """Uvicorn's protocol on httptools, with its backlog in every request's scope."""

    def on_message_begin(self) -> None:
        """Begin a request."""
        super().on_message_begin()
        scope = cast("dict[str, Any]", self.scope)
        scope["extensions"] = {EXTENSION: Backlog(self.transport)}


class SocketWire(WebSocketsSansIOProtocol):
    """Uvicorn's protocol for WebSockets, with its backlog in the scope."""

    async def run_asgi(self) -> None:
        """Run the application."""
        extensions = cast("dict[str, Any]", self.scope["extensions"])
        extensions[EXTENSION] = Backlog(self.transport)
        await super().run_asgi()
