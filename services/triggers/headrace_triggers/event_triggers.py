"""Subscriptions to the events of triggers, as the triggers in the bucket change.

All replicas share one durable pull consumer per trigger of a stream, and one queue group per
trigger of core NATS.
"""

import asyncio
import logging
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import nats.errors
import nats.js.errors
from faststream import AckPolicy
from faststream.nats import NatsBroker, NatsMessage
from faststream.nats.subscriber.usecases import LogicSubscriber
from nats.aio.msg import Msg

from headrace.jetstream.connection import Bus
from headrace.jetstream.headers import MESSAGE_ID
from headrace.model.answers import DEPTH, TRIGGER, ReplyRefused, TaskAnswers
from headrace.model.errors import BusUnavailable
from headrace.model.event_template import Event, PathMissing
from headrace.tracing import stated_traceparent
from headrace.triggers import Trigger, TriggerStore
from headrace_triggers.delivery import Deliveries, FiringSource
from headrace_triggers.event_consumers import EventConsumers
from headrace_triggers.firing import Fired, Firing, Unfit
from headrace_triggers.firing_recorder import FiringRecorder
from headrace_triggers.pulled import pulled

_log = logging.getLogger(__name__)

_BATCH = 16
"""Messages of one trigger that a replica handles at a time."""

_ACK_WAIT = 10.0
"""Seconds after which a message that a dead replica took is delivered to another one."""

_DIGITS = 4

_READ_EVERY = 5.0
"""Seconds between two readings of the bucket, if no change was heard."""

_NATS_ERRORS = (BusUnavailable, nats.errors.Error, nats.js.errors.Error)


class EventTriggers:
    """The subscriptions of one replica."""

    def __init__(
        self,
        bus: Bus,
        broker: NatsBroker,
        deliveries: Deliveries,
        recorder: FiringRecorder,
        depth: int,
    ) -> None:
        """Take events from `broker`, settle them with `deliveries` and report to `recorder`.

        At most `depth` tasks begin one another by their answers.
        """
        self._bus, self._broker, self._deliveries = bus, broker, deliveries
        self._recorder, self._depth = recorder, depth
        self._store = TriggerStore(bus)
        self._consumers = EventConsumers(bus, self._store, _ACK_WAIT)
        self._running: dict[str, tuple[Trigger, Any]] = {}
        """Triggers and their subscribers, by the trigger's identity."""
        self._changed = asyncio.Event()
        self._stopped = list[Trigger]()
        """Triggers that were ended, and whose consumers may be of no use."""
        self._has_compared = False
        """Whether consumers were looked for that no replica deleted with their trigger."""

    async def run(self) -> None:
        """Follow the triggers until cancelled."""
        hints = await self._bus.subscribe(self._store.subject, self._on_hint)
        try:
            while True:
                try:
                    await self.refresh()
                except BusUnavailable as error:
                    _log.debug("triggers: %s", error)
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
            self._stopped.append(trigger)
            _log.info("%s of tenant %s no longer receives events", trigger.source, trigger.tenant)
        for identity, trigger in wanted.items():
            if identity in self._running:
                continue
            try:
                await self._start(trigger)
            except _NATS_ERRORS as error:
                # Its stream may be made later.
                _log.warning("%s: no events yet: %s", trigger.source, error)
        if self._stopped or not self._has_compared:
            await self._consumers.delete_unused(kept, self._stopped)
            self._stopped, self._has_compared = [], True

    async def _start(self, trigger: Trigger) -> None:
        subscriber: LogicSubscriber[Any]
        events = TriggerEvents(trigger, self._deliveries, self._recorder, self._depth)
        if trigger.stream is None:
            subscriber = self._broker.subscriber(
                trigger.subject,
                queue=trigger.consumer,
                ack_policy=AckPolicy.MANUAL,
                # The sender names the subject, which may be one of JetStream's API.
                no_reply=True,
            )
            subscriber(events.take_unstored)
        else:
            consumer = await self._consumers.make(trigger, trigger.stream)
            subscriber = pulled(
                *(self._bus, self._broker, trigger.stream, consumer, events.take),
                batch=min(_BATCH, trigger.limit),
            )
        await subscriber.start()
        self._running[trigger.identity] = trigger, subscriber
        _log.info("%s of tenant %s receives events", trigger.source, trigger.tenant)


class TriggerEvents:
    """Takes the events of one trigger."""

    def __init__(
        self, trigger: Trigger, deliveries: Deliveries, recorder: FiringRecorder, depth: int
    ) -> None:
        """Settle the events of `trigger` with `deliveries`, and report the firings to `recorder`.

        `depth` is that of `EventTriggers`.
        """
        self._trigger, self._deliveries, self._recorder = trigger, deliveries, recorder
        self._depth = depth
        self._source = FiringSource(trigger.source, trigger.tenant, trigger.agent)

    async def take(self, message: NatsMessage) -> None:
        """Begin the task of an event that a stream keeps."""
        raw = message.raw_message
        place = raw.metadata
        # The time distinguishes a stream from one that was deleted and created again.
        stored = f"{place.stream}/{place.sequence.stream}/{place.timestamp.isoformat()}"

        async def firing_of() -> Firing | None:
            return firing(self._trigger, raw, stored, self._depth)

        self._note(await self._deliveries.settle(message, self._source, firing_of))

    async def take_unstored(self, message: NatsMessage) -> None:
        """Begin the task of an event of core NATS."""

        async def firing_of() -> Firing | None:
            # It is delivered once, so any key will do.
            raw, depth = message.raw_message, self._depth
            return firing(self._trigger, raw, message.message_id, depth, raw.reply)

        self._note(await self._deliveries.settle_unstored(message, self._source, firing_of))

    def _note(self, fired: Fired | None) -> None:
        if fired is not None:
            self._recorder.note(self._trigger, fired)


def firing(
    trigger: Trigger, message: Msg, place: str, depth: int, reply: str = ""
) -> Firing | None:
    """Return what the event fires; None: nothing.

    Args:
        trigger: The trigger that takes the event.
        message: The event.
        place: Its key, if it has none of its own.
        depth: As of `EventTriggers`.
        reply: Its reply subject, if its sender may expect an answer there.

    Raises:
        Unfit: the event lacks what the trigger needs, or is an answer beyond `depth`.
    """
    headers = message.headers or {}
    if headers.get(TRIGGER) == trigger.mark:
        return None  # An answer of its own tasks.
    try:
        event = Event.of(message.subject, headers, message.data)
        if not trigger.matches(event):
            return None
        parts, context = trigger.parts(event), trigger.context_of(event)
        answers = _answers(trigger, headers, depth, reply)
    except (PathMissing, ReplyRefused) as missing:
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
        traceparent=stated_traceparent(headers),
        answers=answers,
    )


def _answers(
    trigger: Trigger, headers: Mapping[str, str], most: int, reply: str
) -> TaskAnswers | None:
    stated = headers.get(DEPTH, "0")
    depth = int(stated) if stated.isascii() and stated.isdigit() and len(stated) < _DIGITS else most
    if depth >= most and DEPTH in headers:
        raise Unfit(
            f"{trigger.source}: more than {most} tasks have begun one another through their answers"
        )
    return (
        None if trigger.answers is None else trigger.answers.answers(reply, depth + 1, trigger.mark)
    )
