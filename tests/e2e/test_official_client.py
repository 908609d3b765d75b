"""The official SDK's client, given nothing but a URL."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc.aio
import httpx
import pytest
from a2a.client import A2ACardResolver, Client, ClientConfig, ClientFactory
from a2a.helpers.proto_helpers import new_text_message
from a2a.types import a2a_pb2
from a2a.types.a2a_pb2 import StreamResponse, Task
from a2a.utils.constants import TransportProtocol

from tests.support.fleet import Fleet
from tests.support.plain_http import NO_TLS

BINDINGS = [TransportProtocol.JSONRPC, TransportProtocol.HTTP_JSON, TransportProtocol.GRPC]


@asynccontextmanager
async def connected(
    url: str, binding: TransportProtocol, *, streaming: bool = True, polling: bool = False
) -> AsyncIterator[Client]:
    async with httpx.AsyncClient(timeout=90, verify=NO_TLS) as http:
        config = ClientConfig(
            streaming=streaming,
            polling=polling,
            httpx_client=http,
            grpc_channel_factory=grpc.aio.insecure_channel,
            supported_protocol_bindings=[binding],
        )
        async with await ClientFactory(config).create_from_url(url) as client:
            yield client


def asking(text: str) -> a2a_pb2.SendMessageRequest:
    message = new_text_message(text, role=a2a_pb2.ROLE_USER)
    return a2a_pb2.SendMessageRequest(message=message)


async def sent(client: Client, text: str) -> list[StreamResponse]:
    return [event async for event in client.send_message(asking(text))]


def said(events: list[StreamResponse]) -> str:
    updates = [event.artifact_update for event in events if event.HasField("artifact_update")]
    return "".join(part.text for update in updates for part in update.artifact.parts)


def text_of(task: Task) -> str:
    return "".join(part.text for artifact in task.artifacts for part in artifact.parts)


async def test_the_card_is_found_at_the_url(fleet: Fleet, http: httpx.AsyncClient) -> None:
    [url, _] = fleet.gateways
    card = await A2ACardResolver(http, url).get_agent_card()
    assert card.name == "assistant"
    assert card.capabilities.streaming
    assert {i.protocol_binding for i in card.supported_interfaces} >= set(BINDINGS)
    assert all(i.url.startswith(f"{url}/") for i in card.supported_interfaces[:2])


@pytest.mark.parametrize("binding", BINDINGS)
async def test_a_message_is_streamed_to_its_end(fleet: Fleet, binding: TransportProtocol) -> None:
    async with connected(fleet.gateways[0], binding) as client:
        events = await sent(client, "What is a headrace?")
    assert events[0].task.status.state == a2a_pb2.TASK_STATE_SUBMITTED
    assert events[1].status_update.status.state == a2a_pb2.TASK_STATE_WORKING
    assert events[-1].status_update.status.state == a2a_pb2.TASK_STATE_COMPLETED
    assert said(events)


@pytest.mark.parametrize("binding", BINDINGS)
async def test_without_streaming_the_answer_is_the_finished_task(
    fleet: Fleet, binding: TransportProtocol
) -> None:
    url = f"{fleet.gateways[0]}/v1/agents/counter"
    async with connected(url, binding, streaming=False) as client:
        [answer] = await sent(client, "4")
    assert answer.task.status.state == a2a_pb2.TASK_STATE_COMPLETED
    assert text_of(answer.task) == "1 2 3 4 "


@pytest.mark.parametrize("binding", BINDINGS)
async def test_a_task_is_read_and_listed_at_the_other_gateway(
    fleet: Fleet, binding: TransportProtocol
) -> None:
    here, there = (f"{url}/v1/agents/counter" for url in fleet.gateways)
    async with connected(here, binding) as client:
        task = (await sent(client, "3"))[0].task
    async with connected(there, binding) as client:
        found = await client.get_task(a2a_pb2.GetTaskRequest(id=task.id))
        of_context = a2a_pb2.ListTasksRequest(context_id=task.context_id)
        listed = await client.list_tasks(of_context)
    assert found.status.state == a2a_pb2.TASK_STATE_COMPLETED
    assert text_of(found) == "1 2 3 "
    assert [each.id for each in listed.tasks] == [task.id]
    assert (listed.total_size, listed.next_page_token) == (1, "")


@pytest.mark.usefixtures("extra_worker")
@pytest.mark.parametrize("binding", BINDINGS)
async def test_a_running_task_is_subscribed_to_at_the_other_gateway(
    fleet: Fleet, binding: TransportProtocol, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    here, there = (f"{url}/v1/agents/gated" for url in fleet.gateways)
    async with connected(here, binding, streaming=False, polling=True) as client:
        [answer] = await sent(client, f"{gate}")
    assert answer.task.status.state < a2a_pb2.TASK_STATE_COMPLETED
    async with connected(there, binding) as client:
        request = a2a_pb2.SubscribeToTaskRequest(id=answer.task.id)
        stream = client.subscribe(request)
        events = [await anext(stream)]
        gate.touch()
        events += [event async for event in stream]
    assert events[0].HasField("task")
    assert events[-1].status_update.status.state == a2a_pb2.TASK_STATE_COMPLETED
    assert text_of(events[0].task) + said(events) == "before after"


@pytest.mark.parametrize("binding", BINDINGS)
async def test_a_running_task_is_cancelled(fleet: Fleet, binding: TransportProtocol) -> None:
    here, there = (f"{url}/v1/agents/counter" for url in fleet.gateways)
    async with connected(here, binding) as client, connected(there, binding) as other:
        stream = client.send_message(asking("100000 50"))
        task = (await anext(stream)).task
        await anext(stream)
        cancelled = await other.cancel_task(a2a_pb2.CancelTaskRequest(id=task.id))
        async with asyncio.timeout(60):
            *_, last = [event async for event in stream]
    assert cancelled.status.state == a2a_pb2.TASK_STATE_CANCELED
    assert last.status_update.status.state == a2a_pb2.TASK_STATE_CANCELED


@pytest.mark.parametrize("binding", BINDINGS)
async def test_a_list_is_filtered_ordered_paged_and_counted(
    fleet: Fleet, binding: TransportProtocol
) -> None:
    async with connected(
        f"{fleet.gateways[0]}/v1/agents/counter", binding, streaming=False
    ) as client:
        context = (await sent(client, "1"))[0].task.context_id
        for order in ("2", "not a number", "3"):
            request = asking(order)
            request.message.context_id = context
            [_] = [event async for event in client.send_message(request)]

        async def listed(**query: Any) -> a2a_pb2.ListTasksResponse:  # noqa: ANN401 - any field
            return await client.list_tasks(a2a_pb2.ListTasksRequest(context_id=context, **query))

        everything = await listed(include_artifacts=True)
        first = await listed(page_size=3)
        second = await listed(page_size=3, page_token=first.next_page_token)
        rejected = await listed(status=a2a_pb2.TASK_STATE_REJECTED, history_length=0)
        since = await listed(status_timestamp_after=everything.tasks[1].status.timestamp)
    assert [text_of(task) for task in everything.tasks] == ["1 2 3 ", "", "1 2 ", "1 "]
    assert (everything.total_size, everything.page_size, everything.next_page_token) == (4, 50, "")
    ids = [task.id for task in everything.tasks]
    assert [task.id for task in (*first.tasks, *second.tasks)] == ids
    assert (first.total_size, len(first.tasks), second.next_page_token) == (4, 3, "")
    assert not any(task.artifacts for task in first.tasks)
    assert all(task.history for task in first.tasks)
    assert [(task.id, len(task.history)) for task in rejected.tasks] == [(ids[1], 0)]
    assert [task.id for task in since.tasks] == ids[:2]
