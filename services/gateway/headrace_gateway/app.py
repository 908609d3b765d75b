"""The gateway's routes, and what stands before them."""

from collections.abc import Sequence

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.routing import BaseRoute

from headrace_gateway.call import AGENT
from headrace_gateway.extensions import NAMES
from headrace_gateway.file_download import FileDownload
from headrace_gateway.metrics_page import MetricsPage
from headrace_gateway.protocol_table import ERRORS, Protocol
from headrace_gateway.server.health import Health
from headrace_gateway.server.origin import LOOPBACK, LOOPBACK_ORIGIN, OriginGuard
from headrace_gateway.services import Services
from headrace_gateway.settings import GatewaySettings

_EXPOSED = [
    *NAMES,
    "ETag",
    "Last-Modified",
    "WWW-Authenticate",
    "Headrace-Recovered",
    "Retry-After",
]


def build_app(services: Services, protocols: Sequence[Protocol]) -> Starlette:
    """Return the application that serves `protocols` over `services`."""
    return Starlette(
        routes=[
            *(route for protocol in protocols for route in protocol.routes(services)),
            *_routes(services),
            *(route for protocol in protocols for route in protocol.other_routes(services)),
        ],
        middleware=_middleware(services.settings),
        exception_handlers={HTTPException: ERRORS.no_such_route},
    )


def _routes(services: Services) -> list[BaseRoute]:
    """Return the routes of no protocol."""
    files = FileDownload(services, ERRORS.answering)
    return [
        *Health(services.bus, services.health_probe).routes(),
        *MetricsPage(services).routes(),
        *files.routes(AGENT),
        *files.routes(""),
    ]


def _middleware(settings: GatewaySettings) -> list[Middleware]:
    guard = Middleware(OriginGuard, settings=settings, forbidden=ERRORS.forbidden)
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
