"""Streams over gRPC: each message is an RPC message; an early end is the RPC's status."""

from typing import Any

import grpc.aio

from headrace_gateway.feeds import Feed
from headrace_gateway.server.client_pace import SlowClient
from headrace_gateway.streaming.renderer import Interruption, Messages, Renderer
from headrace_gateway.streaming.subscription import Subscription, Subscriptions

type Context = grpc.aio.ServicerContext[Any, Any]


class RpcStream:
    """One RPC. gRPC itself sends keep-alives and detects dead clients."""

    __slots__ = ("_context", "_metadata", "keepalive", "slow")

    def __init__(self, context: Context, metadata: tuple[tuple[str, str], ...]) -> None:
        """Write to `context`; `metadata` is sent first."""
        self._context, self._metadata = context, metadata
        self.keepalive: Messages = ()
        # The bytes that gRPC holds for a client can't be measured, but the time of a write can.
        self.slow = SlowClient(None)

    async def serve(
        self, shared: Subscriptions, feed: Feed, after: int, renderer: Renderer
    ) -> Interruption | None:
        """Serve a subscription of `feed`, which the caller holds. See `Subscription.run`."""
        return await Subscription(shared, feed, after, renderer, self).run()

    async def begin(self) -> None:
        """Send the metadata."""
        await self._context.send_initial_metadata(self._metadata)

    async def write(self, messages: Messages) -> None:
        """Send messages."""
        for message in messages:
            await self._context.write(message)
            self.slow.written += len(message)

    async def end(self, messages: Messages, why: Interruption | None) -> None:  # noqa: ARG002
        """Send the last messages; the caller of `serve` sets the RPC's status."""
        await self.write(messages)
