"""Messages that a work queue's consumer has finished, but that nats-server has again.

After ``kill -9``, nats-server 2.15 may have undone removals. What is back behind a consumer's ack
floor is neither delivered nor removed by NATS. It was acknowledged, so nothing is lost with it.
"""

from collections.abc import Iterable

from headrace.jetstream.api import Json, stream_info
from headrace.jetstream.connection import Bus
from headrace.jetstream.purge import purge


async def remove_finished(bus: Bus, stream: str, consumers: Iterable[Json]) -> None:
    """Remove messages of a work queue up to the ack floors of its consumers.

    Any number of processes may do so at once.

    Args:
        bus: A connected bus.
        stream: The stream, a work queue.
        consumers: JetStream's ConsumerInfo of its consumers, each with one filter.

    Raises:
        BusUnavailable: JetStream does not answer.
    """
    # Read after the consumers: it is never older than what they have finished.
    state = (await stream_info(bus, stream))["state"]
    for consumer in consumers:
        finished = int(consumer["ack_floor"]["stream_seq"])
        # A stream that is behind its consumer has lost its sequences, and starts over.
        if state["messages"] and state["first_seq"] <= finished <= state["last_seq"]:
            await purge(bus, stream, consumer["config"]["filter_subject"], finished + 1)
