"""What the example's applications on Kafka and RabbitMQ acknowledge, and when."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import ModuleType
from typing import Any

import pytest
from faststream.kafka import TestKafkaBroker
from faststream.kafka.message import FakeConsumer
from faststream.rabbit import TestRabbitBroker
from faststream.rabbit.message import RabbitMessage

from headrace.client import RequestRefused
from headrace.model.events import Json
from tests.support.examples import example
from tests.support.fake_gateway import FakeGateway, ScriptedResponse, answering

SEND = "/v1/agents/orders/message:send"
ORDER = {"id": "7", "article": "nails", "quantity": 5}
TASK = {"id": "t1", "contextId": "ann", "status": {"state": "TASK_STATE_SUBMITTED"}}
ACCEPTED = ScriptedResponse(body={"task": TASK})
PLACES: dict[str, list[Json]] = {
    "kafka": [{"partition": 0}, {"partition": 1}],
    "rabbit": [{"message_id": "first"}, {"message_id": "second"}],
}
KEYS = {
    "kafka": ["orders.created/0/0", "orders.created/1/0"],
    "rabbit": ["orders.created/first", "orders.created/second"],
}


@pytest.fixture
def settled(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What was done with the messages, in order."""
    settled = list[str]()

    def noting(outcome: str) -> Any:  # noqa: ANN401 - of either library
        async def note(*_: object, **__: object) -> None:
            settled.append(outcome)

        return note

    monkeypatch.setattr(FakeConsumer, "commit", noting("acknowledged"))
    monkeypatch.setattr(FakeConsumer, "seek", lambda *_, **__: settled.append("delivered again"))
    monkeypatch.setattr(RabbitMessage, "ack", noting("acknowledged"))
    monkeypatch.setattr(RabbitMessage, "nack", noting("delivered again"))
    return settled


@asynccontextmanager
async def application(kind: str, gateway: FakeGateway) -> AsyncIterator[tuple[Any, list[Json]]]:
    """Run one of the applications in memory; yield its broker, and why messages were refused."""
    module: ModuleType = example("faststream_bridges", GATEWAY=gateway.url)
    broker, refused = getattr(module, kind), list[Json]()

    @broker.subscriber("orders.refused")  # type: ignore[untyped-decorator]  # of either library
    async def note(message: Json) -> None:
        refused.append(message)

    brokers: Any = {"kafka": TestKafkaBroker, "rabbit": TestRabbitBroker}[kind]
    async with brokers(broker) as running:
        yield running, refused


@pytest.mark.parametrize("kind", PLACES)
async def test_a_message_is_acknowledged_once_its_task_is_accepted(
    kind: str, settled: list[str]
) -> None:
    with answering(**{SEND: ACCEPTED}) as gateway:
        async with application(kind, gateway) as (broker, refused):
            for place in PLACES[kind] * 2:
                await broker.publish(ORDER, "orders.created", **place)
        request = gateway.asked
    assert [one.headers["Idempotency-Key"] for one in request] == KEYS[kind] * 2
    bodies: list[Json | None] = [one.body for one in request]
    # The same request, or the gateway would refuse its key.
    assert bodies[:2] == bodies[2:]
    assert [(body or {})["configuration"] for body in bodies] == [{"returnImmediately": True}] * 4
    assert (settled, refused) == (["acknowledged"] * 4, [])


@pytest.mark.parametrize("kind", PLACES)
async def test_a_message_that_may_be_accepted_later_is_delivered_again(
    kind: str, settled: list[str]
) -> None:
    missing = ScriptedResponse(404, {"error": {"message": "no such agent"}})
    with answering(**{SEND: missing}) as gateway:
        async with application(kind, gateway) as (broker, refused):
            for place in PLACES[kind]:
                with pytest.raises(RequestRefused):
                    await broker.publish(ORDER, "orders.created", **place)
    assert (settled, refused) == (["delivered again"] * 2, [])


@pytest.mark.parametrize("kind", PLACES)
async def test_a_message_of_which_no_task_can_be_made_is_kept_as_refused(
    kind: str, settled: list[str]
) -> None:
    invalid = ScriptedResponse(400, {"error": {"message": "takes no data"}})
    other = {"id": "8"}
    with answering(**{SEND: invalid}) as gateway:
        async with application(kind, gateway) as (broker, refused):
            for message, place in zip((ORDER, other), PLACES[kind], strict=True):
                await broker.publish(message, "orders.created", **place)
        assert len(gateway.asked) == 1
    assert refused == [ORDER, other]
    # Those that are refused are messages, too.
    assert settled.count("acknowledged") >= 2
    assert "delivered again" not in settled
