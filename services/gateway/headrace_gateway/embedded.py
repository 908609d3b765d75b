"""A gateway inside another ASGI application, on that application's server."""

import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from starlette.types import ASGIApp, Receive, Scope, Send

from headrace.jetstream.connection import OnClosed
from headrace.processes import ProcessAnswers
from headrace_gateway.app import build_app
from headrace_gateway.composition import composed
from headrace_gateway.protocol_table import PROTOCOLS
from headrace_gateway.request_metrics import RequestMetrics
from headrace_gateway.server.listeners import Unprotected
from headrace_gateway.server.long_responses import DeferringApp
from headrace_gateway.server.open_requests import OpenRequests
from headrace_gateway.settings import GatewaySettings


class EmbeddedGateway:
    """A gateway as an ASGI application, to be mounted in a Starlette or FastAPI application.

    Starlette does not run the lifespan of what is mounted, so the outer application's lifespan
    enters `lifespan`.
    """

    def __init__(self, settings: GatewaySettings) -> None:
        """Use `settings`; connect to nothing yet.

        Raises:
            Unprotected: neither credentials nor anonymous callers are configured. The address that
                the outer server listens on is not known, so loopback is not assumed.
        """
        if settings.credentials is None and not settings.allow_anonymous:
            raise Unprotected(
                "an embedded gateway cannot determine where its server listens: set "
                "HEADRACE_CREDENTIALS to a file (headrace credential), or set "
                "HEADRACE_ALLOW_ANONYMOUS=true"
            )
        # Cards name no gRPC address, because no port is opened.
        self._settings = settings.model_copy(update={"grpc_port": 0})
        self._running: ASGIApp | None = None
        self._on_closed_callbacks = list[OnClosed]()

    def on_closed(self, callback: OnClosed) -> None:
        """Call `callback` with the reason if the connection to NATS is closed for good.

        From then on, requests are answered with 503 until the lifespan is entered again: end the
        process, so that it is started again.
        """
        self._on_closed_callbacks.append(callback)

    @asynccontextmanager
    async def lifespan(self, app: object = None) -> AsyncIterator[None]:  # noqa: ARG002 - Starlette's
        """Serve requests for the length of a block, with an own connection to NATS.

        This can be the lifespan of the outer application as it is, or a block inside it.

        Args:
            app: the outer application, which is not used.

        Raises:
            BusUnavailable: NATS was unavailable for longer than HEADRACE_STARTUP_TIMEOUT.
            SettingInvalid: a file named in a setting is missing or invalid.
        """
        requests = OpenRequests(RequestMetrics().ended)
        async with composed(self._settings, requests) as services:
            answers = ProcessAnswers(
                services.bus, "gateway", secrets.token_hex(4), changes_level=False
            )
            await answers.start()
            for callback in self._on_closed_callbacks:
                services.bus.on_closed(callback)
            self._running = DeferringApp(requests, build_app(services, PROTOCOLS))
            try:
                yield
            finally:
                self._running = None
                requests.give_up()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request.

        Raises:
            RuntimeError: the gateway's lifespan was not entered, or has ended.
        """
        if self._running is None:
            raise RuntimeError(
                "the embedded gateway does not run: enter `gateway.lifespan()` in the lifespan of "
                "the application that mounts it"
            )
        await self._running(scope, receive, send)
