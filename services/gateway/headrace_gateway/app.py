"""The gateway's routes, and what stands before them."""

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.routing import BaseRoute

from headrace_gateway.discovery import Discovery
from headrace_gateway.file_download import FileDownload
from headrace_gateway.metrics_page import MetricsPage
from headrace_gateway.protocols.a2a.agui_route import StreamRoute
from headrace_gateway.protocols.a2a.jsonrpc import JsonRpcBinding
from headrace_gateway.protocols.a2a.rest import RestBinding
from headrace_gateway.protocols.a2a.rest_errors import forbidden, no_such_route
from headrace_gateway.protocols.a2a.websocket.endpoint import SocketEndpoint
from headrace_gateway.protocols.a2a_v03.wordings import VERSIONS
from headrace_gateway.protocols.agui import endpoint as agui
from headrace_gateway.protocols.copilotkit.runtime import CopilotRuntime
from headrace_gateway.server.health import Health
from headrace_gateway.server.origin import LOOPBACK, LOOPBACK_ORIGIN, OriginGuard
from headrace_gateway.services import Services
from headrace_gateway.settings import GatewaySettings

AGENT = "/v1/agents/{agent}"
"""Base of one agent's routes; the default agent's are at the root too."""

_EXPOSED = [
    "A2A-Extensions",
    "ETag",
    "Last-Modified",
    "WWW-Authenticate",
    "Headrace-Recovered",
    "Retry-After",
]


def build_app(services: Services) -> Starlette:
    """Return the application that serves over `services`."""
    return Starlette(
        routes=_routes(services),
        middleware=_middleware(services.settings),
        exception_handlers={HTTPException: no_such_route},
    )


def _routes(services: Services) -> list[BaseRoute]:
    rpc, rest = JsonRpcBinding(services, VERSIONS), RestBinding(services, VERSIONS)
    stream = StreamRoute(services, rpc.older, rest.endpoint("SendStreamingMessage"))
    return [
        *rpc.routes(AGENT),
        *rest.routes(AGENT),
        *rpc.routes(""),
        *rpc.older_routes(AGENT),
        *rpc.older_routes(""),
        *rest.routes(""),
        *stream.routes(AGENT),
        *stream.routes(""),
        *SocketEndpoint(services).routes(AGENT),
        *SocketEndpoint(services).routes(""),
        *FileDownload(services).routes(AGENT),
        *FileDownload(services).routes(""),
        *agui.routes(services),
        *CopilotRuntime(services).routes(),
        *Discovery(services).routes(),
        *Health(services.bus, services.pulse).routes(),
        *MetricsPage(services).routes(),
        *rest.other_routes(AGENT),
        *rest.other_routes(""),
    ]


def _middleware(settings: GatewaySettings) -> list[Middleware]:
    guard = Middleware(OriginGuard, settings=settings, forbidden=forbidden)
    if not settings.cors_origins:
        return [guard]
    cors = Middleware(
        CORSMiddleware,
        allow_origins=[origin for origin in settings.cors_origins if origin != LOOPBACK],
        allow_origin_regex=LOOPBACK_ORIGIN.pattern if LOOPBACK in settings.cors_origins else None,
        allow_methods=["GET", "POST", "DELETE"],
        allow_headers=["*"],
        expose_headers=_EXPOSED,
        max_age=600,
    )
    return [guard, cors]
