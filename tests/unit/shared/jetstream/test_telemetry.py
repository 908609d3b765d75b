"""The labels of what a service's broker measures."""

from faststream.nats import NatsBroker, TestNatsBroker
from prometheus_client import CollectorRegistry

from headrace.jetstream.broker import telemetry


async def test_metrics_name_a_kind_of_subject_and_not_each_subject() -> None:
    registry = CollectorRegistry()
    broker = NatsBroker(middlewares=telemetry("test", registry, lambda subject: subject[:6]))

    @broker.subscriber("orders.*")
    async def take(body: str) -> None:
        """Take an order."""

    async with TestNatsBroker(broker):
        for number in range(3):
            await broker.publish("new", f"orders.{number}")
    received = [
        (sample.labels["handler"], sample.value)
        for family in registry.collect()
        for sample in family.samples
        if sample.name == "faststream_received_messages_total"
    ]
    assert received == [("orders", 3)]
