"""Hector's own routes, ``/rpc`` and ``POST …/stream``, to which clients send messages.

The requests are A2A requests with older names and are forwarded to A2A's bindings. The body of
``/stream`` is a JSON-RPC call or the body of REST's ``message:stream``. Both may have the short
form of Hector's documents.
"""

from collections.abc import Callable, Sequence

import orjson
from starlette.requests import Request
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp, Receive, Scope, Send

from headrace.model import json_text
from headrace.model.events import Json
from headrace.model.nesting import RULE, is_too_deep
from headrace_gateway.call import AGENT, caller_of
from headrace_gateway.protocols.hector.forms import completed
from headrace_gateway.refusals import Malformed, Violation
from headrace_gateway.server.body import parse_object, read_body, with_body
from headrace_gateway.server.open_requests import Endpoint, forward_request
from headrace_gateway.services import Services


class HectorRoutes:
    """Forwards requests to the binding that they are for."""

    def __init__(
        self,
        services: Services,
        rpc: Endpoint,
        rest: Endpoint,
        map_errors: Callable[[Endpoint], Endpoint],
    ) -> None:
        """Forward to JSON-RPC or to REST's ``message:stream``; errors have REST's format."""
        self._services, self._rpc, self._rest = services, rpc, map_errors(rest)
        self._map_errors = map_errors

    def routes(self) -> Sequence[BaseRoute]:
        """Return the routes, under each agent's base and at the root."""
        stream = self._map_errors(self._stream)
        return [
            route
            for prefix in (AGENT, "")
            for route in (
                Route(f"{prefix}/rpc", self._rpc, methods=["POST"]),
                Route(f"{prefix}/stream", stream, methods=["POST"]),
            )
        ]

    async def _stream(self, request: Request) -> ASGIApp:
        # Authenticate the caller before the body is read.
        caller_of(self._services, request)
        data = await read_body(request, self._services.body_limits)
        body = parse_object(data)
        is_rpc = "jsonrpc" in body
        forwarded = with_body(request, data if is_rpc else _serialized(completed(body)))

        forward_request()

        async def forward(scope: Scope, receive: Receive, send: Send) -> None:
            # This request has ended and holds its body no longer: the binding opens its own.
            response = await (self._rpc if is_rpc else self._rest)(forwarded)
            await response(scope, receive, send)

        return forward


def _serialized(body: Json) -> bytes:
    try:
        return json_text.encode(body)
    except orjson.JSONEncodeError:
        # orjson parses deeper nesting than it can serialize.
        deep = [name for name, value in body.items() if is_too_deep(value)]
        raise Malformed([Violation(name[:100], RULE) for name in deep]) from None
