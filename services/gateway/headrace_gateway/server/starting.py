"""Requests that come while a gateway is starting: they wait for it, for a limited time.

A browser's EventSource that gets 503 never connects again, and it comes back seconds after its
gateway was restarted.
"""

import asyncio
from contextlib import suppress

from starlette.types import ASGIApp, Receive, Scope, Send

_AT_ONCE = frozenset({"/healthz", "/readyz", "/metrics"})
"""Paths of what asks how the process is."""


class StartingApp:
    """An ASGI application that holds HTTP requests until there is one that serves them."""

    def __init__(self, refusing: ASGIApp, limit: float) -> None:
        """Hold each request for at most `limit` seconds, then have `refusing` answer it.

        WebSockets and probes are answered by `refusing` at once.
        """
        self._app, self._limit = refusing, limit
        self._over = asyncio.Event()

    def end(self, app: ASGIApp | None = None) -> None:
        """Pass the held requests to `app`; None: the start failed, and they are refused."""
        self._app = app or self._app
        self._over.set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve or refuse the request, when it is known which."""
        if scope["type"] == "http" and scope["path"] not in _AT_ONCE:
            with suppress(TimeoutError):
                async with asyncio.timeout(self._limit):
                    await self._over.wait()
        await self._app(scope, receive, send)
