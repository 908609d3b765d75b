"""The gRPC server: its port, its handlers and its shutdown."""

import asyncio
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import grpc
import grpc.aio
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection, reflection_pb2_grpc

from headrace.background import keep_running
from headrace.jetstream.connection import Bus
from headrace_gateway.problems import problem_of
from headrace_gateway.protocols.a2a.grpc.errors import refuse
from headrace_gateway.protocols.a2a.grpc.forms import Form
from headrace_gateway.protocols.a2a.grpc.public_services import PublicServices
from headrace_gateway.protocols.a2a.grpc.service import Service
from headrace_gateway.refusals import GatewayStarting
from headrace_gateway.server.listeners import CannotListen, listen
from headrace_gateway.server.open_requests import GRACE
from headrace_gateway.services import Services
from headrace_gateway.settings import GatewaySettings
from headrace_gateway.streaming.grpc import Context
from headrace_gateway.timing import TIMING, GatewayTiming

type _Handler = grpc.RpcMethodHandler[Any, Any]
"""An alias, because the class takes no type parameters at run time."""

_LOOK = 1.0
"""Seconds between two checks of whether the gateway can serve."""

_LEAST_PING_INTERVAL = 5_000
"""Milliseconds; clients that ping more often are disconnected."""


class GrpcServer:
    """Listens from the start; refuses calls until `open`."""

    def __init__(
        self, settings: GatewaySettings, forms: Sequence[Form], timing: GatewayTiming = TIMING
    ) -> None:
        """Create the server for those versions of A2A, in the running loop."""
        self._settings, self._forms = settings, forms
        self._names = [form.service for form in forms]
        self._handlers = _Handlers(self._names)
        self._health = health.aio.HealthServicer()
        self._public = PublicServices()
        self._server = grpc.aio.server(
            handlers=[self._handlers, self._public], options=_options(settings, timing)
        )
        self._watching: asyncio.Task[None] | None = None

    async def start(self) -> int:
        """Listen, and return the port.

        Raises:
            CannotListen: the port is in use, or the address is not a local one.
        """
        host, port = self._settings.http_host, self._settings.grpc_port
        # gRPC reports only that it failed; this reports the reason.
        listen(host, port, "HEADRACE_GRPC_PORT").close()
        try:
            port = self._server.add_insecure_port(f"{_in_url(host)}:{port}")
        except RuntimeError:
            where = f"{host}:{port} (HEADRACE_HTTP_HOST, HEADRACE_GRPC_PORT)"
            raise CannotListen(f"cannot listen on {where}") from None
        await self._report(serving=False)
        health_pb2_grpc.add_HealthServicer_to_server(self._health, self._public)
        reflected = [*self._names, health.SERVICE_NAME, reflection.SERVICE_NAME]
        reflection_pb2_grpc.add_ServerReflectionServicer_to_server(
            reflection.aio.ReflectionServicer(reflected), self._public
        )
        await self._server.start()
        return port

    def open(self, services: Services) -> None:
        """Serve the operations over `services` from now on."""
        self._handlers.handlers = {
            path: handler
            for form in self._forms
            for path, handler in Service(services, form).handlers()
        }
        self._watching = keep_running(partial(self._watch, services.bus), "gRPC health")

    async def stop(self) -> None:
        """Accept no more calls and end the running ones."""
        if self._watching is not None:
            self._watching.cancel()
        await self._health.enter_graceful_shutdown()
        await self._server.stop(GRACE)

    async def _watch(self, bus: Bus) -> None:
        """Make the health service report the same as ``/readyz``."""
        while True:
            await self._report(serving=bus.answers)
            await asyncio.sleep(_LOOK)

    async def _report(self, *, serving: bool) -> None:
        kinds = health_pb2.HealthCheckResponse
        status = kinds.SERVING if serving else kinds.NOT_SERVING
        for name in ("", *self._names):
            await self._health.set(name, status)


class _Handlers(grpc.GenericRpcHandler):
    """Dispatches RPCs by their path."""

    def __init__(self, services: Sequence[str]) -> None:
        self._services = services
        self.handlers: Mapping[str, _Handler] | None = None
        self._starting: _Handler = grpc.stream_unary_rpc_method_handler(_refuse_for_now)

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> _Handler | None:
        path = handler_call_details.method
        if self.handlers is not None:
            return self.handlers.get(path)
        is_ours = any(path.startswith(f"/{name}/") for name in self._services)
        return self._starting if is_ours else None


async def _refuse_for_now(requests: object, context: Context) -> bytes:  # noqa: ARG001 - signature of a handler
    await refuse(context, problem_of(GatewayStarting()))


def _in_url(host: str) -> str:
    return f"[{host}]" if ":" in host else host or "[::]"


def _options(settings: GatewaySettings, timing: GatewayTiming) -> list[tuple[str, Any]]:
    keepalive = int(settings.keepalive * 1000)
    return [
        ("grpc.so_reuseport", 0),  # otherwise two gateways could share a port unnoticed
        ("grpc.max_receive_message_length", settings.max_body_bytes),
        ("grpc.max_send_message_length", -1),
        ("grpc.max_concurrent_streams", settings.socket_streams),
        # For the first frame of a connection; gRPC's pings notice a client that is silent after it.
        ("grpc.server_handshake_timeout_ms", int(timing.silence * 1000)),
        # Otherwise clients on fast connections may send megabytes per stream that nobody asked for.
        ("grpc.http2.bdp_probe", 0),
        ("grpc.keepalive_time_ms", keepalive),
        ("grpc.keepalive_timeout_ms", keepalive),
        ("grpc.http2.ping_timeout_ms", keepalive),  # otherwise 60 s, whatever the timeout above is
        ("grpc.keepalive_permit_without_calls", 1),
        ("grpc.http2.max_pings_without_data", 0),
        ("grpc.http2.min_ping_interval_without_data_ms", _LEAST_PING_INTERVAL),
    ]
