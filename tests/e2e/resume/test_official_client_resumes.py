"""a2a-sdk's client loses its connection and subscribes again, on another gateway."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest
from a2a.client import Client as OfficialClient
from a2a.client import ClientCallContext, ClientConfig, ClientFactory
from a2a.helpers.proto_helpers import new_text_message
from a2a.types import a2a_pb2
from a2a.types.a2a_pb2 import StreamResponse
from a2a.utils.constants import TransportProtocol
from google.protobuf.json_format import MessageToDict, ParseDict

from tests.support.event_stream import Json
from tests.support.fleet import Fleet
from tests.support.plain_http import NO_TLS
from tests.support.resuming_log import WholeLog, whole_log

BINDINGS = [TransportProtocol.JSONRPC, TransportProtocol.HTTP_JSON]
each_binding = pytest.mark.parametrize("binding", BINDINGS)

_GENERATION = "headrace.generation"
_LONG = "1000000 30"
_SOON = 5


@asynccontextmanager
async def connected(url: str, binding: TransportProtocol) -> AsyncIterator[OfficialClient]:
    async with httpx.AsyncClient(timeout=90, verify=NO_TLS) as http:
        config = ClientConfig(httpx_client=http, supported_protocol_bindings=[binding])
        factory = ClientFactory(config)
        async with await factory.create_from_url(f"{url}/v1/agents/counter") as client:
            yield client


def generation_of(event: StreamResponse) -> int:
    body = getattr(event, str(event.WhichOneof("payload")))
    return int(body.metadata[_GENERATION])


def as_read(event: Json) -> Json:
    """Return an event of the log as it looks once the SDK has read it."""
    return dict[str, Any](MessageToDict(ParseDict(event, StreamResponse())))


async def begun(fleet: Fleet, binding: TransportProtocol, text: str) -> list[StreamResponse]:
    """Start a task at the first gateway and lose the connection after some events."""
    message = new_text_message(text, role=a2a_pb2.ROLE_USER)
    async with connected(fleet.gateways[0], binding) as client:
        stream = client.send_message(a2a_pb2.SendMessageRequest(message=message))
        seen = [await anext(stream) for _ in range(6)]
        await stream.aclose()  # type: ignore[attr-defined]
    return seen


async def resumed(
    fleet: Fleet, binding: TransportProtocol, task: str, cursor: str = ""
) -> list[StreamResponse]:
    """Subscribe at the second gateway, cancel the task soon and read to the end."""
    headers = {"Last-Event-ID": cursor} if cursor else {}
    request = a2a_pb2.SubscribeToTaskRequest(id=task)
    async with connected(fleet.gateways[1], binding) as client, asyncio.timeout(120):
        context, events = ClientCallContext(service_parameters=headers), list[StreamResponse]()
        async for event in client.subscribe(request, context=context):
            events.append(event)
            if len(events) == _SOON:
                await client.cancel_task(a2a_pb2.CancelTaskRequest(id=task))
        return events


async def log_of(fleet: Fleet, seen: list[StreamResponse]) -> WholeLog:
    return await whole_log(fleet.nats_url, "counter", seen[0].task.id)


@each_binding
async def test_it_goes_on_behind_a_cursor(fleet: Fleet, binding: TransportProtocol) -> None:
    seen = await begun(fleet, binding, _LONG)
    log_id = (await log_of(fleet, seen)).id
    rest = await resumed(fleet, binding, seen[0].task.id, f"{log_id}:{generation_of(seen[-1])}")
    log = await log_of(fleet, seen)
    assert [MessageToDict(e) for e in [*seen, *rest]] == [as_read(e) for e in log.events]


@each_binding
async def test_without_one_it_begins_with_the_task_and_misses_nothing(
    fleet: Fleet, binding: TransportProtocol
) -> None:
    seen = await begun(fleet, binding, _LONG)
    snapshot, *rest = await resumed(fleet, binding, seen[0].task.id)
    log, generation = await log_of(fleet, seen), generation_of(snapshot)
    assert MessageToDict(snapshot) == as_read({"task": log.snapshot(generation)})
    assert [MessageToDict(e) for e in rest] == [as_read(e) for e in log.events[generation:]]
    assert generation >= generation_of(seen[-1])
