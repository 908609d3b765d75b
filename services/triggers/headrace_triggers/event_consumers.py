"""The replicas' durable consumers on the users' streams: one per trigger, deleted with it.

Each is recorded beside the triggers before it is made. So one whose trigger was deleted while no
replica ran is found by the next one that starts.
"""

import logging
from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime

import nats.errors
import nats.js.errors
from nats.js.api import ConsumerConfig, DeliverPolicy

from headrace.jetstream.connection import Bus
from headrace.jetstream.kv import Bucket, KeyChanged
from headrace.model.errors import UndecodableMessage
from headrace.model.messages import BusMessage
from headrace.triggers import Trigger, TriggerStore

_log = logging.getLogger(__name__)

_KEYS = "consumer.>"
"""The keys of the records in the bucket."""


class ConsumerRecord(BusMessage):
    """A consumer that may exist, and the trigger that it was made for."""

    stream: str
    consumer: str
    trigger: str
    """The trigger's key in the bucket."""

    @classmethod
    def of(cls, trigger: Trigger, stream: str) -> "ConsumerRecord":
        """Return the record of a trigger whose events `stream` stores."""
        return cls(stream=stream, consumer=trigger.consumer, trigger=trigger.key)

    @property
    def key(self) -> str:
        """Its key in the bucket."""
        return f"consumer.{self.stream}.{self.consumer}"


class EventConsumers:
    """The consumers of all triggers. Every call raises BusUnavailable if NATS does not answer."""

    def __init__(self, bus: Bus, store: TriggerStore, ack_wait: float) -> None:
        """Make and delete them on `bus`, for the triggers of `store`.

        An event that is not acknowledged for `ack_wait` seconds is delivered again.
        """
        self._bus, self._store, self._ack_wait = bus, store, ack_wait
        self._bucket = Bucket(bus, bus.streams.triggers)

    async def make(self, trigger: Trigger, stream: str) -> ConsumerConfig:
        """Make the trigger's consumer of `stream`, or change it. Return what it is to be.

        Raises:
            Error: of `nats.js`; JetStream refuses it. There may be no such stream yet.
        """
        record = ConsumerRecord.of(trigger, stream)
        found = await self._bucket.get(record.key)
        if found.data is None:
            with suppress(KeyChanged):  # another replica has recorded it
                await self._bucket.put(record.key, record.encode(), found.sequence)
        consumer = ConsumerConfig(
            durable_name=trigger.consumer,
            filter_subject=trigger.subject,
            deliver_policy=DeliverPolicy.BY_START_TIME,
            opt_start_time=datetime.fromisoformat(trigger.since),
            ack_wait=self._ack_wait,
            # Nothing is dropped: an event that can't begin a task now waits.
            max_deliver=-1,
            max_ack_pending=trigger.limit,
        )
        await self._bus.js.add_consumer(stream, consumer)
        return consumer

    async def delete_unused(self, kept: Sequence[Trigger], stopped: Sequence[Trigger]) -> None:
        """Delete the consumers of which no trigger takes its events.

        Args:
            kept: The triggers that are known; what is known may be old.
            stopped: Triggers whose events this replica takes no longer. Another one may have
                deleted the record of a consumer just before this one made it again.
        """
        used = {(one.stream, one.consumer) for one in kept}
        found = await self._recorded()
        found += [ConsumerRecord.of(one, one.stream) for one in stopped if one.stream is not None]
        for record in {one.key: one for one in found}.values():
            if (record.stream, record.consumer) in used:
                continue
            # Another replica may just have begun to use it.
            if not await self._store.needs(record.trigger, record.stream, record.consumer):
                await self._delete(record)

    async def _recorded(self) -> list[ConsumerRecord]:
        found = list[ConsumerRecord]()
        for key, copied in (await self._bucket.copy(_KEYS)).items():
            try:
                found.append(ConsumerRecord.decode(key, copied.data))
            except UndecodableMessage as error:
                _log.debug("a later version wrote a record: %s", error)
        return found

    async def _delete(self, record: ConsumerRecord) -> None:
        try:
            await self._bus.js.delete_consumer(record.stream, record.consumer)
        except nats.js.errors.NotFoundError:
            _log.debug("consumer %s of %s is gone", record.consumer, record.stream)
        except nats.errors.Error as error:
            _log.warning(
                "consumer %s of %s is not deleted yet: %s", record.consumer, record.stream, error
            )
            return
        await self._bucket.delete(record.key)
