"""The gateway's composition root: from settings to a running gateway and an exit code."""

import asyncio
import logging
import os
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial

from headrace import service
from headrace.directory import Directory
from headrace.jetstream.connection import Bus
from headrace.jetstream.health_probe import HealthProbe
from headrace.links import Links
from headrace.log import TailRule
from headrace.signing import SigningKeys
from headrace.state_client import StateClient
from headrace.webhooks import Webhooks
from headrace_gateway.app import build_app
from headrace_gateway.detached import Detached
from headrace_gateway.feeds import Feeds
from headrace_gateway.protocol_table import PROTOCOLS, RPC_FORMS, Protocol
from headrace_gateway.protocols.a2a.grpc.server import GrpcServer
from headrace_gateway.server.auth.access import Access, RateLimits
from headrace_gateway.server.auth.authenticate import Callers
from headrace_gateway.server.auth.schemes import key_headers
from headrace_gateway.server.body import BodyLimits, HeldBodies
from headrace_gateway.server.deferred_response import StartupApp
from headrace_gateway.server.http_protocol import HttpServer
from headrace_gateway.server.listeners import Unprotected, check_exposure, listen
from headrace_gateway.server.open_requests import ANSWERS, OpenRequests
from headrace_gateway.server.public_url import own_url
from headrace_gateway.server.stream_limits import StreamLimits
from headrace_gateway.services import Services
from headrace_gateway.settings import GatewaySettings
from headrace_gateway.signed_cards import SignedCards
from headrace_gateway.streaming.open_streams import OpenStreams
from headrace_gateway.streaming.subscription import Subscriptions
from headrace_gateway.tasks.admission import Admission
from headrace_gateway.tasks.cancel import Cancelling
from headrace_gateway.tasks.delete import Deleting
from headrace_gateway.tasks.full_streams import FullStreams
from headrace_gateway.tasks.idempotency import Idempotency, SentRecords
from headrace_gateway.tasks.inputs import InputWriter
from headrace_gateway.tasks.settle import Settling
from headrace_gateway.tasks.submit import Submissions
from headrace_gateway.tasks.subscribe import TaskStreams

_log = logging.getLogger("headrace_gateway")


def run() -> int:
    """Serve until SIGTERM or SIGINT; return the process's exit code (see `headrace.service`)."""
    return service.run(_prepare, fatal=(Unprotected,))


def _prepare() -> service.Prepared:
    settings = GatewaySettings()
    logging.getLogger("uvicorn").setLevel(logging.WARNING)
    return service.Prepared(
        settings.log_level, partial(serving, settings), os.environ.get("NOTIFY_SOCKET", "")
    )


@asynccontextmanager
async def serving(
    settings: GatewaySettings, stop: asyncio.Event, protocols: Sequence[Protocol] = PROTOCOLS
) -> AsyncIterator[None]:
    """Serve `protocols` for the length of a block; set `stop` if the server ends by itself.

    Raises:
        Unprotected: the gateway would be open beyond loopback, and no setting allows it.
        CannotListen: a port is in use.
        BusUnavailable: NATS was unavailable for longer than HEADRACE_STARTUP_TIMEOUT.
        CredentialsUnreadable, KeyUnreadable: a file named in a setting is missing or invalid.
    """
    check_exposure(settings)
    requests = OpenRequests()
    front = StartupApp(requests)
    async with AsyncExitStack() as stack:
        listeners = [listen(settings.http_host, settings.http_port)]
        stack.callback(listeners[0].close)
        for extra in settings.extra_http_ports:
            listeners.append(listen(settings.http_host, extra, "HEADRACE_EXTRA_HTTP_PORTS"))
            stack.callback(listeners[-1].close)
        host, port, *_ = listeners[0].getsockname()
        rpcs, server = GrpcServer(settings, RPC_FORMS), HttpServer(front, settings)
        rpc_port = await rpcs.start()
        settings = settings.model_copy(update={"grpc_port": rpc_port, "http_port": port})
        answering = asyncio.create_task(server.serve(sockets=listeners))
        answering.add_done_callback(lambda _: stop.set())
        try:
            services = await stack.enter_async_context(composed(settings, requests))
            front.open(build_app(services, protocols))
            rpcs.open(services)
            _log.info("serving on http://%s:%d, gRPC on port %d", host, port, rpc_port)
            yield
            await services.streams.stop()
        finally:
            # Requests in progress end first, then the services that they use.
            server.should_exit = True
            giving_up = asyncio.get_running_loop().call_later(ANSWERS, requests.give_up)
            await asyncio.gather(answering, rpcs.stop())
            giving_up.cancel()


