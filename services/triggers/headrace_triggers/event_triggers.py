"""Subscriptions to the events of triggers, as the triggers in the bucket change.

All replicas share one durable pull consumer per trigger of a stream, and one queue group per
trigger of core NATS.
"""

import asyncio
import hashlib
import logging
import re
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from datetime import datetime
from functools import partial
from typing import Any

import nats.errors
import nats.js.errors
from faststream import AckPolicy
from faststream.nats import JStream, NatsBroker, NatsMessage, PullSub
from faststream.nats.subscriber.usecases import LogicSubscriber
from nats.aio.msg import Msg
from nats.js.api import ConsumerConfig, DeliverPolicy

from headrace.jetstream.connection import Bus
from headrace.jetstream.headers import MESSAGE_ID
from headrace.model.errors import BusUnavailable
from headrace.model.event_template import Event, PathMissing
from headrace.triggers import Trigger, TriggerStore
from headrace_triggers.delivery import Deliveries, FiringSource
from headrace_triggers.firing import Firing, Unfit

_log = logging.getLogger(__name__)

_BATCH = 16
"""Messages of one trigger that a replica handles at a time."""

_PULL = 5.0
"""Seconds that a request for messages waits."""

_ACK_WAIT = 10.0
"""Seconds after which a message that a dead replica took is delivered to another one."""

_READ_EVERY = 5.0
"""Seconds between two readings of the bucket, if no change was heard."""

_TRACE = re.compile(r"(?!ff)[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}")

_TROUBLE = (BusUnavailable, nats.errors.Error, nats.js.errors.Error)


class EventTriggers:
    """The subscriptions of one replica."""

    def __init__(
        self,
        bus: Bus,
        broker: NatsBroker,
        deliveries: Deliveries,
        ack_wait: float = _ACK_WAIT,
    ) -> None:
        """Take events from `broker` and settle them with `deliveries`."""
        self._bus, self._broker, self._deliveries = bus, broker, deliveries
        self._ack_wait = ack_wait
        self._store = TriggerStore(bus)
        self._running: dict[str, tuple[Trigger, Any]] = {}
        """Triggers and their subscribers, by the trigger's identity."""
        self._changed = asyncio.Event()

    async def run(self) -> None:
        """Follow the triggers until cancelled."""
        hints = await self._bus.subscribe(self._store.subject, self._on_hint)
        try:
            while True:
                try:
                    await self.refresh()
                except BusUnavailable as trouble:
                    _log.debug("triggers: %s", trouble)
                with suppress(TimeoutError):
                    async with asyncio.timeout(_READ_EVERY):
                        await self._changed.wait()
                self._changed.clear()
        finally:
            await self._bus.unsubscribe(hints)

    async def _on_hint(self, _: Msg) -> None:
        self._changed.set()

    async def refresh(self) -> None:
        """Subscribe to what is new in the bucket, and end what is no longer there.

        Raises:
            BusUnavailable: the bucket can't be read.
        """
        kept = await self._store.all()
        wanted = {one.identity: one for one in kept if not one.paused}
        for identity in self._running.keys() - wanted.keys():
            trigger, subscriber = self._running.pop(identity)
            await subscriber.stop()
            if trigger.stream and _group(trigger) not in map(_group, kept):
                with suppress(*_TROUBLE):  # another replica may have deleted it
                    await self._bus.js.delete_consumer(trigger.stream, _group(trigger))
            _log.info("%s of tenant %s takes no more events", trigger.source, trigger.tenant)
        for identity, trigger in wanted.items():
            if identity in self._running:
                continue
            try:
                await self._start(trigger)
            except _TROUBLE as trouble:
                # Its stream may be made later.
                _log.warning("%s: no events yet: %s", trigger.source, trouble)

    async def _start(self, trigger: Trigger) -> None:
        subscriber: LogicSubscriber[Any]
        handle = partial(self._take, trigger)
        if trigger.stream is None:
            subscriber = self._broker.subscriber(
                trigger.subject, queue=_group(trigger), ack_policy=AckPolicy.MANUAL
            )
            handle = partial(self._take_unstored, trigger)
        else:
            # FastStream binds to it; by itself it would not change an existing one.
            await self._bus.js.add_consumer(trigger.stream, self._consumer(trigger))
            subscriber = self._broker.subscriber(
                trigger.subject,
                stream=JStream(trigger.stream, declare=False),
                durable=_group(trigger),
                pull_sub=PullSub(batch_size=min(_BATCH, trigger.limit), timeout=_PULL),
                inbox_prefix=self._bus.among_role("").encode(),
                ack_policy=AckPolicy.MANUAL,
            )
        subscriber(_handler(handle))
        await subscriber.start()
        self._running[trigger.identity] = trigger, subscriber
        _log.info("%s of tenant %s takes events", trigger.source, trigger.tenant)

    def _consumer(self, trigger: Trigger) -> ConsumerConfig:
        return ConsumerConfig(
            durable_name=_group(trigger),
            filter_subject=trigger.subject,
            deliver_policy=DeliverPolicy.BY_START_TIME,
            opt_start_time=datetime.fromisoformat(trigger.since),
            ack_wait=self._ack_wait,
            # Nothing is dropped: an event that can't begin a task now waits.
            max_deliver=-1,
            max_ack_pending=trigger.limit,
        )

    async def _take(self, trigger: Trigger, message: NatsMessage) -> None:
        source = FiringSource(trigger.source, trigger.tenant, trigger.agent)
        raw = message.raw_message
        place = raw.metadata
        # The time tells a stream from one that was deleted and made again.
        stored = f"{place.stream}/{place.sequence.stream}/{place.timestamp.isoformat()}"

        async def firing_of() -> Firing | None:
            return firing(trigger, raw, stored)

        await self._deliveries.settle(message, source, firing_of)

    async def _take_unstored(self, trigger: Trigger, message: NatsMessage) -> None:
        source = FiringSource(trigger.source, trigger.tenant, trigger.agent)
        raw = message.raw_message

        async def firing_of() -> Firing | None:
            # It is delivered once, so any key will do.
            return firing(trigger, raw, message.message_id)

        await self._deliveries.settle_unstored(message, source, firing_of)


