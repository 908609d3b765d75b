"""RPCs as the equivalent HTTP requests, so that the same rules read both."""

import asyncio
from collections.abc import Mapping

from starlette.requests import Request
from starlette.types import Message

from headrace_gateway.refusals import Malformed
from headrace_gateway.server.auth.schemes import repeated_credentials
from headrace_gateway.settings import GatewaySettings
from headrace_gateway.streaming.grpc import Context

AGENT_NAME = "agent-name"
"""Metadata key of the agent's name."""


class RpcRequest:
    """One RPC, and whether its client is still connected."""

    def __init__(self, context: Context, settings: GatewaySettings) -> None:
        """Read the metadata of `context`."""
        self._gone = asyncio.Event()
        self.metadata = _texts(context)
        # gRPC does not report the host name that the client used.
        headers = [(key.encode(), value.encode()) for key, value in self.metadata if key != "host"]
        agent = dict(self.metadata).get(AGENT_NAME)
        self.names_agent = bool(agent)
        """Whether the metadata name the agent; otherwise the message may do so."""
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

    def check(self) -> None:
        """Check that at most one caller is named.

        Raises:
            Malformed: there are several tokens or keys, as with HTTP's headers.
        """
        repeated = repeated_credentials([name for name, _ in self.request.headers.raw])
        if repeated is not None:
            raise Malformed([repeated])

    def hang_up(self) -> None:
        """Mark the client as disconnected."""
        self._gone.set()

    async def _receive(self) -> Message:
        await self._gone.wait()
        return {"type": "http.disconnect"}


def outgoing(headers: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """Return HTTP headers as metadata."""
    return tuple((name.lower(), value) for name, value in headers.items())


def _texts(context: Context) -> list[tuple[str, str]]:
    """Return the text metadata; gRPC's keys are in lower case."""
    return [
        (key, value)
        for key, value in context.invocation_metadata() or ()
        if isinstance(value, str) and not key.endswith("-bin")
    ]