@asynccontextmanager
async def composed(settings: GatewaySettings, requests: OpenRequests) -> AsyncIterator[Services]:
    """Build and start a gateway's parts for the length of a block.

    `requests` counts the gateway's requests.

    Raises:
        BusUnavailable: NATS was unavailable for longer than HEADRACE_STARTUP_TIMEOUT.
        CredentialsUnreadable: the credentials file is missing or invalid.
    """
    async with AsyncExitStack() as stack:
        bus = Bus(settings)
        directory = Directory(bus)
        callers = Callers(settings.credentials, lambda: key_headers(directory.cards()))
        callers.start()
        stack.push_async_callback(callers.stop)
        await bus.connect("gateway")
        stack.push_async_callback(bus.close)
        health_probe = HealthProbe(bus)
        await health_probe.start()
        stack.push_async_callback(health_probe.stop)
        signing = SigningKeys(bus, settings.signing_keys)
        await signing.start()
        stack.push_async_callback(signing.stop)
        rule, streams = TailRule(bus), OpenStreams()
        await rule.start()
        stack.push_async_callback(rule.stop)
        await directory.start()
        stack.push_async_callback(directory.stop)
        streams.start()
        stack.push_async_callback(streams.stop)
        links = Links(own_url(settings))
        detached = Detached()
        stack.push_async_callback(detached.drain)
        feeds = Feeds(bus, rule, settings.feed_bytes, detached, links)
        settling = Settling(bus, detached, settings.append_timeout)
        state = StateClient(bus, links, settling.check)
        admission = Admission(bus, settings)
        admission.start()
        stack.push_async_callback(admission.stop)
        rates = RateLimits(bus, settings)
        await rates.start()
        stack.push_async_callback(rates.stop)
        inputs = InputWriter(bus, feeds, admission, settling)
        submissions = Submissions(bus, feeds, state, directory, inputs=inputs, detached=detached)
        records = SentRecords(bus, settings.idempotency_seconds)
        yield Services(
            settings=settings,
            bus=bus,
            health_probe=health_probe,
            directory=directory,
            callers=callers,
            state=state,
            feeds=feeds,
            requests=requests,
            streams=streams,
            stream_limits=StreamLimits(settings.max_streams, settings.max_streams_per_owner),
            body_limits=_body_limits(settings, bus.max_payload),
            subscriptions=Subscriptions(feeds, streams, requests, settings),
            task_streams=TaskStreams(bus, feeds, state),
            webhooks=Webhooks(bus),
            signing=signing,
            cards=SignedCards(signing, settings.public_url),
            submissions=submissions,
            idempotency=Idempotency(bus, feeds, submissions, records, detached),
            cancelling=Cancelling(bus, feeds, state, detached),
            deleting=Deleting(bus, state, detached),
            detached=detached,
            settling=settling,
            full_streams=FullStreams(bus),
            access=Access(rates),
        )


def _body_limits(settings: GatewaySettings, most_in_a_message: int) -> BodyLimits:
    """Return the limits on bodies; JSON may need twice a log's bytes, because of escapes."""
    largest = settings.max_body_bytes
    held = HeldBodies(settings.max_held_bytes, settings.max_held_bytes_per_owner, largest)
    return BodyLimits(largest, 2 * most_in_a_message, held)
