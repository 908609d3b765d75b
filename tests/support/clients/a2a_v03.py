"""The official SDK's clients of A2A 0.3."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import grpc.aio
import httpx
from a2a.client import Client, ClientConfig, ClientFactory
from a2a.client.client import ClientCallContext
from a2a.types import a2a_pb2
from a2a.utils.constants import TransportProtocol

from headrace_gateway.settings import GatewaySettings
from tests.support.plain_http import NO_TLS

TRANSPORTS = [TransportProtocol.JSONRPC, TransportProtocol.HTTP_JSON, TransportProtocol.GRPC]


class A2Av03Client:
    """A client of one agent that has been given a card with nothing but 0.3 on it."""

    def __init__(self, client: Client, agent: str, *, is_grpc: bool) -> None:
        """Talk to `agent`, which gRPC is told in metadata: 0.3's protobuf has no tenant."""
        self._client, self._is_grpc = client, is_grpc
        self._context = ClientCallContext(service_parameters={"agent-name": agent})

    def say(self, header: str, value: str) -> None:
        """Send a header, or metadata, with every request from now on."""
        parameters = self._context.service_parameters or {}
        name = header.lower() if self._is_grpc else header
        self._context.service_parameters = {**parameters, name: value}

    async def send(self, text: str, **fields: str) -> list[a2a_pb2.StreamResponse]:
        """Return all that comes of a message."""
        return [event async for event in self.sending(text, **fields)]

    def sending(self, text: str, **fields: str) -> AsyncIterator[a2a_pb2.StreamResponse]:
        """Send a message and yield what comes of it."""
        parts = [a2a_pb2.Part(text=text)]
        message = a2a_pb2.Message(message_id="m", role=a2a_pb2.ROLE_USER, parts=parts)
        for name, value in fields.items():
            setattr(message, name, value)
        request = a2a_pb2.SendMessageRequest(message=message)
        return self._client.send_message(request, context=self._context)

    async def get(self, task: str) -> a2a_pb2.Task:
        """Read a task."""
        return await self._client.get_task(a2a_pb2.GetTaskRequest(id=task), context=self._context)

    async def cancel(self, task: str) -> a2a_pb2.Task:
        """Cancel a task."""
        request = a2a_pb2.CancelTaskRequest(id=task)
        return await self._client.cancel_task(request, context=self._context)

    def subscribe(self, task: str) -> AsyncIterator[a2a_pb2.StreamResponse]:
        """Follow a task."""
        request = a2a_pb2.SubscribeToTaskRequest(id=task)
        return self._client.subscribe(request, context=self._context)

    async def create_config(
        self, task: str, name: str, url: str, token: str = ""
    ) -> a2a_pb2.TaskPushNotificationConfig:
        """Have a webhook told of a task."""
        config = a2a_pb2.TaskPushNotificationConfig(task_id=task, id=name, url=url, token=token)
        return await self._client.create_task_push_notification_config(
            config, context=self._context
        )

    async def get_config(self, task: str, name: str) -> a2a_pb2.TaskPushNotificationConfig:
        """Read one of a task's webhooks."""
        request = a2a_pb2.GetTaskPushNotificationConfigRequest(task_id=task, id=name)
        return await self._client.get_task_push_notification_config(request, context=self._context)

    async def list_configs(self, task: str) -> list[str]:
        """Return the ids of a task's webhooks."""
        request = a2a_pb2.ListTaskPushNotificationConfigsRequest(task_id=task)
        found = await self._client.list_task_push_notification_configs(
            request, context=self._context
        )
        return [config.id for config in found.configs]

    async def delete_config(self, task: str, name: str) -> None:
        """Have a webhook told no more."""
        request = a2a_pb2.DeleteTaskPushNotificationConfigRequest(task_id=task, id=name)
        await self._client.delete_task_push_notification_config(request, context=self._context)


@asynccontextmanager
async def old(
    gateway: str,
    settings: GatewaySettings,
    transport: TransportProtocol,
    agent: str,
    *,
    streaming: bool = True,
) -> AsyncIterator[A2Av03Client]:
    is_grpc = transport == TransportProtocol.GRPC
    address = f"127.0.0.1:{settings.grpc_port}" if is_grpc else f"{gateway}/v1/agents/{agent}"
    interface = a2a_pb2.AgentInterface(
        url=address, protocol_binding=transport.value, protocol_version="0.3"
    )
    card = a2a_pb2.AgentCard(
        name=agent,
        supported_interfaces=[interface],
        capabilities=a2a_pb2.AgentCapabilities(streaming=True, push_notifications=True),
    )
    async with httpx.AsyncClient(timeout=60, verify=NO_TLS) as http:
        config = ClientConfig(
            streaming=streaming,
            httpx_client=http,
            grpc_channel_factory=grpc.aio.insecure_channel,
            supported_protocol_bindings=[transport.value],
        )
        async with ClientFactory(config).create(card) as client:
            yield A2Av03Client(client, agent, is_grpc=is_grpc)
