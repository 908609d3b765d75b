"""The services that anybody may call, health and reflection, with a limit on their requests.

A request is held as long as its call is open, and those of health's `Watch` have no end.
"""

from collections.abc import AsyncIterator, Sequence
from typing import Any

import grpc
import grpc.aio

_LARGEST = 4096
"""Maximum bytes of a request, which is little more than a name."""

_TOO_LARGE = object()
"""In place of a request that is too large: an error here would be logged as the service's own."""

type _Handler = grpc.RpcMethodHandler[Any, Any]
type _Context = grpc.aio.ServicerContext[Any, Any]


class PublicServices(grpc.GenericRpcHandler):
    """Dispatches calls to the services that generated code has added."""

    def __init__(self) -> None:
        """Begin with no services."""
        self._services: list[grpc.GenericRpcHandler] = []

    def add_generic_rpc_handlers(self, handlers: Sequence[grpc.GenericRpcHandler]) -> None:
        """Add a service, as generated code adds it to a server."""
        self._services.extend(handlers)

    def add_registered_method_handlers(self, service: str, handlers: object) -> None:
        """Add nothing: these are the same handlers, and would not pass through `service`."""

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> _Handler | None:
        """Return the handler of a call; None if it is not one of these services."""
        for one in self._services:
            if (handler := one.service(handler_call_details)) is not None:
                return _limited(handler)
        return None


def _limited(handler: Any) -> _Handler:  # noqa: ANN401 - a named tuple, which its type does not state
    """Return the handler with a limit on its requests."""

    def parsed(request: bytes) -> Any:  # noqa: ANN401 - a message, or `_TOO_LARGE`
        return _TOO_LARGE if len(request) > _LARGEST else handler.request_deserializer(request)

    async def one(request: object, context: _Context) -> Any:  # noqa: ANN401 - the service's
        await _check(request, context)
        return await (handler.unary_unary or handler.unary_stream)(request, context)

    async def each(requests: AsyncIterator[object], context: _Context) -> AsyncIterator[object]:
        async for request in requests:
            await _check(request, context)
            yield request

    async def stream(requests: AsyncIterator[object], context: _Context) -> AsyncIterator[object]:
        async for response in handler.stream_stream(each(requests, context), context):
            yield response

    kinds = {"unary_unary": one, "unary_stream": one, "stream_stream": stream}
    given = {kind: limit for kind, limit in kinds.items() if getattr(handler, kind) is not None}
    limited: _Handler = handler._replace(request_deserializer=parsed, **given)
    return limited


async def _check(request: object, context: _Context) -> None:
    if request is _TOO_LARGE:
        rule = f"the request has more than {_LARGEST} bytes"
        await context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, rule)
