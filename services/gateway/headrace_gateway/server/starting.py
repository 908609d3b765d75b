"""Requests that come while a gateway is starting: those for an event stream wait for it.

A browser's EventSource that gets 503 never connects again (HTML standard, 9.2.3), and it comes back
seconds after its gateway was restarted. Any other client tries again, or another gateway.
"""

import asyncio
from contextlib import suppress

from starlette.types import ASGIApp, Receive, Scope, Send

from headrace_gateway.server.endpoints import headers_of

_STREAM = "text/event-stream"


class StartingApp:
    """An ASGI application that holds requests for event streams until another one serves them."""

    def __init__(self, refusing: ASGIApp, limit: float) -> None:
        """Hold a GET of an event stream for at most `limit` seconds.

        Then, and at once all other requests, have `refusing` answer it.
        """
        self._app, self._limit = refusing, limit
        self._over = asyncio.Event()

    def end(self, app: ASGIApp | None = None) -> None:
        """Pass the held requests to `app`; None: the start failed, and they are refused."""
        self._app = app or self._app
        self._over.set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve or refuse the request, when it is known which."""
        if _is_event_source(scope):
            with suppress(TimeoutError):
                async with asyncio.timeout(self._limit):
                    await self._over.wait()
        await self._app(scope, receive, send)


def _is_event_source(scope: Scope) -> bool:
    if scope["type"] != "http" or scope["method"] != "GET":
        return False
    return _STREAM in headers_of(scope).first.get("accept", "")
