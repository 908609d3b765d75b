"""The gateway's routes and middleware."""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress

from prometheus_client import (
    CONTENT_TYPE_LATEST,
    REGISTRY,
    CollectorRegistry,
    Gauge,
    generate_latest,
)
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route, WebSocketRoute
from starlette.types import ASGIApp, Receive, Scope, Send
from starlette.websockets import WebSocket

from headrace.model.cursor import RECOVERED_HEADER
from headrace.model.task import TASK_HEADER
from headrace_gateway.api_pages import OpenApiPages
from headrace_gateway.call import AGENT
from headrace_gateway.console.pages import ConsolePages
from headrace_gateway.extensions import NAMES
from headrace_gateway.file_download import FileDownload
from headrace_gateway.fleet_metrics import FleetMetrics
from headrace_gateway.protocol_table import ERRORS, Protocol
from headrace_gateway.quota_header import QUOTA_HEADER
from headrace_gateway.refusals import GatewayStarting
from headrace_gateway.server.auth.signed_urls import is_download_by_signature
from headrace_gateway.server.development import is_development
from headrace_gateway.server.endpoints import DirectRoutes, EndpointApp, headers_of
from headrace_gateway.server.forwarded import ForwardedApp, TrustedProxies
from headrace_gateway.server.health import Health, healthy
from headrace_gateway.server.json_response import NO_STORE
from headrace_gateway.server.open_requests import ProtocolApp
from headrace_gateway.server.origin import LOOPBACK, LOOPBACK_ORIGIN, OriginGuard, PageCors
from headrace_gateway.server.websocket_close import close_at_once, try_later
from headrace_gateway.services import Services
from headrace_gateway.settings import GatewaySettings
from headrace_gateway.wait_calls import WaitCalls


class MetricsPage:
    """The route for Prometheus."""

    def __init__(self, services: Services) -> None:
        """Report metrics of the gateway with these `services`."""
        self._now = CollectorRegistry()
        self._fleet = FleetMetrics(services)
        self._now.register(self._fleet)
        cards, available = services.directory.cards, services.directory.available
        gauges: dict[tuple[str, str], Callable[[], float]] = {
            ("headrace_open_streams", "Open streams and WebSockets."): (
                lambda: len(services.stream_limits)
            ),
            ("headrace_open_requests", "Requests in progress, without streams."): (
                lambda: len(services.requests)
            ),
            ("headrace_feeds", "Logs that this gateway follows for clients."): (
                lambda: len(services.feeds)
            ),
            ("headrace_feed_bytes", "Memory of these logs' cached events, in bytes."): (
                lambda: services.feeds.memory
            ),
            ("headrace_agents", "Known agents."): lambda: len(cards()),
            ("headrace_agents_available", "Agents with a live worker."): (
                lambda: sum(available(card.name) for card in cards())
            ),
            ("headrace_nats_connected", "1 while NATS is connected."): (
                lambda: float(services.bus.connected)
            ),
        }
        for (name, meaning), value in gauges.items():
            Gauge(name, meaning, registry=self._now).set_function(value)

    def routes(self) -> list[Route]:
        """Return the route."""
        return [Route("/metrics", self._page)]

    async def _page(self, request: Request) -> Response:  # noqa: ARG002 - a route
        await self._fleet.refresh()
        body = generate_latest(REGISTRY) + generate_latest(self._now)
        headers = {"Content-Type": CONTENT_TYPE_LATEST, **NO_STORE}
        return Response(body, headers=headers)


_EXPOSED = [
    QUOTA_HEADER,
    *NAMES,
    "ETag",
    "Last-Modified",
    "Mcp-Session-Id",
    "WWW-Authenticate",
    RECOVERED_HEADER,
    "Retry-After",
    TASK_HEADER,
]


def build_app(services: Services, protocols: Sequence[Protocol]) -> ASGIApp:
    """Return the application that serves `protocols` over `services`."""
    routes = routes_of(services, protocols)
    app = Starlette(routes=routes, exception_handlers={HTTPException: ERRORS.no_such_route})
    guarded = _guarded(DirectRoutes(app, routes, AGENT), services.settings)
    trusted = TrustedProxies(services.settings.trusted_proxies)
    return ForwardedApp(guarded, trusted) if trusted else guarded


