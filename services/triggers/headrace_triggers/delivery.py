"""How a delivered message that fires is settled: each ends as a task, a dead letter or a drop.

It is acknowledged once its task has begun. One that can't become a task is acknowledged once it is
stored as a dead letter, as far as it fits into one. If no letter can be stored, the message is
dropped: it is counted and logged with its place in the stream, and shown to its owner. After any
other error it is delivered again, at growing intervals. If its handling fails with an error that is
a defect, it is given up after some deliveries.
"""

import logging
from base64 import b64encode
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Literal

from faststream.nats import NatsMessage
from nats.aio.msg import Msg

from headrace.failure_count import FailureCount
from headrace.jetstream.connection import Bus
from headrace.jetstream.errors import Refused
from headrace.metrics import TRIGGER_EVENTS
from headrace.model import events
from headrace.model.errors import BusUnavailable, HeadraceError
from headrace.model.messages import DeadLetter
from headrace.tasks.dead_letters import write_letter
from headrace_triggers.firing import Fired, Firing, Firings, UndeliverableFiring

_log = logging.getLogger(__name__)

_FIRST_DELAY, _LONGEST_DELAY = 0.5, 30.0
"""Seconds until a message is delivered again; the delay doubles each time."""

_DOUBLINGS = 10

_MOST_CRASHES = 10
"""Failures, about two minutes, after which a message is given up whose handling fails with an
error that is none of ours. Each replica counts its own."""


class FiringWaits(Exception):
    """The message is to be delivered again; the caller that settles it decides when."""


class Crashed(HeadraceError):
    """Handling the message failed with an error that is none of ours: a defect."""


@dataclass(frozen=True, slots=True)
class EventOutcome:
    """What became of a message that has begun no task."""

    kind: Literal["letter", "dropped", "waits"]
    """``waits``: it is delivered again later."""
    reason: str
    stream: str | None = None
    """Its stream and place there. None: it came over core NATS."""
    sequence: int | None = None


def _note_nothing(_: EventOutcome) -> None:
    """Take an outcome that nobody is shown."""


@dataclass(frozen=True, slots=True)
class FiringSource:
    """What messages are delivered for: a trigger or schedule."""

    name: str
    """As in `Firing.source`."""
    tenant: str
    agent: str
    note: Callable[[EventOutcome], None] = _note_nothing
    """Is called for each message that begins no task."""


@dataclass(frozen=True, slots=True)
class _StoredAt:
    """Where a message is stored."""

    stream: str
    sequence: int

    @classmethod
    def of(cls, raw: Msg) -> "_StoredAt":
        return cls(raw.metadata.stream, raw.metadata.sequence.stream)


