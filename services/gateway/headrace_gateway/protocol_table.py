"""The protocols that a gateway serves, one line each; this is the only complete list."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from starlette.routing import BaseRoute

from headrace_gateway.protocols.a2a.grpc.forms import CURRENT
from headrace_gateway.protocols.a2a.routes import A2ARoutes
from headrace_gateway.protocols.a2a.versions import Versions
from headrace_gateway.protocols.a2a_v03.on_demand import JSON_BINDINGS, OLD
from headrace_gateway.protocols.agui import routes as agui
from headrace_gateway.protocols.ai_sdk import routes as ai_sdk
from headrace_gateway.protocols.copilotkit.runtime import CopilotRuntime
from headrace_gateway.protocols.fleet import routes as fleet
from headrace_gateway.protocols.hector.routes import HectorRoutes
from headrace_gateway.protocols.mcp import routes as mcp
from headrace_gateway.protocols.openai import routes as openai
from headrace_gateway.services import Services


class Protocol(NamedTuple):
    """One protocol, over HTTP and WebSockets."""

    name: str
    routes: Callable[[Services], Sequence[BaseRoute]]
    """The protocol's routes; the first matching route is used."""
    other_routes: Callable[[Services], Sequence[BaseRoute]] = lambda _: ()
    """Routes that match nearly any path; they come after all protocols' `routes`."""


_A2A = A2ARoutes(Versions(JSON_BINDINGS))


def _hector(services: Services) -> Sequence[BaseRoute]:
    """Return Hector's routes, which use A2A's bindings."""
    rpc = _A2A.hectors_rpc_endpoint(services)
    rest = _A2A.rest_endpoint(services, "SendStreamingMessage")
    return HectorRoutes(services, rpc, rest, _A2A.errors.map_errors).routes()


def _copilotkit(services: Services) -> Sequence[BaseRoute]:
    """Return the routes of CopilotKit's client, which use AG-UI's runs."""
    return CopilotRuntime(services, agui.endpoint_of(services).ready).routes()


PROTOCOLS = (
    Protocol("a2a", _A2A.routes, _A2A.other_routes),
    Protocol("hector", _hector),
    Protocol("ag-ui", agui.routes),
    Protocol("copilotkit", _copilotkit),
    Protocol("mcp", mcp.routes),
    Protocol("ai-sdk", ai_sdk.routes),
    Protocol("fleet", fleet.routes),
    Protocol("openai", openai.routes),
)
"""Most used first."""

ERRORS = _A2A.errors
"""Error responses for requests that match no protocol."""

RPC_FORMS = (CURRENT, OLD)
"""The forms of A2A that gRPC serves."""
