"""Applications of FastStream's that begin a task for each message on Kafka, or on RabbitMQ.

A message that is delivered again begins no second task, as its place (Kafka) or its id (RabbitMQ)
is the Idempotency-Key. It is acknowledged once the task is accepted; the console shows what the
agent answers. A message of which no task can be made goes to ``orders.refused``.

Run ``headrace dev``, replace the brokers' addresses, and run ``faststream run
faststream_bridges:on_kafka`` or ``:on_rabbit`` from this folder. Needs ``headrace[client]`` and
``faststream[kafka,rabbit,cli]``.
"""

from typing import Any

from faststream import AckPolicy, FastStream
from faststream.kafka import KafkaBroker, KafkaMessage
from faststream.rabbit import RabbitBroker, RabbitMessage
from pydantic import BaseModel, ValidationError

from headrace.client import Client, RequestRefused

GATEWAY = "http://127.0.0.1:8080"
KAFKA = "127.0.0.1:9092"
RABBIT = "amqp://guest:guest@127.0.0.1:5672/"

kafka, rabbit = KafkaBroker(KAFKA), RabbitBroker(RABBIT)
on_kafka, on_rabbit = FastStream(kafka), FastStream(rabbit)


class CreatedOrder(BaseModel):
    """A message on ``orders.created``."""

    id: str
    article: str
    quantity: int


async def begin(body: bytes, key: str) -> str | None:
    """Begin the task of a message, once per `key`; return why none can be made of it."""
    try:
        order = CreatedOrder.model_validate_json(body)
        async with Client(GATEWAY) as client:
            await client.send(
                "orders", [{"data": order.model_dump()}], idempotency_key=key, wait=False
            )
    except ValidationError as invalid:
        return str(invalid)
    except RequestRefused as refused:
        if refused.status not in (400, 413):
            raise  # It may be accepted later: the message is delivered again.
        return str(refused)
    return None


@kafka.subscriber("orders.created", group_id="agents", ack_policy=AckPolicy.NACK_ON_ERROR)
async def take_record(message: KafkaMessage) -> None:
    """Begin the task of a record."""
    record: Any = message.raw_message
    key = f"{record.topic}/{record.partition}/{record.offset}"
    if why := await begin(message.body, key):
        await kafka.publish(message.body, "orders.refused", headers={"why": why})


@rabbit.subscriber("orders.created", ack_policy=AckPolicy.NACK_ON_ERROR)
async def take_message(message: RabbitMessage) -> None:
    """Begin the task of a message; its publisher gives it an id."""
    name = message.raw_message.message_id
    why = await begin(message.body, f"orders.created/{name}") if name else "it has no message id"
    if why:
        await rabbit.publish(message.body, "orders.refused", headers={"why": why})
