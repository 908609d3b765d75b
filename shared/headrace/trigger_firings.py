"""What the last firings of triggers have begun, and how many events wait.

The triggers service writes a trigger's record about a second after a firing. The records are for
people to look at: what a killed replica has not written is lost.
"""

from collections.abc import Sequence

from pydantic import Field

from headrace.jetstream.connection import Bus
from headrace.jetstream.consumers import consumer_info
from headrace.jetstream.kv import Bucket, KeyChanged
from headrace.model.errors import BusUnavailable
from headrace.model.messages import BusMessage
from headrace.triggers import Trigger

KEPT_FIRINGS = 20
"""Number of last firings that are kept per trigger."""

_KEPT_FOR = 30 * 24 * 3600
"""Seconds for which they are kept after the last one. A deleted trigger's expire, too."""

_ROUNDS = 5
_TIMEOUT = 2.0


class TriggerFiring(BusMessage):
    """A firing of a trigger."""

    at: str
    """When its task began: RFC 3339."""
    agent: str
    task: str


class TriggerFirings(BusMessage):
    """The last firings of a trigger, oldest first."""

    since: str
    """That of the trigger. One that was deleted and made again has another one."""
    last: list[TriggerFiring] = Field(default_factory=list)
    """At most `KEPT_FIRINGS`."""


class FiringHistory:
    """The records. Every call raises BusUnavailable if NATS does not answer."""

    def __init__(self, bus: Bus) -> None:
        """Use the triggers' bucket on `bus`."""
        self._bus, self._bucket = bus, Bucket(bus, bus.streams.triggers)

    async def last(self, trigger: Trigger) -> list[TriggerFiring]:
        """Return the last firings, oldest first."""
        return (await self._read(trigger))[0]

    async def add(self, trigger: Trigger, firings: Sequence[TriggerFiring]) -> None:
        """Record firings; those whose task is recorded already are left out.

        Raises:
            KeyChanged: others change the record all the time.
        """
        for _ in range(_ROUNDS):
            known, sequence = await self._read(trigger)
            tasks = {one.task for one in known}
            new = [one for one in firings if one.task not in tasks]
            last = sorted([*known, *new], key=lambda one: one.at)[-KEPT_FIRINGS:]
            data = TriggerFirings(since=trigger.since, last=last).encode()
            try:
                await self._bucket.put(_key(trigger), data, sequence, seconds=_KEPT_FOR)
            except KeyChanged:
                continue
            return
        raise KeyChanged(f"the firings of {trigger.source} are being changed concurrently")

    async def waiting(self, trigger: Trigger) -> int | None:
        """Return how many events wait or are in progress.

        None: no service records them, the triggers service has not started yet, or NATS does not
        answer.
        """
        if trigger.stream is None:
            return None
        try:
            info = await consumer_info(self._bus, trigger.stream, trigger.consumer, _TIMEOUT)
        except BusUnavailable:
            return None
        return int(info["num_pending"]) + int(info["num_ack_pending"])

    async def _read(self, trigger: Trigger) -> tuple[list[TriggerFiring], int]:
        key = _key(trigger)
        found = await self._bucket.get(key)
        if found.data is None:
            return [], found.sequence
        record = TriggerFirings.decode(key, found.data)
        return record.last if record.since == trigger.since else [], found.sequence


def _key(trigger: Trigger) -> str:
    return f"fired.{trigger.key.partition('.')[2]}"
