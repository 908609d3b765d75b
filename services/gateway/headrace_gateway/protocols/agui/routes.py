"""The AG-UI routes, on which clients start runs and reconnect to them.

What serves them is imported with the first request for one of them.
"""

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from starlette.routing import BaseRoute, Route, WebSocketRoute
from starlette.websockets import WebSocket

from headrace.lazy import Lazy
from headrace_gateway.json_errors import map_errors_to_json
from headrace_gateway.server.any_text import any_text
from headrace_gateway.server.endpoints import EndpointApp, on_demand
from headrace_gateway.server.open_requests import Endpoint
from headrace_gateway.services import Services

if TYPE_CHECKING:
    from headrace_gateway.protocols.agui.endpoint import RunEndpoint

BASES = ("/v1/agents/{agent}/ag-ui", "/api/agent")
"""Base paths of an agent's AG-UI routes; the last one is the default agent's."""

type _Page = Callable[["RunEndpoint"], Endpoint]

_PAGES: dict[str, tuple[_Page, list[str]]] = {
    "": (lambda runs: runs.run, ["POST"]),
    "/": (lambda runs: runs.run, ["POST"]),
    "/attach": (lambda runs: runs.attach, ["GET", "POST"]),
    "/connect": (lambda runs: runs.connect, ["POST"]),
    "/capabilities": (lambda runs: runs.capabilities, ["GET"]),
    "/stop": (lambda runs: runs.stop, ["POST"]),
    f"/threads/{any_text('thread')}": (lambda runs: runs.thread, ["GET"]),
}


def routes(services: Services) -> list[BaseRoute]:
    """Return the routes of the AG-UI endpoint."""
    runs = endpoint_of(services)

    async def socket(socket: WebSocket) -> None:
        await (await runs.ready()).socket(socket)

    plain: list[BaseRoute] = [
        Route(base + path, EndpointApp(map_errors_to_json(on_demand(runs, page))), methods=methods)
        for base in BASES
        for path, (page, methods) in _PAGES.items()
    ]
    return [*plain, *(WebSocketRoute(f"{base}/ws", socket) for base in BASES)]


def endpoint_of(services: Services) -> Lazy["RunEndpoint"]:
    """Return what starts runs and attaches clients to them, imported on first use."""
    return Lazy(partial(_endpoint, services))


def _endpoint(services: Services) -> "RunEndpoint":
    from headrace_gateway.protocols.agui.endpoint import RunEndpoint  # noqa: PLC0415 - see above

    return RunEndpoint(services)
