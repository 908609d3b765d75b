"""An application of FastStream's that asks an agent, and publishes what it answers.

A trigger does the same without an application (docs/triggers.md); here the handler decides. Run
``headrace dev``, replace `NATS` by the URL that it prints, and run ``faststream run
faststream_orders:app`` from this folder. Needs ``headrace[client]`` and ``faststream[nats,cli]``.
"""

from faststream import FastStream
from faststream.nats import NatsBroker
from pydantic import BaseModel

from headrace.client import Client

GATEWAY = "http://127.0.0.1:8080"
NATS = "nats://127.0.0.1:4222"

broker = NatsBroker(NATS)
app = FastStream(broker)


class Order(BaseModel):
    """An event on ``orders.created``."""

    id: str
    article: str
    quantity: int


class Checked(BaseModel):
    """An event on ``orders.checked``."""

    id: str
    state: str
    """``input-required`` if a person is asked; the console shows the question."""
    answer: str


@broker.subscriber("orders.created")
@broker.publisher("orders.checked")
async def check(order: Order) -> Checked:
    """Have the agent check an order."""
    async with Client(GATEWAY) as client:
        task = await client.send("orders", [{"data": order.model_dump()}])
    return Checked(id=order.id, state=task.state, answer=task.text)
