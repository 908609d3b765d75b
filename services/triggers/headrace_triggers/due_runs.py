"""Delayed run requests that are due: each is put into the queue."""

import logging

from faststream.nats import NatsBroker, NatsMessage

from headrace.jetstream.connection import Bus
from headrace.jetstream.durables import of_due_runs
from headrace.model.errors import BusUnavailable, NewerVersion, UndecodableMessage
from headrace.model.run import Run
from headrace.tasks.runs import RunRequests
from headrace_triggers.pulled import pulled

_log = logging.getLogger(__name__)

_BATCH = 64
_AGAIN = 2.0
"""Seconds until a run that the queue did not take, or that is too new, is delivered again."""


class DueRuns:
    """Takes run requests as they become due; any number of replicas may."""

    def __init__(self, bus: Bus) -> None:
        """Publish run requests on `bus`."""
        self._bus, self._runs = bus, RunRequests(bus)

    def subscribe(self, broker: NatsBroker) -> None:
        """Take run requests once `broker` has started."""
        config = of_due_runs(self._bus.subjects)
        stream = self._bus.streams.schedules
        pulled(self._bus, broker, stream, config, self._handle, batch=_BATCH, persistent=True)

    async def _handle(self, message: NatsMessage) -> None:
        subjects, raw = self._bus.subjects, message.raw_message
        try:
            run = Run.read(subjects, raw.subject, raw.headers, raw.data)
        except NewerVersion as newer:
            _log.warning("left a delayed run to replicas of a later release: %s", newer)
            await message.nack(delay=_AGAIN)
            return
        except UndecodableMessage as error:
            _log.error("dropped a message that is not a run request: %s", error)
            await message.reject()
            return
        try:
            # It is due by the server's clock; this machine's may differ.
            await self._runs.publish(run._replace(terms=run.terms._replace(start_at=None)))
        except BusUnavailable as error:
            _log.warning("task %s is requested again later: %s", run.key.task, error)
            await message.nack(delay=_AGAIN)
        else:
            await message.ack()
