"""Messages on Kafka and RabbitMQ begin tasks of a real fleet by the example's applications."""

from collections.abc import Awaitable, Callable

from faststream.kafka import TestKafkaBroker
from faststream.rabbit import TestRabbitBroker

from headrace.client import Client
from tests.support.examples import example
from tests.support.fleet import Fleet

type Publish = Callable[[str, int], Awaitable[object]]
"""Publishes, or delivers again, the order of that name that stands at that place."""


def order(name: str) -> dict[str, object]:
    return {"id": name, "article": "nails", "quantity": 5}


async def delivered_twice(fleet: Fleet, prefix: str, publish: Publish) -> None:
    """Have two orders delivered twice, and expect a task of each."""
    names = [f"{prefix}-1", f"{prefix}-2"]
    for place, name in [*enumerate(names), *enumerate(names)]:
        await publish(name, place)
    begun = list[str]()
    async with Client(fleet.gateways[0]) as client:
        async for task in client.tasks("orders"):
            parts = (await client.get("orders", task.id)).task["history"][0]["parts"]
            begun += [part["data"]["id"] for part in parts if "data" in part]
    assert sorted(name for name in begun if name in names) == names


async def test_each_record_of_kafka_begins_one_task(fleet: Fleet) -> None:
    module = example("faststream_bridges", GATEWAY=fleet.gateways[1])
    async with TestKafkaBroker(module.kafka) as broker:
        await delivered_twice(
            fleet,
            "kafka",
            # In memory each record's offset is 0.
            lambda name, place: broker.publish(order(name), "orders.created", partition=place),
        )


async def test_each_message_of_rabbitmq_begins_one_task(fleet: Fleet) -> None:
    module = example("faststream_bridges", GATEWAY=fleet.gateways[0])
    async with TestRabbitBroker(module.rabbit) as broker:
        await delivered_twice(
            fleet,
            "rabbit",
            lambda name, place: broker.publish(
                order(name), "orders.created", message_id=f"rabbit/{place}"
            ),
        )
