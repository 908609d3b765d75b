"""The services that anybody may call, health and reflection, with limits on their requests.

gRPC itself would receive 10 MB of each of 256 calls of one connection, and wait for the rest
without limit; a request is held as long as its call is open, and those of health's `Watch` have no
end.
"""

import asyncio
from collections.abc import AsyncIterator, Mapping
from typing import Any

import grpc
import grpc.aio
from google.protobuf.message import DecodeError

from headrace_gateway.protocols.a2a.grpc.errors import abort
from headrace_gateway.protocols.a2a.grpc.request_message import next_message
from headrace_gateway.protocols.a2a.grpc.rpc_server import RpcServer
from headrace_gateway.server.turns import Turns
from headrace_gateway.streaming.grpc import Context

_LARGEST = 4096
"""Maximum bytes of a request, which is little more than a name."""

_TIMEOUT = 10.0
"""Seconds to wait for a request."""

_SLOW = 0.05
"""Seconds after which a request is slow. A usual one arrives with its call."""

_MOST_RECEIVED = 4
"""Maximum requests that are received at a time, each of up to 10 MB."""

_TOO_LARGE = f"the request has more than {_LARGEST} bytes"

_MALFORMED = "the request is malformed"

_TOO_LATE = "the request was not received within the time limit"

type _Handler = grpc.RpcMethodHandler[Any, Any]


class PublicServices:
    """What generated code takes for a server: adds services to one, with limits."""

    def __init__(self, server: RpcServer) -> None:
        """Add services to `server`."""
        self._server = server
        self._receptions = _Receptions()

    def add_generic_rpc_handlers(self, handlers: object) -> None:
        """Add nothing: generated code adds the same handlers as registered ones."""

    def add_registered_method_handlers(
        self, service: str, handlers: Mapping[str, _Handler]
    ) -> None:
        """Add the methods of a service."""
        limited = {name: self._limited(handler) for name, handler in handlers.items()}
        self._server.add_registered_method_handlers(service, limited)

    def _limited(self, handler: Any) -> _Handler:  # noqa: ANN401 - its type states no members
        """Return the handler with limits on its requests.

        It takes its request as a message of a stream, as those of A2A's operations do.
        """
        encode = handler.response_serializer

        async def request_of(context: Context) -> Any:  # noqa: ANN401
            return await self._request(handler, context)

        async def unary(_requests: object, context: Context) -> Any:  # noqa: ANN401
            return await handler.unary_unary(await request_of(context), context)

        async def answers(_requests: object, context: Context) -> None:
            await handler.unary_stream(await request_of(context), context)

        async def each(context: Context) -> AsyncIterator[object]:
            while (request := await request_of(context)) is not None:
                yield request

        async def stream(_requests: object, context: Context) -> AsyncIterator[object]:
            async for response in handler.stream_stream(each(context), context):
                yield response

        if handler.unary_unary is not None:
            return grpc.stream_unary_rpc_method_handler(unary, None, encode)
        serve = answers if handler.unary_stream is not None else stream
        return grpc.stream_stream_rpc_method_handler(serve, None, encode)

    async def _request(self, handler: Any, context: Context) -> Any:  # noqa: ANN401
        """Return the next request of a call, or refuse the call; None: no request follows."""
        try:
            received = await self._receptions.receive(context)
        except TimeoutError:
            return await abort(context, grpc.StatusCode.DEADLINE_EXCEEDED, _TOO_LATE)
        if received is None:
            if handler.request_streaming:
                return None
            return await abort(context, grpc.StatusCode.INVALID_ARGUMENT, _MALFORMED)
        if len(received) > _LARGEST:
            return await abort(context, grpc.StatusCode.RESOURCE_EXHAUSTED, _TOO_LARGE)
        try:
            return handler.request_deserializer(received)
        except DecodeError:
            return await abort(context, grpc.StatusCode.INVALID_ARGUMENT, _MALFORMED)


class _Receptions:
    """Receives few requests at a time, the latest first, and gives up slow ones for others.

    So neither many requests nor many that never arrive delay the next health check.
    """

    def __init__(self, slow: float = _SLOW) -> None:
        self._after = slow
        self._turns = Turns(_MOST_RECEIVED, latest_first=True)
        self._slow: list[asyncio.Timeout] = []
        self._given_up = set[asyncio.Timeout]()
        """Those that still have a turn."""

    async def receive(self, context: Context) -> bytes | None:
        """Return the next request of a call; None: none follows.

        Raises:
            TimeoutError: It was not received in time, or is slow while others wait.
        """
        loop = asyncio.get_running_loop()
        async with asyncio.timeout(_TIMEOUT) as limit:
            # Until a request is asked for, gRPC leaves nearly all of it with its client.
            loop.call_soon(self._give_up_slow)  # Once this one waits.
            await self._turns.acquire()
            slowing = loop.call_later(self._after, self._become_slow, limit)
            try:
                return await next_message(context)
            finally:
                slowing.cancel()
                if limit in self._slow:
                    self._slow.remove(limit)
                self._given_up.discard(limit)
                self._turns.give_back()

    def _become_slow(self, limit: asyncio.Timeout) -> None:
        self._slow.append(limit)
        self._give_up_slow()

    def _give_up_slow(self) -> None:
        if self._slow and len(self._given_up) < self._turns.waiting:
            oldest = self._slow.pop(0)
            self._given_up.add(oldest)
            if not oldest.expired():
                oldest.reschedule(asyncio.get_running_loop().time())
