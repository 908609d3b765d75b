"""An application of FastStream's that asks an agent, and publishes what it answers.

A trigger does the same without an application (docs/triggers.md); here the handler decides. Run
``headrace dev``, and from this folder ``faststream run faststream_orders:app``. Needs
``headrace[client]`` and ``faststream[nats,cli]``.
"""

from faststream import FastStream
from faststream.nats import NatsBroker
from pydantic import BaseModel

from headrace.client import Client

GATEWAY = "http://127.0.0.1:8080"

broker = NatsBroker("nats://127.0.0.1:4222")
app = FastStream(broker)


class Order(BaseModel):
    """An event on ``orders.created``."""

    id: int
    customer: str


class Checked(BaseModel):
    """An event on ``orders.checked``."""

    id: int
    answer: str


@broker.subscriber("orders.created")
@broker.publisher("orders.checked")
async def check(order: Order) -> Checked:
    """Ask the agent about an order."""
    async with Client(GATEWAY) as client:
        task = await client.send("echo", f"Check order {order.id}", context=order.customer)
    return Checked(id=order.id, answer=task.text)
