"""Firings and due runs that are finished, but that nats-server has again after ``kill -9``."""

from headrace.jetstream.connection import Bus
from headrace.jetstream.consumers import consumer_info
from headrace.jetstream.durables import of_due_runs, of_firings
from headrace.jetstream.finished_messages import remove_finished


async def remove_finished_firings(bus: Bus) -> None:
    """Remove them. Each was acknowledged: a firing once it had its outcome, a run once queued.

    Raises:
        BusUnavailable: JetStream does not answer.
    """
    stream = bus.streams.schedules
    queues = of_firings(bus.subjects), of_due_runs(bus.subjects)
    found = [await consumer_info(bus, stream, str(queue.durable_name)) for queue in queues]
    await remove_finished(bus, stream, found)