def firing(trigger: Trigger, message: Msg, place: str) -> Firing | None:
    """Return what the event fires; None: nothing. `place` is its key if it has none of its own.

    Raises:
        Unfit: the event lacks what the trigger needs.
    """
    headers = message.headers or {}
    try:
        event = Event.of(message.subject, headers, message.data)
        if not trigger.matches(event):
            return None
        parts, context = trigger.parts(event), trigger.context_of(event)
    except PathMissing as missing:
        raise Unfit(f"{trigger.source}: {missing}") from missing
    own = headers.get(MESSAGE_ID)
    return Firing(
        source=trigger.source,
        key=place if own is None else f"id/{own}",
        tenant=trigger.tenant,
        owner=trigger.owner,
        agent=trigger.agent,
        parts=parts,
        event_streams=trigger.event_streams,
        context=context,
        priority=trigger.priority,
        traceparent=_traceparent(headers),
    )


def _traceparent(headers: Mapping[str, str]) -> str | None:
    stated = headers.get("traceparent", "")
    return stated if _TRACE.fullmatch(stated) else None


def _group(trigger: Trigger) -> str:
    """Return the name of the replicas' consumer; another subject has another one."""
    place = f"{trigger.tenant}\x00{trigger.subject}\x00{trigger.since}".encode()
    return f"headrace-{trigger.name}-{hashlib.sha256(place).hexdigest()[:16]}"


def _handler(
    handle: Callable[[NatsMessage], Awaitable[None]],
) -> Callable[[NatsMessage], Awaitable[None]]:
    async def take(message: NatsMessage) -> None:
        await handle(message)

    return take
