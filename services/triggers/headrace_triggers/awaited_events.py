"""Events for which runs wait: the first that matches wakes the run, and ends its trigger."""

import logging

from faststream.nats import NatsMessage
from nats.aio.msg import Msg

from headrace.jetstream.connection import Bus
from headrace.log import last_entry
from headrace.model.errors import EventTooLarge, HeadraceError
from headrace.model.event_template import Event, PathMissing
from headrace.model.messages import WokenRun
from headrace.model.task import TaskKey
from headrace.model.wait import SourceEvent
from headrace.tasks.wake import wake_by
from headrace.triggers import Trigger, TriggerStore

_log = logging.getLogger(__name__)

_AGAIN = 2.0
"""Seconds until an event that could not be recorded is delivered again."""


class AwaitedEvents:
    """Takes the events of one trigger that wakes a run."""

    def __init__(self, bus: Bus, store: TriggerStore, trigger: Trigger, run: WokenRun) -> None:
        """Wake `run`, on `bus`, and delete `trigger` from `store` then."""
        self._bus, self._store, self._trigger, self._run = bus, store, trigger, run

    async def begin(self, message: NatsMessage) -> None:
        """Wake the run with the event, if it matches."""
        raw = message.raw_message
        try:
            if self._matches(raw):
                await self._wake(raw)
        except EventTooLarge as error:
            _log.error("%s: an event is dropped: %s", self._trigger.source, error)
        except HeadraceError as error:
            _log.warning("%s: an event is delivered again later: %s", self._trigger.source, error)
            await message.nack(delay=_AGAIN)
            return
        await message.ack()

    def _matches(self, raw: Msg) -> bool:
        try:
            return self._trigger.matches(Event.of(raw.subject, raw.headers, raw.data))
        except PathMissing:
            return not self._trigger.filter  # Its body is neither JSON nor text.

    async def _wake(self, raw: Msg) -> None:
        trigger = self._trigger
        event = SourceEvent.of_message(raw.subject, raw.headers, raw.data, raw.metadata.timestamp)
        await wake_by(self._bus, trigger.tenant, trigger.owner, self._run, event)
        await self._store.delete(trigger)


async def delete_triggers_of_ended_runs(bus: Bus, store: TriggerStore) -> None:
    """Delete the triggers of runs that have ended without an event.

    Raises:
        BusUnavailable: NATS does not answer.
    """
    for trigger in await store.all():
        if (run := trigger.wakes) is not None:
            last = await last_entry(bus, TaskKey(trigger.tenant, run.agent, run.task))
            if last is None or last.ends_run or last.stamp.run != run.run:
                await store.delete(trigger)
