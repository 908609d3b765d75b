"""FastStream's broker on the fleet's own client, which sends its credentials and costs less.

JetStream is not declared here: `headrace.jetstream.streams` declares the streams.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from functools import cache
from typing import Any, override

from fast_depends.library.serializer import OptionItem, Serializer
from fast_depends.pydantic import PydanticSerializer
from faststream.message import StreamMessage
from faststream.nats import NatsBroker
from faststream.nats.prometheus.provider import NatsMetricsSettingsProvider
from faststream.prometheus import ConsumeAttrs, PrometheusMiddleware
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription
from nats.errors import ConnectionClosedError, ProtocolError
from prometheus_client import REGISTRY, CollectorRegistry

from headrace import tracing
from headrace.jetstream.client import NatsClient
from headrace.jetstream.connection import connect_options
from headrace.jetstream.credentials import NatsCredentials
from headrace.jetstream.denials import Denials
from headrace.jetstream.paced_pulls import PacedJetStream
from headrace.metrics import MESSAGES_DROPPED
from headrace.model.errors import DeniedByNats
from headrace.settings import BusSettings
from headrace.wait_for import reason

_log = logging.getLogger(__name__)

AT_ONCE = 256
"""Maximum messages of one subscription handled at a time; the others wait."""

MOST_WAITING = 64 * 1024 * 1024
"""Bytes of one subscription's messages that wait; further ones are dropped. They would fill the
memory for all other subscriptions."""

_STOP_TIMEOUT = 1.0


type NoteClosed = Callable[[Exception | None], None]

type _Parameter = tuple[str, Any, Any]
"""Name, type and default."""

_MAKE_MODEL = PydanticSerializer(use_fastdepends_errors=False)


class HandlerModels:
    """FastStream's own models of parameters: handlers with the same share one.

    To make one takes 2 ms of a core, and task state's handlers have two subjects each.
    """

    @staticmethod
    def encode(message: Any) -> bytes:  # noqa: ANN401  # whatever a handler returns
        """Return what is sent."""
        return PydanticSerializer.encode(message)

    def __call__(self, *, name: str, options: list[OptionItem], response_type: Any) -> Serializer:  # noqa: ANN401  # an annotation
        """Return the model of a handler's parameters and of what it returns."""
        parameters = ((each.field_name, each.field_type, each.default_value) for each in options)
        return _model(name, tuple(parameters), response_type)


@cache
def _model(name: str, parameters: tuple[_Parameter, ...], returned: Any) -> Serializer:  # noqa: ANN401  # an annotation
    options = [OptionItem(each, of, default_value=default) for each, of, default in parameters]
    return _MAKE_MODEL(name=name, options=options, response_type=returned)


class FleetBroker(NatsBroker):
    """A broker that connects like every other process of the fleet."""

    def __init__(
        self,
        settings: BusSettings,
        name: str,
        middlewares: Sequence[Any] = (),
        note_closed: NoteClosed = lambda _: None,
        *,
        injects: bool = True,
    ) -> None:
        """Prepare to connect as `name`; `start` connects.

        `note_closed` is called with the reason if the connection is closed for good, unless this
        closes it. Without `injects`, handlers are called with what their decoder returns:
        FastStream reads a parameter that is the message in a thread, each time.
        """
        # Its logger would log every message; errors are logged where the request is refused.
        super().__init__(
            logger=None,
            graceful_timeout=_STOP_TIMEOUT,
            middlewares=middlewares,
            serializer=HandlerModels(),
            apply_types=injects,
        )
        self._settings, self._name, self._note_closed = settings, name, note_closed
        self._stops = False
        self._denials, self._client = Denials(), NatsClient()

    @override
    async def stop(self, *ending: Any) -> None:
        """Stop the subscribers and close the connection."""
        self._stops = True
        with suppress(ConnectionClosedError):
            await super().stop(*ending)

    @override
    async def _connect(self) -> Client:
        self._client = client = _ConcurrentClient(
            NatsCredentials(self._settings), domain=self._settings.nats_jetstream_domain
        )

        async def closed() -> None:
            if not self._stops:
                self._note_closed(client.last_error)

        options = connect_options(self._settings, self._name)
        await client.connect(**options, error_cb=self._note, closed_cb=closed)
        self.config.connect(client)
        return client

    async def _note(self, error: Exception) -> None:
        self._denials.note(error)
        # The bus's own connection reports errors of NATS; malformed bytes come to this one alone.
        level = logging.WARNING if isinstance(error, ProtocolError) else logging.DEBUG
        _log.log(level, "NATS: %s", reason(error))

    async def check_subscribed(self, subject: str, since: float) -> None:
        """Return once NATS has accepted a subscription that was sent after `since`.

        Raises:
            DeniedByNats: It was refused.
            Error: of nats-py; NATS does not answer.
        """
        await self._client.flush()
        if self.is_refused(subject, since):
            raise DeniedByNats(f"NATS permissions forbid to subscribe to {subject}")

    def is_refused(self, subject: str, since: float) -> bool:
        """Return whether NATS has refused a subscription to `subject` at or after `since`.

        That also happens later, as the permissions change or after a reconnect.
        """
        return self._denials.of_subscribing(subject, since)


