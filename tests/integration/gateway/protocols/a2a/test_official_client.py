"""The official SDK's client where answers are not the plain case."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import grpc.aio
import httpx
import pytest
from a2a.client import Client, ClientConfig, ClientFactory
from a2a.client.errors import A2AClientError
from a2a.helpers.proto_helpers import new_text_message
from a2a.types import a2a_pb2
from a2a.types.a2a_pb2 import SendMessageRequest, StreamResponse
from a2a.utils.constants import TransportProtocol
from a2a.utils.errors import (
    ExtendedAgentCardNotConfiguredError,
    InvalidParamsError,
    TaskNotCancelableError,
    TaskNotFoundError,
    UnsupportedOperationError,
)

from headrace.model.task import mint_task_id
from tests.support.agui.runs import run_of
from tests.support.plain_http import NO_TLS
from tests.support.scripted_fleet import ScriptedFleet

pytestmark = pytest.mark.parametrize(
    "binding", [TransportProtocol.JSONRPC, TransportProtocol.HTTP_JSON, TransportProtocol.GRPC]
)


@asynccontextmanager
async def connected(
    url: str, binding: TransportProtocol, *, streaming: bool = True
) -> AsyncIterator[Client]:
    async with httpx.AsyncClient(timeout=60, verify=NO_TLS) as http:
        bindings = [str(binding.value)]
        config = ClientConfig(
            streaming=streaming,
            httpx_client=http,
            grpc_channel_factory=grpc.aio.insecure_channel,
            supported_protocol_bindings=bindings,
        )
        async with await ClientFactory(config).create_from_url(url) as client:
            yield client


def asking(text: str, **fields: str) -> SendMessageRequest:
    message = new_text_message(text, role=a2a_pb2.ROLE_USER)
    for name, value in fields.items():
        setattr(message, name, value)
    return SendMessageRequest(message=message)


async def sent(client: Client, request: SendMessageRequest) -> list[StreamResponse]:
    return [event async for event in client.send_message(request)]


@pytest.mark.parametrize("streaming", [True, False], ids=["streaming", "blocking"])
async def test_a_question_is_answered(
    gateway: str,
    binding: TransportProtocol,
    streaming: bool,  # noqa: FBT001 - a parameter of the test
) -> None:
    url = f"{gateway}/v1/agents/ask"
    async with connected(url, binding, streaming=streaming) as client:
        first = (await sent(client, asking("hi")))[0].task
        events = await sent(client, asking("Ada", task_id=first.id))
    last = events[-1].status_update if streaming else events[-1].task
    assert last.status.state == a2a_pb2.TASK_STATE_COMPLETED
    assert last.status.message.parts[0].text == "Hello Ada"
    assert last.context_id == first.context_id


@pytest.mark.parametrize("streaming", [True, False], ids=["streaming", "blocking"])
async def test_a_bare_message_is_a_message(
    gateway: str,
    binding: TransportProtocol,
    streaming: bool,  # noqa: FBT001 - a parameter of the test
) -> None:
    async with connected(f"{gateway}/v1/agents/bare", binding, streaming=streaming) as client:
        (event,) = await sent(client, asking("hi"))
    assert event.message.parts[0].text == "bare hi"


async def test_a_subscriber_sees_the_task_and_what_follows(
    gateway: str, binding: TransportProtocol, fleet: ScriptedFleet
) -> None:
    async with connected(f"{gateway}/v1/agents/patient", binding) as client:
        stream = client.send_message(asking("hi"))
        task = (await anext(stream)).task
        for _ in range(2):
            await anext(stream)
        fleet.runs[0].go_on.set()
        rest = [event async for event in stream]
        with pytest.raises(UnsupportedOperationError):
            async for _ in client.subscribe(a2a_pb2.SubscribeToTaskRequest(id=task.id)):
                pass
    assert rest[-1].status_update.status.state == a2a_pb2.TASK_STATE_COMPLETED


async def test_a_client_that_left_subscribes_again(
    gateway: str, binding: TransportProtocol, fleet: ScriptedFleet
) -> None:
    async with connected(f"{gateway}/v1/agents/patient", binding) as client:
        task = (await anext(client.send_message(asking("hi")))).task
    async with connected(f"{gateway}/v1/agents/patient", binding) as client:
        stream = client.subscribe(a2a_pb2.SubscribeToTaskRequest(id=task.id))
        again = (await anext(stream)).task
        (await run_of(fleet)).go_on.set()
        rest = [event async for event in stream]
    assert again.id == task.id
    assert rest[-1].status_update.status.state == a2a_pb2.TASK_STATE_COMPLETED


async def test_a_task_at_work_is_canceled_and_listed(
    gateway: str, binding: TransportProtocol
) -> None:
    async with connected(f"{gateway}/v1/agents/patient", binding) as client:
        task = (await anext(client.send_message(asking("hi")))).task
        canceled = await client.cancel_task(a2a_pb2.CancelTaskRequest(id=task.id))
        listed = await client.list_tasks(a2a_pb2.ListTasksRequest(context_id=task.context_id))
    assert canceled.status.state == a2a_pb2.TASK_STATE_CANCELED
    assert [one.id for one in listed.tasks] == [task.id]
    assert listed.total_size == 1


async def test_notifications_are_requested_and_called_off(
    gateway: str, binding: TransportProtocol
) -> None:
    async with connected(gateway, binding) as client:
        task = (await sent(client, asking("hi")))[0].task.id
        request = a2a_pb2.TaskPushNotificationConfig(task_id=task, url="https://hooks.example/a")
        made = await client.create_task_push_notification_config(request)
        of_task = a2a_pb2.ListTaskPushNotificationConfigsRequest(task_id=task)
        listed = await client.list_task_push_notification_configs(of_task)
        one = a2a_pb2.DeleteTaskPushNotificationConfigRequest(task_id=task, id=made.id)
        await client.delete_task_push_notification_config(one)
        left = await client.list_task_push_notification_configs(of_task)
    assert [config.id for config in listed.configs] == [made.id]
    assert not left.configs


async def test_an_extended_card_that_no_caller_can_get_is_reported(
    gateway: str, binding: TransportProtocol
) -> None:
    async with connected(f"{gateway}/v1/agents/ask", binding) as client:
        with pytest.raises(ExtendedAgentCardNotConfiguredError):
            await client.get_extended_agent_card(a2a_pb2.GetExtendedAgentCardRequest())


async def test_errors_are_the_sdks_own(gateway: str, binding: TransportProtocol) -> None:
    async with connected(gateway, binding) as client:
        unknown = mint_task_id(0)
        with pytest.raises(TaskNotFoundError):
            await client.get_task(a2a_pb2.GetTaskRequest(id=unknown))
        with pytest.raises(TaskNotFoundError):
            await client.cancel_task(a2a_pb2.CancelTaskRequest(id=unknown))
        with pytest.raises(TaskNotFoundError):
            await sent(client, asking("hi", task_id=unknown))
        with pytest.raises(InvalidParamsError, match="pageSize"):
            await client.list_tasks(a2a_pb2.ListTasksRequest(page_size=101))
        over = (await sent(client, asking("hi")))[0].task.id
        with pytest.raises(UnsupportedOperationError):
            await sent(client, asking("more", task_id=over))
        with pytest.raises(TaskNotCancelableError):
            await client.cancel_task(a2a_pb2.CancelTaskRequest(id=over))


async def test_an_outage_is_an_error_not_a_hang(
    gateway: str, binding: TransportProtocol, fleet: ScriptedFleet
) -> None:
    await fleet.stop_state()
    async with connected(gateway, binding) as client:
        with pytest.raises(A2AClientError, match=r"503|UNAVAILABLE"):
            await client.list_tasks(a2a_pb2.ListTasksRequest())
