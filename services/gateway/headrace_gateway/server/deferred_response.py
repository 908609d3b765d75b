"""Deferred responses: the part of a request that is served after routing and middleware returned.

A stream may be open for hours. Without this, everything that led to it would stay on the stack as
long: a dozen frames, the request that they hold, and a few wrappers around every write.
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
        """Serve `rest` as soon as the caller has returned."""
        self._rest = rest

    def at_end(self, step: Callable[[], None]) -> None:
        """Call `step` when the whole request has been served, or has failed."""
        self._steps.append(step)

    async def serve(self, app: ASGIApp, scope: Scope, receive: Receive, send: Send) -> None:
        """Let `app` serve the request, then serve what it deferred."""
        try:
            # A copy: what routes and middleware add to it goes with them.
            extensions = scope.get("extensions", {}) | {_EXTENSION: self}
            await app({**scope, "extensions": extensions}, receive, send)
            if (rest := self._rest) is not None:
                await rest(receive, send)
        finally:
            for step in self._steps:
                step()


def deferred_of(scope: Scope) -> DeferredResponse | None:
    """Return where a part of the request can be deferred; None: nowhere."""
    found: DeferredResponse | None = scope.get("extensions", {}).get(_EXTENSION)
    return found


_MESSAGE = "the gateway is starting; it waits for NATS"


class StartupApp:
    """An ASGI application that says that it is starting until there is one to hand on to."""

    def __init__(self, requests: OpenRequests) -> None:
        """Stay closed until `open`; count what is carried out among `requests`."""
        self._requests = requests
        self._app: ASGIApp = Starlette(
            routes=[Route("/healthz", healthy), WebSocketRoute("/{path:path}", _starting_socket)],
            exception_handlers={404: _starting},
        )

    def open(self, app: ASGIApp) -> None:
        """Hand everything on to `app` from now on."""
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Hand on."""
        scope = with_requests(scope, self._requests)
        await DeferredResponse().serve(self._app, scope, receive, send)


async def _starting_socket(socket: WebSocket) -> None:
    await close_at_once(socket, try_later(_MESSAGE))


async def _starting(request: Request, error: Exception) -> Response:  # noqa: ARG001 - a handler
    content = {"error": {"code": 503, "status": "UNAVAILABLE", "message": _MESSAGE}}
    return json_response(content, 503, {"Retry-After": "1"})
