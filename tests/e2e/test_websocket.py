"""WebSockets on the whole stack: two gateways, real workers, one cursor."""

import json
from typing import Any

from websockets.asyncio.client import ClientConnection

from tests.support.clients.websocket import connect
from tests.support.fleet import Fleet
from tests.support.plain_a2a import message

type Json = dict[str, Any]


async def read(socket: ClientConnection, most: int = 0) -> list[Json]:
    """Return the next `most` messages of a stream; 0: all to its end."""
    messages = list[Json]()
    async for text in socket:
        messages.append(json.loads(text))
        if len(messages) == most or messages[-1].get("end"):
            return messages
    raise AssertionError(f"closed after {messages}")


async def test_a_stream_begun_on_one_gateway_goes_on_over_a_socket_to_another(fleet: Fleet) -> None:
    first, second = (
        f"{url.replace('http://', 'ws://')}/v1/agents/counter/stream" for url in fleet.gateways[:2]
    )
    # With a queue that is full, the client's library would not read the answer to its close.
    async with connect(first, max_queue=None) as socket:
        await socket.send(json.dumps({"id": 1, "send": {"message": message("20")}}))
        begun = await read(socket, 5)
    task = begun[0]["event"]["task"]["id"]
    async with connect(second) as socket:
        subscribe = {"task": task, "after": begun[-1]["cursor"]}
        await socket.send(json.dumps({"id": 2, "subscribe": subscribe}))
        rest = await read(socket)
        await socket.send(
            json.dumps({"id": 3, "subscribe": {**subscribe, "after": begun[0]["cursor"]}})
        )
        whole = await read(socket)
    events = [*begun, *rest[:-1]]
    generations = [int(event["cursor"].partition(":")[2]) for event in events]
    assert generations == list(range(1, len(events) + 1))
    assert [event["event"] for event in whole[:-1]] == [event["event"] for event in events[1:]]
    assert events[-1]["event"]["statusUpdate"]["status"]["state"] == "TASK_STATE_COMPLETED"
