"""A gateway's parts: built and started from settings, on whatever server serves them."""

import typing
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

from headrace.background import keep_running
from headrace.directory import Directory
from headrace.jetstream.connection import Bus, NewTransport
from headrace.jetstream.server_clock import ServerClock
from headrace.log import TailRule
from headrace.schedules import Schedules
from headrace.signing import SigningKeys
from headrace.state_client import StateClient
from headrace.tasks.admission import Admission, RunLimits
from headrace.tasks.quotas import Quotas, read_quotas
from headrace.webhooks import Webhooks
from headrace_gateway.background_work import BackgroundWork
from headrace_gateway.feeds import Feeds
from headrace_gateway.fleet_sample import FleetSampler
from headrace_gateway.quota_header import note_quota
from headrace_gateway.server.auth.access import Access, RateLimits
from headrace_gateway.server.auth.audit import Audited, AuditLog
from headrace_gateway.server.auth.authenticate import Callers
from headrace_gateway.server.auth.schemes import key_headers
from headrace_gateway.server.auth.signed_urls import SignedUrls
from headrace_gateway.server.body import BodyLimits, HeldBodies
from headrace_gateway.server.open_requests import OpenRequests
from headrace_gateway.server.public_url import ClientLinks
from headrace_gateway.services import Services
from headrace_gateway.settings import GatewaySettings
from headrace_gateway.signed_cards import SignedCards
from headrace_gateway.streaming.open_streams import OpenStreams, StreamLimits
from headrace_gateway.streaming.subscription import Subscriptions
from headrace_gateway.tasks.cancel import TaskCanceler
from headrace_gateway.tasks.delete import TaskDeleter
from headrace_gateway.tasks.fork import TaskForker
from headrace_gateway.tasks.idempotency import Idempotency, IdempotencyRecords
from headrace_gateway.tasks.ids import TaskOwners
from headrace_gateway.tasks.settlement import Settlement
from headrace_gateway.tasks.stream_health import FullStreams
from headrace_gateway.tasks.submission import RunAppends, Submissions
from headrace_gateway.tasks.subscribe import TaskStreams
from headrace_gateway.timing import TIMING, GatewayTiming


@asynccontextmanager
async def composed(
    settings: GatewaySettings,
    requests: OpenRequests,
    timing: GatewayTiming = TIMING,
    new_transport: NewTransport | None = None,
) -> AsyncIterator[Services]:
    """Build and start a gateway's parts for the length of a block.

    `requests` counts the gateway's requests. `new_transport` connects it to NATS as in `Bus`.

    Raises:
        BusUnavailable: NATS was unavailable for longer than HEADRACE_STARTUP_TIMEOUT.
        SettingInvalid: a file that a setting names is missing or invalid.
    """
    async with AsyncExitStack() as stack:
        yield await _composed(settings, requests, timing, Bus(settings, new_transport), stack)


class _Part(typing.Protocol):
    async def start(self) -> None: ...

    async def stop(self) -> None: ...


async def _composed(
    settings: GatewaySettings,
    requests: OpenRequests,
    timing: GatewayTiming,
    bus: Bus,
    stack: AsyncExitStack,
) -> Services:
    """Start the parts that run in the background, which `stack` stops in reverse order.

    Return these, and the others, for requests to use.
    """
    quotas = read_quotas(settings.quotas) if settings.quotas else []
    # Before NATS is waited for, so that a mistake in a file is reported at once.
    signing = SigningKeys(bus, settings.signing_keys)
    directory = Directory(bus, stores_routes=True)
    callers = Callers(
        settings.credentials,
        lambda: key_headers(directory.cards()),
        timing.credentials_interval,
    )
    callers.start()
    stack.push_async_callback(callers.stop)
    await bus.connect("gateway")
    stack.push_async_callback(bus.close)

    async def started[P: _Part](part: P) -> P:
        await part.start()
        stack.push_async_callback(part.stop)
        return part

    await started(signing)
    rule = await started(TailRule(bus))
    await started(directory)
    streams = OpenStreams()
    streams.start()
    stack.push_async_callback(streams.stop)
    background = BackgroundWork(timing.drain)
    stack.push_async_callback(background.drain)
    admission = Admission(
        bus, settings, timing.queue_answer, timing.queue_interval, warn=note_quota
    )
    admission.start()
    stack.push_async_callback(admission.stop)
    rates = await started(RateLimits(bus, settings, warn=note_quota))
    clock = ServerClock(bus)
    await clock.compare()  # Until then the age of an Idempotency-Key would go by this clock.
    stack.callback(keep_running(clock.run, "clocks").cancel)

    links = ClientLinks(settings)
    feeds = Feeds(
        bus,
        rule,
        settings.feed_bytes,
        background,
        links,
        total_bytes=settings.feed_total_bytes,
        silence=timing.feed_silence,
    )
    settlement = Settlement(bus, background, settings.append_timeout)
    state = StateClient(bus, links, settlement.check)
    idempotency = Idempotency(bus, IdempotencyRecords(bus, settings.idempotency_seconds, clock.now))
    limits = RunLimits(admission, Quotas(quotas, state, warn=note_quota) if quotas else None)
    appends = RunAppends(bus, links, limits, settlement)
    submissions = Submissions(
        bus,
        feeds,
        state,
        directory,
        appends=appends,
        idempotency=idempotency,
        background=background,
    )
    stream_limits = StreamLimits(settings.max_streams, settings.max_streams_per_owner)
    return Services(
        settings=settings,
        timing=timing,
        bus=bus,
        directory=directory,
        callers=callers,
        state=state,
        feeds=feeds,
        links=links,
        requests=requests,
        streams=streams,
        stream_limits=stream_limits,
        watch_limits=StreamLimits(-1, settings.max_watches_per_owner, "watches"),
        body_limits=_body_limits(settings, bus.max_payload),
        subscriptions=Subscriptions(streams, requests, settings),
        task_streams=TaskStreams(bus, feeds, state),
        webhooks=Webhooks(bus),
        schedules=Schedules(bus),
        signing=signing,
        cards=SignedCards(signing, settings.public_url),
        signed_urls=SignedUrls(signing, clock.now),
        submissions=submissions,
        canceler=TaskCanceler(bus, feeds, state, background),
        deleter=TaskDeleter(bus, state, background),
        forker=TaskForker(
            bus, state, submissions, appends=appends, idempotency=idempotency, background=background
        ),
        background=background,
        full_streams=FullStreams(bus),
        stream_health=settlement.health,
        access=Access(rates, AuditLog(Audited(settings.audit), TaskOwners(bus).owner_of)),
        fleet_sampler=FleetSampler(bus, directory, stream_limits, requests),
    )


def _body_limits(settings: GatewaySettings, most_in_a_message: int) -> BodyLimits:
    """Return the limits on bodies; JSON may need twice a log's bytes, because of escapes."""
    largest = settings.max_body_bytes
    held = HeldBodies(settings.max_held_bytes, settings.max_held_bytes_per_owner, largest)
    return BodyLimits(largest, 2 * most_in_a_message, held)