class Deliveries:
    """Settles the messages of JetStream consumers."""

    def __init__(self, bus: Bus, firings: Firings, most_crashes: int = _MOST_CRASHES) -> None:
        """Begin the tasks through `firings`; write dead letters to `bus`.

        A message whose handling crashes is given up when it has crashed `most_crashes` times.
        """
        self._crashes = FailureCount()
        self._bus, self._firings, self._most_crashes = bus, firings, most_crashes

    async def settle(
        self,
        message: NatsMessage,
        source: FiringSource,
        firing_of: Callable[[], Awaitable[Firing | None]],
    ) -> Fired | None:
        """Begin the task of the firing that `firing_of` returns, and acknowledge the message.

        `firing_of` returns None for a message that fires nothing, which is acknowledged. It raises
        UndeliverableFiring for a message that can't become a task, and other errors if it should
        be delivered again.

        Returns:
            The firing, if it has a task.
        """
        fired = None
        try:
            try:
                fired = await self._fired(firing_of)
            except UndeliverableFiring as unfit:
                raw = message.raw_message
                await self._give_up(raw, source, unfit, _StoredAt.of(raw))
        except HeadraceError as error:
            await self._again(message, source, error)
        except FiringWaits:
            raise
        except Exception as crash:  # noqa: BLE001 - a defect must not have it delivered for ever
            _log.exception("%s: an event can't be handled", source.name)
            await self._crashed(message, source, crash)
        else:
            await message.ack()
        return fired

    async def settle_unstored(
        self,
        message: NatsMessage,
        source: FiringSource,
        firing_of: Callable[[], Awaitable[Firing | None]],
    ) -> Fired | None:
        """Begin the task of a message that no stream keeps; return the firing, if it has a task.

        It can't be delivered again, so a dead letter keeps what begins no task at once.
        """
        try:
            return await self._fired(firing_of)
        except HeadraceError as error:
            await self._give_up(message.raw_message, source, error, None)
        except Exception as crash:  # noqa: BLE001 - a defect must not have it delivered for ever
            _log.exception("%s: an event can't be handled", source.name)
            why = Crashed(f"{source.name}: {crash!r}")
            await self._give_up(message.raw_message, source, why, None)
        return None

    async def _again(
        self, message: NatsMessage, source: FiringSource, error: HeadraceError
    ) -> None:
        _log.warning("%s: an event is delivered again later: %s", source.name, error)
        _note(source, "waits", str(error), _StoredAt.of(message.raw_message))
        await message.nack(delay=_delay(message))

    async def _crashed(self, message: NatsMessage, source: FiringSource, crash: Exception) -> None:
        """Give the message up if it has crashed often, else have it delivered again."""
        metadata = message.raw_message.metadata
        place = metadata.stream, metadata.consumer, metadata.sequence.stream
        why = Crashed(f"{source.name}: {crash!r}")
        # Not its deliveries, of which one that waits for a quota has many.
        if self._crashes.add(place) < self._most_crashes:
            await self._again(message, source, why)
            return
        try:
            raw = message.raw_message
            await self._give_up(raw, source, why, _StoredAt.of(raw))
        except HeadraceError as error:
            await self._again(message, source, error)
        else:
            self._crashes.forget(place)
            await message.ack()

    async def _fired(self, firing_of: Callable[[], Awaitable[Firing | None]]) -> Fired | None:
        firing = await firing_of()
        if firing is None:
            return None
        fired = await self._firings.begin(firing)
        if fired.is_new:
            TRIGGER_EVENTS.labels("began").inc()
        return fired

    async def _give_up(
        self, raw: Msg, source: FiringSource, why: HeadraceError, place: _StoredAt | None
    ) -> None:
        """Keep a message as a dead letter; drop it if no letter can ever be stored.

        One that no stream keeps, so without a `place`, is dropped if no letter can be stored now.

        Raises:
            BusUnavailable: It is not stored yet.
        """
        try:
            await self._keep(raw, source, why, place)
        except BusUnavailable as error:
            is_final = isinstance(error, Refused) and not error.is_passing
            if place is not None and not is_final:
                raise
            self._drop(source, f"{why}; no dead letter: {error}", place)
        except Exception as defect:  # noqa: BLE001 - else it would be delivered for ever, or lost
            _log.exception("%s: an event can't be kept as a dead letter", source.name)
            self._drop(source, f"{why}; no dead letter: {defect!r}", place)

    async def _keep(
        self, raw: Msg, source: FiringSource, why: HeadraceError, place: _StoredAt | None
    ) -> None:
        letter = DeadLetter(
            reason=str(why),
            subject=raw.subject,
            stream=None if place is None else place.stream,
            sequence=None if place is None else place.sequence,
            headers=dict(raw.headers or {}),
            body=b64encode(raw.data).decode(),
            trigger=source.name,
            at=events.now(),
        )
        unique = None
        if place is not None:
            unique = f"{source.tenant}/{source.name}/{place.stream}/{place.sequence}"
        if await write_letter(self._bus, letter, unique, (source.tenant, source.agent)):
            _log.warning("%s; the event is a dead letter now", why)
            _note(source, "letter", str(why), place)
        else:
            self._drop(source, f"{why}; there is no room for a dead letter", place)

    @staticmethod
    def _drop(source: FiringSource, reason: str, place: _StoredAt | None) -> None:
        where = "over core NATS" if place is None else f"at {place.sequence} of {place.stream}"
        _log.error("%s: the event %s is dropped: %s", source.name, where, reason)
        _note(source, "dropped", reason, place)


def _note(
    source: FiringSource,
    kind: Literal["letter", "dropped", "waits"],
    reason: str,
    place: _StoredAt | None,
) -> None:
    TRIGGER_EVENTS.labels(kind).inc()
    where = (None, None) if place is None else (place.stream, place.sequence)
    source.note(EventOutcome(kind, reason, *where))


def _delay(message: NatsMessage) -> float:
    times = message.raw_message.metadata.num_delivered - 1
    return float(min(_FIRST_DELAY * 2 ** min(times, _DOUBLINGS), _LONGEST_DELAY))
