"""A2A's routes: under each agent's base, and at the root for the default agent."""

from collections.abc import Sequence

from starlette.routing import BaseRoute

from headrace_gateway.call import AGENT
from headrace_gateway.protocols.a2a.discovery import Discovery
from headrace_gateway.protocols.a2a.errors import RestErrors
from headrace_gateway.protocols.a2a.jsonrpc import JsonRpcBinding
from headrace_gateway.protocols.a2a.rest import RestBinding
from headrace_gateway.protocols.a2a.versions import Versions
from headrace_gateway.protocols.a2a.websocket.session import SocketEndpoint
from headrace_gateway.server.open_requests import Endpoint
from headrace_gateway.services import Services


class A2ARoutes:
    """The routes of the HTTP and WebSocket bindings, and the pages of agent cards."""

    def __init__(self, versions: Versions) -> None:
        """Serve those versions, and Hector's forms on request."""
        self._versions = versions
        self.errors = RestErrors()
        """Error responses of REST's routes, and of requests that belong to no protocol."""

    def routes(self, services: Services) -> Sequence[BaseRoute]:
        """Return the routes, the most used first."""
        rpc, rest = self._rpc(services), self._rest(services)
        sockets = SocketEndpoint(services)
        return [
            *rpc.routes(AGENT),
            *rest.routes(AGENT),
            *rpc.routes(""),
            *rest.routes(""),
            *sockets.routes(AGENT),
            *sockets.routes(""),
        ]

    def other_routes(self, services: Services) -> Sequence[BaseRoute]:
        """Return the card pages, the routes of 0.3, and routes with a tenant, as in cards."""
        cards = Discovery(services, self._versions, self.errors)
        rest = self._rest(services)
        return [*cards.routes(), *rest.other_routes(AGENT), *rest.other_routes("")]

    def hectors_rpc_endpoint(self, services: Services) -> Endpoint:
        """Return the endpoint for JSON-RPC calls that may have Hector's forms."""
        return self._rpc(services).endpoint(is_hectors=True)

    def rest_endpoint(self, services: Services, operation: str) -> Endpoint:
        """Return the endpoint for REST's requests for `operation`."""
        return self._rest(services).endpoint(operation)

    def _rpc(self, services: Services) -> JsonRpcBinding:
        return JsonRpcBinding(services, self._versions)

    def _rest(self, services: Services) -> RestBinding:
        return RestBinding(services, self._versions, self.errors)
