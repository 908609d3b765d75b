"""The official SDK's own server with an agent equal to `conversing` of examples/conformance.py.

Run as ``python -m tests.conformance.official``; prints ``ready <url>``. It serves 1.0 and, through
the SDK's compatibility layer, 0.3, over all bindings; the kits are run against it to compare.
"""

import asyncio
import socket
import sys

import grpc.aio
import httpx
import uvicorn
from a2a.compat.v0_3.a2a_v0_3_pb2_grpc import (
    add_A2AServiceServicer_to_server as add_old_servicer,
)
from a2a.compat.v0_3.grpc_handler import CompatGrpcHandler
from a2a.helpers import new_task_from_user_message
from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.events import EventQueue
from a2a.server.request_handlers import DefaultRequestHandler, GrpcHandler
from a2a.server.routes import (
    create_agent_card_routes,
    create_jsonrpc_routes,
    create_rest_routes,
)
from a2a.server.tasks import (
    BasePushNotificationSender,
    InMemoryPushNotificationConfigStore,
    InMemoryTaskStore,
    TaskUpdater,
)
from a2a.types import AgentCapabilities, AgentCard, AgentInterface, AgentSkill, Part
from a2a.types.a2a_pb2_grpc import add_A2AServiceServicer_to_server
from starlette.applications import Starlette

from tests.support.servers import ports

BINDINGS = ("JSONRPC", "HTTP+JSON", "GRPC")


class Conversing(AgentExecutor):
    """Says a word and asks for the next."""

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        """Answer one message."""
        assert context.message is not None
        task = context.current_task
        if task is None:
            task = new_task_from_user_message(context.message)
            await event_queue.enqueue_event(task)
        updater = TaskUpdater(event_queue, task.id, task.context_id)
        await updater.start_work()
        await updater.add_artifact([Part(text=f"You said: {context.get_user_input()}")])
        await updater.requires_input(updater.new_agent_message([Part(text="What next?")]))

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        """Stop."""
        assert context.task_id is not None
        assert context.context_id is not None
        await TaskUpdater(event_queue, context.task_id, context.context_id).cancel()


async def serve() -> None:
    """Serve until ended."""
    listener = socket.create_server(("127.0.0.1", 0), backlog=128)
    url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    grpc_address = f"127.0.0.1:{ports.pick()}"
    card = _card({"JSONRPC": url, "HTTP+JSON": url, "GRPC": grpc_address})
    configs = InMemoryPushNotificationConfigStore()
    handler = DefaultRequestHandler(
        Conversing(),
        InMemoryTaskStore(),
        card,
        push_config_store=configs,
        push_sender=BasePushNotificationSender(httpx.AsyncClient(), configs),
    )
    by_grpc = grpc.aio.server()
    add_A2AServiceServicer_to_server(GrpcHandler(handler), by_grpc)  # type: ignore[no-untyped-call]  # generated
    add_old_servicer(CompatGrpcHandler(handler), by_grpc)  # type: ignore[no-untyped-call]  # generated
    by_grpc.add_insecure_port(grpc_address)
    await by_grpc.start()
    config = uvicorn.Config(_application(card, handler), log_level="critical", access_log=False)
    sys.stdout.write(f"ready {url}\n")
    sys.stdout.flush()
    await uvicorn.Server(config).serve([listener])


def _application(card: AgentCard, handler: DefaultRequestHandler) -> Starlette:
    return Starlette(
        routes=[
            *create_agent_card_routes(card),
            *create_jsonrpc_routes(handler, "/", enable_v0_3_compat=True),
            *create_rest_routes(handler, enable_v0_3_compat=True),
        ]
    )


def _card(urls: dict[str, str]) -> AgentCard:
    """Return a card that says what Headrace's says of the same agent."""
    return AgentCard(
        name="conformance",
        description="Answers as the compatibility kit wants it.",
        version="1.0.0",
        default_input_modes=["*/*"],
        default_output_modes=["text/plain", "application/json"],
        capabilities=AgentCapabilities(streaming=True, push_notifications=True),
        skills=[
            AgentSkill(id="conformance", name="conformance", description="Talks.", tags=["kit"])
        ],
        supported_interfaces=[
            AgentInterface(url=urls[binding], protocol_binding=binding, protocol_version=version)
            for version in ("1.0", "0.3")
            for binding in BINDINGS
        ],
    )


if __name__ == "__main__":
    asyncio.run(serve())
