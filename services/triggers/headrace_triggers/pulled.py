"""Subscriptions of FastStream's broker: to what streams store, and to subjects as they are."""

from collections.abc import Awaitable, Callable
from typing import Any

from faststream import AckPolicy
from faststream.nats import JStream, NatsBroker, NatsMessage, PullSub
from faststream.nats.subscriber.usecases import LogicSubscriber
from nats.js.api import ConsumerConfig

from headrace.jetstream.connection import Bus
from headrace.model.errors import HeadraceError

_PULL = 5.0
"""Seconds that a request for messages waits; one that a server loses delays events as long."""

type Take = Callable[[NatsMessage], Awaitable[None]]


class SubjectUnusable(HeadraceError):
    """FastStream would subscribe to another subject."""

    code = "subject_unusable"


def pulled(  # noqa: PLR0913 - what is pulled, and how
    bus: Bus,
    broker: NatsBroker,
    stream: str,
    consumer: ConsumerConfig,
    take: Take,
    *,
    batch: int,
    persistent: bool = False,
) -> LogicSubscriber[Any]:
    """Return the subscription of a durable `consumer` of `stream`, which acknowledges by hand.

    It is pulled by all replicas. FastStream makes the consumer if it is missing, and changes no
    existing one. At most `batch` messages are handled at a time. The broker keeps a `persistent`
    subscription as long as itself; the caller holds any other one until it has started.
    """
    return _subscribed(
        broker,
        # FastStream reads subjects as patterns of its own: the consumer's filter is kept from it.
        str(consumer.durable_name),
        take,
        stream=JStream(stream, declare=False),
        durable=consumer.durable_name,
        config=consumer,
        pull_sub=PullSub(batch_size=batch, timeout=_PULL),
        inbox_prefix=bus.among_role("").encode(),
        persistent=persistent,
    )


def shared(broker: NatsBroker, subject: str, group: str, take: Take) -> LogicSubscriber[Any]:
    """Return the subscription to `subject` over core NATS; one of `group` gets each message.

    Raises:
        SubjectUnusable: The subject can't be given to FastStream.
    """
    # FastStream reads a word in braces as a parameter, and subscribes to `*` in its place.
    escaped = subject.replace("{", "{{").replace("}", "}}")
    subscriber = _subscribed(broker, escaped, take, queue=group, persistent=False)
    if (other := subscriber.subject.broker_address) != subject:
        raise SubjectUnusable(f"subject {subject!r} can't be subscribed to: it would be {other!r}")
    return subscriber


def _subscribed(
    broker: NatsBroker,
    subject: str,
    take: Take,
    **terms: Any,  # noqa: ANN401 - FastStream's
) -> LogicSubscriber[Any]:
    subscriber: LogicSubscriber[Any] = broker.subscriber(
        subject,
        ack_policy=AckPolicy.MANUAL,
        # FastStream would answer on the subject that the header `reply_to` of a message, or its
        # sender, names. That may be one of JetStream's API.
        no_reply=True,
        # It would read the body as its `content-type` says, and pass on no body that is not so.
        # What the decoder returns is what is taken, because the broker injects nothing.
        decoder=_itself,
        **terms,
    )
    subscriber(take)
    return subscriber


async def _itself(message: NatsMessage) -> NatsMessage:
    return message
