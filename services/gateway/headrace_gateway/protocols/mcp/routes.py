"""MCP's route. What serves it is loaded with its first request: MCP's models are a large import."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from starlette.requests import Request
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp

from headrace.lazy import Lazy
from headrace_gateway.services import Services

if TYPE_CHECKING:
    from headrace_gateway.protocols.mcp.endpoint import McpEndpoint

PATH = "/mcp"


def routes(services: Services) -> Sequence[BaseRoute]:
    """Return the route of the MCP endpoint, for the table."""

    def load() -> "McpEndpoint":
        from headrace_gateway.protocols.mcp.endpoint import McpEndpoint  # noqa: PLC0415 - see above

        return McpEndpoint(services)

    endpoint = Lazy(load)

    async def serve(request: Request) -> ASGIApp:
        return await (await endpoint.ready()).serve(request)

    return [Route(PATH, serve, methods=["POST", "GET", "DELETE"])]
