"""Subscriptions to the events of triggers, as the triggers in the bucket change.

All replicas share one durable pull consumer per trigger of a stream, and one queue group per
trigger of core NATS.
"""

import asyncio
import logging
import secrets
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

import nats.errors
import nats.js.errors
from faststream.nats import NatsMessage
from nats.aio.msg import Msg
from prometheus_client import Gauge

from headrace.jetstream.broker import FleetBroker
from headrace.jetstream.connection import Bus
from headrace.jetstream.headers import MESSAGE_ID
from headrace.model.answers import TRIGGER, ReplyRefused, TaskAnswers
from headrace.model.errors import BusUnavailable, HeadraceError
from headrace.model.event_template import Event, PathMissing
from headrace.ticks import until_tick
from headrace.tracing import stated_traceparent
from headrace.triggers import Trigger, TriggerStore
from headrace_triggers.awaited_events import AwaitedEvents
from headrace_triggers.chains import Chains, Link
from headrace_triggers.delivery import Deliveries, FiringSource
from headrace_triggers.event_consumers import EventConsumers
from headrace_triggers.firing import Fired, Firing, UndeliverableFiring
from headrace_triggers.firing_recorder import FiringRecorder
from headrace_triggers.pulled import Take, pulled, shared

_log = logging.getLogger(__name__)

_FAILING = Gauge(
    "headrace_triggers_failing", "Triggers for which this replica can receive no events."
)

_BATCH = 16
"""Messages of one trigger that a replica handles at a time."""

_ACK_WAIT = 10.0
"""Seconds after which a message that a dead replica took is delivered to another one."""

_READ_EVERY = 5.0
"""Seconds between two readings of the bucket, if no change was heard."""

_STARTS_AT_ONCE = 8
"""Triggers of one owner for which a replica asks JetStream at a time."""

_NATS_ERRORS = (HeadraceError, nats.errors.Error, nats.js.errors.Error)


type Settle = Callable[
    [NatsMessage, FiringSource, Callable[[], Awaitable[Firing | None]]], Awaitable[Fired | None]
]


@dataclass(frozen=True, slots=True)
class _Subscribed:
    """A trigger whose events are received."""

    trigger: Trigger
    subscriber: Any
    since: float
    """When it was subscribed, by the monotonic clock."""


