"""``/metrics``: what this gateway counts, and how it is loaded now."""

from collections.abc import Callable

from prometheus_client import (
    CONTENT_TYPE_LATEST,
    REGISTRY,
    CollectorRegistry,
    Gauge,
    generate_latest,
)
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from headrace_gateway.services import Services


class MetricsPage:
    """Answers Prometheus."""

    def __init__(self, services: Services) -> None:
        """Tell of the gateway that is made of `services`."""
        self._now = CollectorRegistry()
        cards, available = services.directory.cards, services.directory.available
        gauges: dict[tuple[str, str], Callable[[], float]] = {
            ("headrace_open_streams", "Streams and WebSockets that are open."): (
                lambda: len(services.stream_limits)
            ),
            ("headrace_open_requests", "Requests that are being carried out, without streams."): (
                lambda: len(services.requests)
            ),
            ("headrace_feeds", "Logs that are being followed for clients."): (
                lambda: len(services.feeds)
            ),
            ("headrace_agents", "Agents that are known."): lambda: len(cards()),
            ("headrace_agents_available", "Agents that a worker serves now."): (
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
        body = generate_latest(REGISTRY) + generate_latest(self._now)
        headers = {"Content-Type": CONTENT_TYPE_LATEST, "Cache-Control": "no-store"}
        return Response(body, headers=headers)
