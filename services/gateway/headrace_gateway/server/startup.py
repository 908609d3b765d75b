"""What answers while the gateway is still being put together."""

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route, WebSocketRoute
from starlette.types import ASGIApp, Receive, Scope, Send
from starlette.websockets import WebSocket

from headrace_gateway.server.deferred_response import DeferredResponse
from headrace_gateway.server.health import healthy
from headrace_gateway.server.json_response import json_response
from headrace_gateway.server.open_requests import OpenRequests, with_requests
from headrace_gateway.server.websocket_closing import close_at_once, try_later

_MESSAGE = "the gateway is starting; it waits for NATS"


class FrontDoor:
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