class EventTriggers:
    """The subscriptions of one replica.

    Each trigger's begins and ends by itself: one that can't, or takes long, concerns no other.
    """

    def __init__(
        self,
        bus: Bus,
        broker: FleetBroker,
        deliveries: Deliveries,
        recorder: FiringRecorder,
        chains: Chains,
    ) -> None:
        """Take events from `broker`, settle them with `deliveries` and report to `recorder`.

        Tasks that answers begin are within the limits of `chains`.
        """
        self._bus, self._broker, self._deliveries = bus, broker, deliveries
        self._recorder, self._chains = recorder, chains
        self._store = TriggerStore(bus)
        self._consumers = EventConsumers(bus, self._store, _ACK_WAIT)
        self._running: dict[str, _Subscribed] = {}
        """By the trigger's identity."""
        self._starting: dict[str, tuple[Trigger, asyncio.Task[None]]] = {}
        self._turns = defaultdict[tuple[str, str], asyncio.Semaphore](
            lambda: asyncio.Semaphore(_STARTS_AT_ONCE)
        )
        """By tenant and owner."""
        self._failing: dict[str, str] = {}
        """Why no events are received, by the trigger's identity."""
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
                    async with asyncio.timeout(until_tick(_READ_EVERY)):
                        await self._changed.wait()
                self._changed.clear()
        finally:
            await self._bus.unsubscribe(hints)
            starting = [task for _, task in self._starting.values()]
            for task in starting:
                task.cancel()
            await asyncio.gather(*starting, return_exceptions=True)

    async def _on_hint(self, _: Msg) -> None:
        self._changed.set()

    async def refresh(self) -> None:
        """Begin to subscribe to what is new in the bucket, and end what is no longer there.

        Raises:
            BusUnavailable: the bucket can't be read.
        """
        kept = await self._store.all()
        wanted = {one.identity: one for one in kept if not one.paused}
        unwanted = [one for identity, one in self._starting.items() if identity not in wanted]
        for trigger, task in unwanted:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            self._stopped.append(trigger)
        refused = [identity for identity, one in self._running.items() if self._is_refused(one)]
        for identity in {*(self._running.keys() - wanted.keys()), *refused}:
            await self._end(identity)
        for identity in self._failing.keys() - wanted.keys():
            del self._failing[identity]
        for identity, running in self._running.items():
            self._note_pulls(identity, running)
        for identity, trigger in wanted.items():
            if identity not in self._running and identity not in self._starting:
                self._begin(identity, trigger)
        _FAILING.set(len(self._failing))
        if self._stopped or not self._has_compared:
            await self._consumers.delete_unused(kept, self._stopped)
            self._stopped, self._has_compared = [], True

    async def _end(self, identity: str) -> None:
        running = self._running.pop(identity)
        trigger = running.trigger
        self._stopped.append(trigger)
        try:
            await running.subscriber.stop()
        except Exception:  # noqa: BLE001 - of this trigger alone
            _log.exception("%s: its subscription does not end cleanly", trigger.source)
        _log.info("%s of tenant %s no longer receives events", trigger.source, trigger.tenant)

    def _note_pulls(self, identity: str, running: "_Subscribed") -> None:
        """Note whether the trigger's events can be pulled, if they are."""
        if running.trigger.stream is None:
            return
        if problem := running.subscriber.subscription.problem:
            self._fail(identity, running.trigger, f"no events can be pulled: {problem}")
        else:
            self._failing.pop(identity, None)

    def _is_refused(self, running: "_Subscribed") -> bool:
        is_stored = running.trigger.stream is not None
        return not is_stored and self._broker.is_refused(running.trigger.subject, running.since)

    def _begin(self, identity: str, trigger: Trigger) -> None:
        task = asyncio.create_task(self._try(identity, trigger), name=trigger.source)
        self._starting[identity] = trigger, task
        task.add_done_callback(lambda _: self._starting.pop(identity, None))

    async def _try(self, identity: str, trigger: Trigger) -> None:
        """Begin to receive a trigger's events; if that fails, `refresh` tries again."""
        try:
            async with self._turns[trigger.tenant, trigger.owner]:
                await self._start(identity, trigger)
        except _NATS_ERRORS as error:
            # Its stream may be made later.
            self._fail(identity, trigger, f"no events yet: {error}")
        except Exception as defect:  # noqa: BLE001 - of this trigger alone
            if identity not in self._failing:
                _log.exception("%s: its events can't be received", trigger.source)
            self._fail(identity, trigger, f"its events can't be received: {defect!r}")
        else:
            self._failing.pop(identity, None)

    def _fail(self, identity: str, trigger: Trigger, reason: str) -> None:
        if self._failing.get(identity) != reason:
            _log.warning("%s of tenant %s: %s", trigger.source, trigger.tenant, reason)
        self._failing[identity] = reason
        _FAILING.set(len(self._failing))
        self._recorder.note_problem(trigger, reason)

    async def _start(self, identity: str, trigger: Trigger) -> None:
        if trigger.stream is None:
            events = TriggerEvents(trigger, self._deliveries, self._recorder, self._chains)
            group = trigger.consumer
            subscriber = shared(self._broker, trigger.subject, group, events.begin_unstored)
        else:
            consumer = await self._consumers.make(trigger, trigger.stream)
            subscriber = pulled(
                *(self._bus, self._broker, trigger.stream, consumer, self._takes(trigger)),
                batch=min(_BATCH, trigger.limit),
            )
        since = time.monotonic()
        try:
            await subscriber.start()
            if trigger.stream is None:
                await self._broker.check_subscribed(trigger.subject, since)
        except BaseException:
            with suppress(Exception):
                await subscriber.stop()
            raise
        self._running[identity] = _Subscribed(trigger, subscriber, since)
        _log.info("%s of tenant %s receives events", trigger.source, trigger.tenant)

    def _takes(self, trigger: Trigger) -> Take:
        """Return what takes the events of a trigger that a stream stores."""
        if trigger.wakes is not None:
            return AwaitedEvents(self._bus, self._store, trigger, trigger.wakes).begin
        return TriggerEvents(trigger, self._deliveries, self._recorder, self._chains).begin