class _ConcurrentClient(NatsClient):
    """Calls back for each message in a task, so that a slow request delays no other.

    FastStream's `max_workers` does the same, for 200 µs more processor time per request.
    """

    @override
    def jetstream(self, **options: Any) -> PacedJetStream:
        return PacedJetStream(self, **options)

    @override
    async def subscribe(
        self,
        subject: str,
        queue: str = "",
        cb: Callable[[Msg], Awaitable[None]] | None = None,
        *more: Any,
        **options: Any,
    ) -> Subscription:
        if cb is None:
            return await super().subscribe(subject, queue, None, *more, **options)
        return await self.listen(subject, ConcurrentHandler(cb).handle, queue)


class ConcurrentHandler:
    """Handles messages concurrently, at most `at_once`, each as soon as it arrives.

    If more than `most_waiting` bytes of them wait, further ones are dropped and counted, as they
    are by NATS for a subscriber that reads slowly.
    """

    def __init__(
        self,
        handle: Callable[[Msg], Awaitable[None]],
        at_once: int = AT_ONCE,
        most_waiting: int = MOST_WAITING,
    ) -> None:
        """Call `handle`, which raises nothing, for each message."""
        self._handle, self._at_once, self._most_waiting = handle, at_once, most_waiting
        self._waiting, self._size = deque[Msg](), 0
        self._is_dropping = False
        self._working = set[asyncio.Task[None]]()

    def handle(self, msg: Msg) -> None:
        """Handle the message now, or when a slot is free."""
        if self._size + len(msg.data) > self._most_waiting:
            self._drop(msg)
            return
        self._waiting.append(msg)
        self._size += len(msg.data)
        self._begin()

    def _drop(self, msg: Msg) -> None:
        MESSAGES_DROPPED.inc()
        if not self._is_dropping:
            self._is_dropping = True
            _log.error("messages on %s are dropped: too many wait", msg.subject)

    def _begin(self) -> None:
        while self._waiting and len(self._working) < self._at_once:
            msg = self._waiting.popleft()
            self._size -= len(msg.data)
            self._is_dropping = self._is_dropping and bool(self._waiting)
            work = self._work(msg)
            task = asyncio.Task(work, loop=asyncio.get_running_loop(), eager_start=True)
            if not task.done():
                self._working.add(task)
                task.add_done_callback(self._end)

    async def _work(self, msg: Msg) -> None:
        await self._handle(msg)

    def _end(self, task: asyncio.Task[None]) -> None:
        self._working.discard(task)
        self._begin()


class _NamedSubjects(NatsMetricsSettingsProvider):
    """Labels metrics with a name for the subject."""

    def __init__(self, named: Callable[[str], str]) -> None:
        super().__init__()
        self._named = named

    @override
    def get_consume_attrs_from_message(self, msg: StreamMessage[Msg]) -> ConsumeAttrs:
        found = super().get_consume_attrs_from_message(msg)
        return {**found, "destination_name": self._named(found["destination_name"])}


def telemetry(
    service: str,
    registry: CollectorRegistry = REGISTRY,
    named: Callable[[str], str] = str,
) -> tuple[Any, ...]:
    """Return FastStream's middlewares that measure and trace what `service` handles.

    Metrics have the label `named(subject)`, and spans that name, which must be one of few.
    """
    provider = _NamedSubjects(named)
    measuring = PrometheusMiddleware[Any, Any](
        settings_provider_factory=lambda _: provider, registry=registry, app_name=service
    )
    return measuring, *_spans(named)


def _spans(named: Callable[[str], str]) -> tuple[Any, ...]:
    """Return the middleware that creates spans, if traces are exported."""
    if not tracing.is_enabled():
        return ()
    # Imported here, because it needs OpenTelemetry's SDK.
    from headrace.jetstream.broker_spans import spans_of_messages  # noqa: PLC0415

    return (spans_of_messages(named),)
