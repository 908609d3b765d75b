"""Deferred responses: the part of a request that is served after routing and middleware returned.

A stream may be open for hours. Without deferral, all callers would stay on the stack for that time:
a dozen frames, the request that they hold, and several wrappers around every write.
"""

from collections.abc import Awaitable, Callable

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route, WebSocketRoute
from starlette.types import ASGIApp, Receive, Scope, Send
from starlette.websockets import WebSocket

from headrace_gateway.server.health import healthy
from headrace_gateway.server.json_response import json_response
from headrace_gateway.server.open_requests import OpenRequests, with_requests
from headrace_gateway.server.websocket_closing import close_at_once, try_later

_EXTENSION = "headrace.deferred"

type Rest = Callable[[Receive, Send], Awaitable[None]]


class DeferredResponse:
    """The deferred part of one request."""

    __slots__ = ("_rest", "_steps")

    def __init__(self) -> None:
        """Defer nothing yet."""
        self._rest: Rest | None = None
        self._steps: list[Callable[[], None]] = []

    def defer(self, rest: Rest) -> None:
        """Serve `rest` after the application has returned."""
        self._rest = rest

    def at_end(self, step: Callable[[], None]) -> None:
        """Call `step` when the whole request has been served, or has failed."""
        self._steps.append(step)

    async def serve(self, app: ASGIApp, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve the request with `app`, then serve what it deferred."""
        try:
            # A copy, so that additions by routes and middleware are freed before the deferred part.
            extensions = scope.get("extensions", {}) | {_EXTENSION: self}
            await app({**scope, "extensions": extensions}, receive, send)
            if (rest := self._rest) is not None:
                await rest(receive, send)
        finally:
            for step in self._steps:
                step()


def deferred_of(scope: Scope) -> DeferredResponse | None:
    """Return the request's `DeferredResponse`, or None if it has none."""
    found: DeferredResponse | None = scope.get("extensions", {}).get(_EXTENSION)
    return found


_MESSAGE = "the gateway is starting and waits for NATS; try again"


class StartupApp:
    """An ASGI application that answers 503 until the gateway's application is set by `open`."""

    def __init__(self, requests: OpenRequests) -> None:
        """Answer 503 until `open`; count requests in `requests`."""
        self._requests = requests
        self._app: ASGIApp = Starlette(
            routes=[Route("/healthz", healthy), WebSocketRoute("/{path:path}", _starting_socket)],
            exception_handlers={404: _starting},
        )

    def open(self, app: ASGIApp) -> None:
        """Pass all requests to `app` from now on."""
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request to the current application."""
        scope = with_requests(scope, self._requests)
        await DeferredResponse().serve(self._app, scope, receive, send)


async def _starting_socket(socket: WebSocket) -> None:
    await close_at_once(socket, try_later(_MESSAGE))


async def _starting(request: Request, error: Exception) -> Response:  # noqa: ARG001 - a handler
    content = {"error": {"code": 503, "status": "UNAVAILABLE", "message": _MESSAGE}}
    return json_response(content, 503, {"Retry-After": "1"})
