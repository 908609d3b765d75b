"""``POST …/stream``, where clients of Hector's dialect send their messages.

A body is a JSON-RPC call, or what REST's ``message:stream`` takes; either as short as the dialect's
documents have it.
"""

import orjson
from starlette.requests import Request
from starlette.routing import Route
from starlette.types import ASGIApp, Message

from headrace.model.events import Json
from headrace_gateway.protocols.a2a.json_body import parse_object
from headrace_gateway.protocols.a2a.rest_errors import answering_errors
from headrace_gateway.protocols.hector.messages import completed
from headrace_gateway.server.body import read_body
from headrace_gateway.server.endpoint import Endpoint
from headrace_gateway.services import Services


class StreamRoute:
    """Hands requests on to the binding that they are for."""

    def __init__(self, services: Services, rpc: Endpoint, rest: Endpoint) -> None:
        """Hand on to `rpc`, or to `rest`, its ``message:stream``."""
        self._services, self._rpc, self._rest = services, rpc, rest

    def routes(self, prefix: str) -> list[Route]:
        """Return the route of an agent whose base is `prefix`."""
        return [Route(f"{prefix}/stream", answering_errors(self._open), methods=["POST"])]

    async def _open(self, request: Request) -> ASGIApp:
        # Nothing is read from whom nobody knows.
        self._services.callers.of(request.headers)
        body = parse_object(await read_body(request, self._services.body_limits))
        if "jsonrpc" in body:
            return await self._rpc(_with_body(request, body))
        return await self._rest(_with_body(request, completed(body)))


def _with_body(request: Request, body: Json) -> Request:
    content = [orjson.dumps(body)]

    async def receive() -> Message:
        if content:
            return {"type": "http.request", "body": content.pop(), "more_body": False}
        return await request.receive()

    return Request(request.scope, receive)