class TriggerEvents:
    """Takes the events of one trigger."""

    def __init__(
        self, trigger: Trigger, deliveries: Deliveries, recorder: FiringRecorder, chains: Chains
    ) -> None:
        """Settle the events of `trigger` with `deliveries`, and report them to `recorder`.

        `chains` is that of `EventTriggers`.
        """
        self._trigger, self._deliveries, self._recorder = trigger, deliveries, recorder
        self._chains = chains
        self._source = FiringSource(
            trigger.source, trigger.tenant, trigger.agent, partial(recorder.note_outcome, trigger)
        )

    async def begin(self, message: NatsMessage) -> None:
        """Begin the task of an event that a stream keeps."""
        place = message.raw_message.metadata
        # The time distinguishes a stream from one that was deleted and created again.
        stored = f"{place.stream}/{place.sequence.stream}/{place.timestamp.isoformat()}"
        await self._begin(message, stored, self._deliveries.settle)

    async def begin_unstored(self, message: NatsMessage) -> None:
        """Begin the task of an event of core NATS."""
        # It is delivered once, so any key will do. Its sender may give several the same id.
        key = secrets.token_hex(16)
        await self._begin(message, key, self._deliveries.settle_unstored, message.raw_message.reply)

    async def _begin(
        self, message: NatsMessage, place: str, settle: Settle, reply: str = ""
    ) -> None:
        raw, trigger = message.raw_message, self._trigger
        link: Link | None = None

        async def firing_of() -> Firing | None:
            nonlocal link
            found = Link.of(raw.headers or {}, self._chains.depth, place)
            fires = firing(trigger, raw, place, found, reply)
            if fires is not None and found is not None:
                await self._chains.count(trigger.tenant, trigger.owner, found, trigger.source)
                link = found
            return fires

        fired: Fired | None = None
        try:
            fired = await settle(message, self._source, firing_of)
        finally:
            if link is not None and (fired is None or not fired.is_new):
                await self._chains.give_back(trigger.tenant, trigger.owner, link)
        if fired is not None:
            self._recorder.note(trigger, fired)


def firing(
    trigger: Trigger, message: Msg, place: str, link: Link | None = None, reply: str = ""
) -> Firing | None:
    """Return what the event fires; None: nothing.

    Args:
        trigger: The trigger that takes the event.
        message: The event.
        place: Its key, if it has none of its own.
        link: Its place in its chain, if it is an answer.
        reply: Its reply subject, if its sender may expect an answer there.

    Raises:
        UndeliverableFiring: the event lacks what the trigger needs.
    """
    headers = message.headers or {}
    if headers.get(TRIGGER) == trigger.mark:
        return None  # An answer of its own tasks.
    try:
        event = Event.of(message.subject, headers, message.data)
        if not trigger.matches(event):
            return None
        parts, context = trigger.parts(event), trigger.context_of(event)
        answers = _answers(trigger, link, reply)
    except (PathMissing, ReplyRefused) as missing:
        raise UndeliverableFiring(f"{trigger.source}: {missing}") from missing
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


def _answers(trigger: Trigger, link: Link | None, reply: str) -> TaskAnswers | None:
    if trigger.answers is None:
        return None
    depth, chain = (0, "") if link is None else (link.depth, link.chain)
    return trigger.answers.answers(reply, depth + 1, trigger.mark, chain)
