"""Where A2A's clients come in: under each agent's base, and at the root for the default agent."""

from collections.abc import Sequence

from starlette.routing import BaseRoute

from headrace_gateway.protocols.a2a.agui_route import StreamRoute
from headrace_gateway.protocols.a2a.jsonrpc import JsonRpcBinding
from headrace_gateway.protocols.a2a.rest import RestBinding
from headrace_gateway.protocols.a2a.websocket.endpoint import SocketEndpoint
from headrace_gateway.protocols.a2a.wording import Versions
from headrace_gateway.services import Services

AGENT = "/v1/agents/{agent}"
"""Base of one agent's routes; the default agent's are at the root too."""


class A2ARoutes:
    """The routes of the bindings over HTTP and WebSockets."""

    def __init__(self, versions: Versions) -> None:
        """Serve those versions."""
        self._versions = versions

    def routes(self, services: Services) -> Sequence[BaseRoute]:
        """Return the routes, the most used first."""
        rpc = JsonRpcBinding(services, self._versions)
        rest = RestBinding(services, self._versions)
        stream = StreamRoute(services, rpc.older, rest.endpoint("SendStreamingMessage"))
        sockets = SocketEndpoint(services)
        return [
            *rpc.routes(AGENT),
            *rest.routes(AGENT),
            *rpc.routes(""),
            *rpc.older_routes(AGENT),
            *rpc.older_routes(""),
            *rest.routes(""),
            *stream.routes(AGENT),
            *stream.routes(""),
            *sockets.routes(AGENT),
            *sockets.routes(""),
        ]

    def other_routes(self, services: Services) -> Sequence[BaseRoute]:
        """Return the same as 0.3 has them, and with a tenant, which a card may ask for."""
        rest = RestBinding(services, self._versions)
        return [*rest.other_routes(AGENT), *rest.other_routes("")]
