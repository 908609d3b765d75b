"""Publish an order on NATS, and print what the agents answer until it is decided.

``python publish.py NATS_URL QUANTITY ARTICLE``, with the URL that ``headrace dev`` prints. An order
of more nails than are left is a question to a person: answer it in the console. Needs ``nats-py``.
"""

import asyncio
import json
import sys
import uuid
from typing import Any

import nats

STREAM = "ORDERS"


async def publish(url: str, quantity: int, article: str) -> None:
    """Publish one order, and print the answers to it."""
    name = uuid.uuid4().hex[:8]
    order = {"id": name, "article": article, "quantity": quantity}
    connection = await nats.connect(url)
    stream = connection.jetstream()
    # The trigger waits until there is a stream of that name.
    await stream.add_stream(name=STREAM, subjects=["orders.*"])
    answers = await connection.subscribe("orders.checked")
    await stream.publish("orders.created", json.dumps(order).encode())
    print(f"order {name}: {quantity} {article}", flush=True)
    async for answer in answers.messages:
        text = answer.data.decode()
        if name not in text:
            continue
        event = json.loads(text)
        task = event["data"]["task"]
        print(f"{event['type']}: {text_of(task)} (task {task['id']})", flush=True)
        if event["type"].endswith("completed"):
            break
    await connection.close()


def text_of(task: dict[str, Any]) -> str:
    """Return the texts of a task: its answer, or its question."""
    parts = [part for artifact in task.get("artifacts", []) for part in artifact["parts"]]
    question = task["status"].get("message", {}).get("parts", [])
    return " ".join(part["text"] for part in parts or question if "text" in part)


asyncio.run(publish(sys.argv[1], int(sys.argv[2]), sys.argv[3]))
