"""An RPC as the request that it would be over HTTP, so that both are read by the same rules."""

import asyncio
from collections.abc import Mapping

from starlette.requests import Request
from starlette.types import Message

from headrace_gateway.settings import GatewaySettings
from headrace_gateway.streaming.grpc import Context

AGENT_NAME = "agent-name"
"""Metadata key: the agent that is asked."""


class RpcRequest:
    """One RPC, and whether its client still waits."""

    def __init__(self, context: Context, settings: GatewaySettings) -> None:
        """Read the metadata of `context`."""
        self._gone = asyncio.Event()
        self.metadata = _texts(context)
        # By which host its client came, gRPC does not say.
        headers = [(key.encode(), value.encode()) for key, value in self.metadata if key != "host"]
        agent = dict(self.metadata).get(AGENT_NAME)
        self.request = Request(
            {
                "type": "http",
                "method": "POST",
                "scheme": "http",
                "path": "/",
                "query_string": b"",
                "headers": headers,
                "server": (settings.http_host, settings.http_port),
                "path_params": {"agent": agent} if agent else {},
            },
            self._receive,
        )

    def hang_up(self) -> None:
        """Let it be known that the client waits no more."""
        self._gone.set()

    async def _receive(self) -> Message:
        await self._gone.wait()
        return {"type": "http.disconnect"}


def outgoing(headers: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """Return HTTP headers as metadata."""
    return tuple((name.lower(), value) for name, value in headers.items())


def _texts(context: Context) -> list[tuple[str, str]]:
    """Return the metadata but what is binary, keys in lower case as gRPC has them."""
    return [
        (key, value)
        for key, value in context.invocation_metadata() or ()
        if isinstance(value, str) and not key.endswith("-bin")
    ]
