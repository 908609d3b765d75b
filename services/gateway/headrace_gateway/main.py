"""The gateway's process: from the environment to a running gateway and an exit code."""

import asyncio
import logging
import os
import secrets
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial

from headrace import service
from headrace.processes import ProcessAnswers
from headrace_gateway.app import build_app, build_starting_app
from headrace_gateway.composition import composed
from headrace_gateway.protocol_table import PROTOCOLS, RPC_FORMS, Protocol
from headrace_gateway.protocols.a2a.grpc.server import GrpcServer
from headrace_gateway.request_metrics import RequestMetrics
from headrace_gateway.server.http_server import HttpServer
from headrace_gateway.server.listeners import check_exposure, listen
from headrace_gateway.server.long_responses import DeferringApp
from headrace_gateway.server.open_requests import ANSWERS, OpenRequests
from headrace_gateway.settings import GatewaySettings
from headrace_gateway.timing import TIMING, GatewayTiming

_log = logging.getLogger("headrace_gateway")


def run() -> int:
    """Serve until SIGTERM or SIGINT; return the process's exit code (see `headrace.service`)."""
    return service.run(_prepare, os.environ)


def _prepare() -> service.PreparedService:
    settings = GatewaySettings()
    logging.getLogger("uvicorn").setLevel(logging.WARNING)
    return service.PreparedService(
        settings.log_options("headrace-gateway"), partial(serving, settings)
    )


@asynccontextmanager
async def serving(
    settings: GatewaySettings,
    stop: service.Stop,
    protocols: Sequence[Protocol] = PROTOCOLS,
    timing: GatewayTiming = TIMING,
) -> AsyncIterator[None]:
    """Serve `protocols` for the length of a block.

    `stop` is set if the server ends by itself, and failed if NATS is lost for good.

    Raises:
        Unprotected: the gateway would be open beyond loopback, and no setting allows it.
        CannotListen: a port is in use.
        BusUnavailable: NATS was unavailable for longer than HEADRACE_STARTUP_TIMEOUT.
        SettingInvalid: a file named in a setting is missing or invalid.
    """
    check_exposure(settings)
    service.export_build("gateway")
    requests = OpenRequests(RequestMetrics().ended)
    starting = build_starting_app(timing.starting)
    front = DeferringApp(requests, starting)
    async with AsyncExitStack() as stack:
        listeners = [listen(settings.http_host, settings.http_port)]
        stack.callback(listeners[0].close)
        for extra in settings.extra_http_ports:
            listeners.append(listen(settings.http_host, extra, "HEADRACE_EXTRA_HTTP_PORTS"))
            stack.callback(listeners[-1].close)
        host, port, *_ = listeners[0].getsockname()
        rpcs, server = GrpcServer(settings, RPC_FORMS, timing), HttpServer(front, settings, timing)
        rpc_port = await rpcs.start()
        settings = settings.model_copy(update={"grpc_port": rpc_port, "http_port": port})
        http = asyncio.create_task(server.serve(sockets=listeners))
        http.add_done_callback(ended := lambda _: stop.set())
        try:
            services = await stack.enter_async_context(composed(settings, requests, timing))
            services.bus.on_closed(stop.fail)
            process = secrets.token_hex(4)
            await ProcessAnswers(services.bus, "gateway", process).start()
            app = build_app(services, protocols)
            front.switch_to(app)
            starting.end(app)
            rpcs.open(services)
            _log.info(
                "serving on http://%s:%d, gRPC on port %d, as process %s",
                *(host, port, rpc_port, process),
            )
            yield
            await services.streams.stop()
        finally:
            # Otherwise a start that failed would end like one that was stopped.
            http.remove_done_callback(ended)
            starting.end()
            # Requests in progress end first, then the services that they use.
            server.stop()
            giving_up = asyncio.get_running_loop().call_later(ANSWERS, requests.give_up)
            await asyncio.gather(http, rpcs.stop())
            giving_up.cancel()
