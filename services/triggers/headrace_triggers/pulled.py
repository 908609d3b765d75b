"""Subscriptions to what streams store: pulled by all replicas through one durable consumer."""

from collections.abc import Awaitable, Callable
from typing import Any

from faststream import AckPolicy
from faststream.nats import JStream, NatsBroker, NatsMessage, PullSub
from faststream.nats.subscriber.usecases import LogicSubscriber
from nats.js.api import ConsumerConfig

from headrace.jetstream.connection import Bus

_PULL = 5.0
"""Seconds that a request for messages waits."""


def pulled(
    bus: Bus,
    broker: NatsBroker,
    stream: str,
    consumer: ConsumerConfig,
    take: Callable[[NatsMessage], Awaitable[None]],
    *,
    batch: int,
) -> LogicSubscriber[Any]:
    """Return the subscription of a durable `consumer` of `stream`, which acknowledges by hand.

    FastStream makes the consumer if it is missing, and changes no existing one. At most `batch`
    messages are handled at a time.
    """
    subscriber: LogicSubscriber[Any] = broker.subscriber(
        str(consumer.filter_subject),
        stream=JStream(stream, declare=False),
        durable=consumer.durable_name,
        config=consumer,
        pull_sub=PullSub(batch_size=batch, timeout=_PULL),
        inbox_prefix=bus.among_role("").encode(),
        ack_policy=AckPolicy.MANUAL,
        # FastStream would answer on the subject that the header `reply_to` of a message names.
        no_reply=True,
    )
    subscriber(take)
    return subscriber