def routes_of(services: Services, protocols: Sequence[Protocol]) -> list[BaseRoute]:
    """Return the routes of `protocols` and the gateway's own, in the order in which they count."""
    return [
        *(_console(services).routes() if services.settings.console else ()),
        *(route for one in protocols for route in _named(one.name, one.routes(services))),
        *_routes(services),
        *(route for one in protocols for route in _named(one.name, one.other_routes(services))),
    ]


def build_starting_app(limit: float) -> "StartingApp":
    """Return the application of a gateway that has no services yet: it asks clients to retry.

    `limit`: seconds for which requests for event streams wait.
    """
    refusing = Starlette(
        routes=[Route("/healthz", healthy), WebSocketRoute("/{path:path}", _starting_socket)],
        exception_handlers={HTTPException: ERRORS.starting},
    )
    return StartingApp(refusing, limit)


class StartingApp:
    """An ASGI application that holds requests for event streams until another one serves them.

    A browser's EventSource that gets 503 never connects again (HTML standard, 9.2.3), and it comes
    back seconds after its gateway was restarted. Any other client tries again, or another gateway.
    """

    def __init__(self, refusing: ASGIApp, limit: float) -> None:
        """Hold a GET of an event stream for at most `limit` seconds.

        Then, and at once all other requests, have `refusing` answer it.
        """
        self._app, self._limit = refusing, limit
        self._over = asyncio.Event()

    def end(self, app: ASGIApp | None = None) -> None:
        """Pass the held requests to `app`; None: the start failed, and they are refused."""
        self._app = app or self._app
        self._over.set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve or refuse the request, when it is known which."""
        if _is_event_source(scope):
            with suppress(TimeoutError):
                async with asyncio.timeout(self._limit):
                    await self._over.wait()
        await self._app(scope, receive, send)


def _is_event_source(scope: Scope) -> bool:
    if scope["type"] != "http" or scope["method"] != "GET":
        return False
    return "text/event-stream" in headers_of(scope).first.get("accept", "")


def _named(protocol: str, routes: Sequence[BaseRoute]) -> Iterator[BaseRoute]:
    """Yield the routes, which record the protocol's name for its metrics."""
    for route in routes:
        if isinstance(route, Route) and isinstance(route.app, EndpointApp):
            route.app.protocol = protocol
        elif isinstance(route, Route | WebSocketRoute):
            route.app = ProtocolApp(protocol, route.app)
        yield route


async def _starting_socket(socket: WebSocket) -> None:
    await close_at_once(socket, try_later(str(GatewayStarting())))


def _console(services: Services) -> ConsolePages:
    loopback = is_development(services.settings)
    return ConsolePages(lambda: services.callers.known, loopback=loopback)


def _routes(services: Services) -> list[BaseRoute]:
    """Return the routes outside of protocols."""
    files = FileDownload(services, ERRORS.map_errors)
    return [
        *Health(services.bus, services.stream_health.trouble).routes(),
        *MetricsPage(services).routes(),
        *files.routes(),
        *WaitCalls(services).routes(),
        *OpenApiPages().routes(),
    ]


def _guarded(app: ASGIApp, settings: GatewaySettings) -> ASGIApp:
    """Return `app` behind what checks where requests come from."""
    if settings.cors_origins:
        any_loopback = LOOPBACK in settings.cors_origins
        app = PageCors(
            app,
            allow_origins=[origin for origin in settings.cors_origins if origin != LOOPBACK],
            allow_origin_regex=LOOPBACK_ORIGIN.pattern if any_loopback else None,
            allow_methods=["GET", "POST", "PUT", "PATCH", "DELETE"],
            allow_headers=["*"],
            expose_headers=_EXPOSED,
            max_age=600,
        )
    return OriginGuard(app, settings, ERRORS.forbidden, is_download_by_signature)
