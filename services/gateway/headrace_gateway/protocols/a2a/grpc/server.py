"""The gRPC server: its port, its handlers and its shutdown."""

import asyncio
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import grpc
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection, reflection_pb2_grpc

from headrace.background import keep_running
from headrace.jetstream.connection import Bus
from headrace.ticks import tick
from headrace_gateway.problems import problem_of
from headrace_gateway.protocols.a2a.grpc.errors import refuse
from headrace_gateway.protocols.a2a.grpc.forms import Form
from headrace_gateway.protocols.a2a.grpc.public_services import PublicServices
from headrace_gateway.protocols.a2a.grpc.rpc_server import RpcServer
from headrace_gateway.protocols.a2a.grpc.service import ServedMethod, Service
from headrace_gateway.protocols.a2a.operations import STREAMING
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
        self._methods: Mapping[str, ServedMethod] = {}
        self._health = health.aio.HealthServicer()
        self._server = RpcServer(_options(settings, timing))
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
        self._add_methods()
        await self._server.start()
        return port

    def open(self, services: Services) -> None:
        """Serve the operations over `services` from now on."""
        self._methods = {
            path: method
            for form in self._forms
            for path, method in Service(services, form).methods()
        }
        self._watching = keep_running(partial(self._watch, services.bus), "gRPC health")

    async def stop(self) -> None:
        """Accept no more calls and end the running ones."""
        if self._watching is not None:
            self._watching.cancel()
        await self._health.enter_graceful_shutdown()
        await self._server.stop(GRACE)

    def _add_methods(self) -> None:
        for form in self._forms:
            methods = {
                method: self._handler(f"/{form.service}/{method}", streams=operation in STREAMING)
                for method, operation in form.operations.items()
            }
            self._server.add_registered_method_handlers(form.service, methods)
        public: Any = PublicServices(self._server)
        health_pb2_grpc.add_HealthServicer_to_server(self._health, public)
        reflected = [*self._names, health.SERVICE_NAME, reflection.SERVICE_NAME]
        reflection_pb2_grpc.add_ServerReflectionServicer_to_server(
            reflection.aio.ReflectionServicer(reflected), public
        )

    def _handler(self, path: str, *, streams: bool) -> _Handler:
        """Return the handler of one method.

        It takes its request as the only message of a stream, which is the same on the wire.
        Otherwise gRPC would read the whole request, and wait for it without limit, before the
        caller is known.
        """

        async def serve(requests: object, context: Context) -> bytes | None:
            return await self._methods.get(path, _refuse_for_now)(requests, context)

        if streams:
            return grpc.stream_stream_rpc_method_handler(serve)
        return grpc.stream_unary_rpc_method_handler(serve)

    async def _watch(self, bus: Bus) -> None:
        """Make the health service report the same as ``/readyz``."""
        reported = None
        while True:
            if bus.answers is not reported:
                reported = bus.answers
                await self._report(serving=reported)
            await tick(_LOOK)

    async def _report(self, *, serving: bool) -> None:
        kinds = health_pb2.HealthCheckResponse
        status = kinds.SERVING if serving else kinds.NOT_SERVING
        for name in ("", *self._names):
            await self._health.set(name, status)


async def _refuse_for_now(requests: object, context: Context) -> bytes | None:  # noqa: ARG001 - signature of a handler
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
