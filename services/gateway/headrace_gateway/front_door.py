"""What answers while the gateway is still being put together."""

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from headrace_gateway.health import healthy
from headrace_gateway.json_response import json_response


class FrontDoor:
    """An ASGI application that says that it is starting until there is one to hand on to."""

    def __init__(self) -> None:
        """Stay closed until `open`."""
        self._app: ASGIApp = Starlette(
            routes=[Route("/healthz", healthy)], exception_handlers={404: _starting}
        )

    def open(self, app: ASGIApp) -> None:
        """Hand everything on to `app` from now on."""
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Hand on."""
        await self._app(scope, receive, send)


async def _starting(request: Request, error: Exception) -> Response:  # noqa: ARG001 - a handler
    message = "the gateway is starting; it waits for NATS"
    content = {"error": {"code": 503, "status": "UNAVAILABLE", "message": message}}
    return json_response(content, 503, {"Retry-After": "1"})
