"""The protocols that a gateway serves: a line each. Nothing else names them all."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from starlette.routing import BaseRoute

from headrace_gateway.protocols.a2a.grpc.forms import CURRENT
from headrace_gateway.protocols.a2a.routes import A2ARoutes
from headrace_gateway.protocols.a2a_v03.grpc import OLD
from headrace_gateway.protocols.a2a_v03.wordings import VERSIONS
from headrace_gateway.protocols.agui import endpoint as agui
from headrace_gateway.protocols.copilotkit.runtime import CopilotRuntime
from headrace_gateway.services import Services


class Protocol(NamedTuple):
    """One protocol, over HTTP and WebSockets."""

    name: str
    routes: Callable[[Services], Sequence[BaseRoute]]
    """Where its clients come in; of two routes that fit, the first one is taken."""
    other_routes: Callable[[Services], Sequence[BaseRoute]] = lambda _: ()
    """Those that fit nearly any path: they come behind everybody's."""


_A2A = A2ARoutes(VERSIONS)

PROTOCOLS = (
    Protocol("a2a", _A2A.routes, _A2A.other_routes),
    Protocol("ag-ui", agui.routes),
    Protocol("copilotkit", lambda services: CopilotRuntime(services).routes()),
)
"""The most used first."""

RPC_FORMS = (CURRENT, OLD)
"""The forms of A2A that gRPC serves."""
