"""How a delivered message that fires is settled: acknowledged once its task has begun.

A message that can't become a task is acknowledged once it is stored as a dead letter, whole. After
any other error it is delivered again, at growing intervals, so nothing is dropped. If its handling
fails with an error that is a defect, it becomes a dead letter after some deliveries.
"""

import logging
from base64 import b64encode
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from faststream.nats import NatsMessage
from nats.aio.msg import Msg

from headrace.failure_count import FailureCount
from headrace.jetstream.connection import Bus
from headrace.model import events
from headrace.model.errors import BusUnavailable, HeadraceError
from headrace.model.messages import DeadLetter
from headrace.tasks.dead_letters import write_letter
from headrace_triggers.firing import Fired, Firing, Firings, Unfit

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
class FiringSource:
    """What messages are delivered for: a trigger or schedule."""

    name: str
    """As in `Firing.source`."""
    tenant: str
    agent: str


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
        Unfit for a message that can't become a task, and other errors if it should be delivered
        again.

        Returns:
            The firing, if it has a task.
        """
        fired = None
        try:
            try:
                fired = await self._fired(firing_of)
            except Unfit as unfit:
                await self._give_up(message, source, unfit)
        except HeadraceError as error:
            _log.warning("%s: an event is delivered again later: %s", source.name, error)
            await message.nack(delay=_delay(message))
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
            await self._keep_unstored(message, source, error)
        except Exception as crash:  # noqa: BLE001 - a defect must not have it delivered for ever
            _log.exception("%s: an event can't be handled", source.name)
            await self._keep_unstored(message, source, Crashed(f"{source.name}: {crash!r}"))
        return None

    async def _keep_unstored(
        self, message: NatsMessage, source: FiringSource, why: HeadraceError
    ) -> None:
        try:
            await self._write(message.raw_message, source, why)
        except BusUnavailable as lost:
            _log.error("%s: an event is lost: %s; %s", source.name, why, lost)

    async def _crashed(self, message: NatsMessage, source: FiringSource, crash: Exception) -> None:
        """Give the message up if it has crashed often, else have it delivered again."""
        metadata = message.raw_message.metadata
        place = metadata.stream, metadata.consumer, metadata.sequence.stream
        # Not its deliveries, of which one that waits for a quota has many.
        if self._crashes.add(place) < self._most_crashes:
            await message.nack(delay=_delay(message))
            return
        try:
            await self._give_up(message, source, Crashed(f"{source.name}: {crash!r}"))
        except HeadraceError as error:
            _log.warning("%s: no dead letter yet: %s", source.name, error)
            await message.nack(delay=_delay(message))
        else:
            self._crashes.forget(place)
            await message.ack()

    async def _fired(self, firing_of: Callable[[], Awaitable[Firing | None]]) -> Fired | None:
        firing = await firing_of()
        return None if firing is None else await self._firings.begin(firing)

    async def _give_up(
        self, message: NatsMessage, source: FiringSource, why: HeadraceError
    ) -> None:
        raw = message.raw_message
        sequence = raw.metadata.sequence.stream
        unique = f"{source.tenant}/{source.name}/{raw.metadata.stream}/{sequence}"
        await self._write(raw, source, why, sequence, unique)

    async def _write(
        self,
        raw: Msg,
        source: FiringSource,
        why: HeadraceError,
        sequence: int | None = None,
        unique: str | None = None,
    ) -> None:
        letter = DeadLetter(
            reason=str(why),
            subject=raw.subject,
            sequence=sequence,
            headers=dict(raw.headers or {}),
            body=b64encode(raw.data).decode(),
            trigger=source.name,
            at=events.now(),
        )
        _log.warning("%s; the event is a dead letter now", why)
        await write_letter(self._bus, letter, unique, (source.tenant, source.agent))


def _delay(message: NatsMessage) -> float:
    times = message.raw_message.metadata.num_delivered - 1
    return float(min(_FIRST_DELAY * 2 ** min(times, _DOUBLINGS), _LONGEST_DELAY))
