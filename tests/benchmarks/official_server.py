"""The official SDK's server with agents equal to our `counter` and `paced`, and to `asker`.

Run as ``python -m tests.benchmarks.official_server [--database FILE]``; prints ``ready <url>``.
In-process, or with a database one replica of its cluster mode.
"""

import argparse
import asyncio
import socket
import sys
import time
from pathlib import Path

import uvicorn
from a2a.helpers import new_task_from_user_message
from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.cluster import DatabaseTaskEventStream, VersionedDatabaseTaskStore
from a2a.server.events import EventQueue
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.routes import (
    create_agent_card_routes,
    create_jsonrpc_routes,
    create_rest_routes,
)
from a2a.server.tasks import InMemoryTaskStore, TaskUpdater
from a2a.types import AgentCapabilities, AgentCard, AgentInterface, AgentSkill, Part
from sqlalchemy.ext.asyncio import create_async_engine
from starlette.applications import Starlette
from starlette.routing import Mount

from tests.benchmarks.contestants import ASKER
from tests.benchmarks.plain_agui import ROUTE


class Counter(AgentExecutor):
    """``N [delay_ms]``: the Task, WORKING, the chunks ``1 `` to ``N ``, COMPLETED.

    ``N delay_ms hold_ms``: the same after a hold, each chunk with its time.
    """

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        """Count."""
        assert context.message is not None
        task = new_task_from_user_message(context.message)
        await event_queue.enqueue_event(task)
        updater = TaskUpdater(event_queue, task.id, task.context_id)
        await updater.start_work()
        count, delay, hold = (*map(int, context.get_user_input().split()), 0, 0)[:3]
        await asyncio.sleep(hold / 1000)
        for number in range(1, count + 1):
            text = f"{number} {time.time_ns()} " if hold else f"{number} "
            await updater.add_artifact([Part(text=text)], artifact_id="count", append=number > 1)
            if delay:
                await asyncio.sleep(delay / 1000)
        await updater.complete()

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        """Stop; nothing that is measured cancels."""
        assert context.task_id is not None
        assert context.context_id is not None
        await TaskUpdater(event_queue, context.task_id, context.context_id).cancel()


class Asker(Counter):
    """The Task, WORKING, a question; when it is replied to, WORKING, a greeting, COMPLETED."""

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        """Ask, or greet."""
        assert context.message is not None
        task = context.current_task
        if task is None:
            new = new_task_from_user_message(context.message)
            await event_queue.enqueue_event(new)
            updater = TaskUpdater(event_queue, new.id, new.context_id)
            await updater.start_work()
            await updater.requires_input(updater.new_agent_message([Part(text="Who are you?")]))
        else:
            updater = TaskUpdater(event_queue, task.id, task.context_id)
            await updater.start_work()
            await updater.add_artifact([Part(text=f"Hello, {context.get_user_input()}!")])
            await updater.complete()


def application(url: str, database: Path | None) -> Starlette:
    """Return the server's application.

    It has the card, JSON-RPC at the root, REST, the agent that asks, and a plain AG-UI agent.
    """
    card = AgentCard(
        name="counter",
        description="Counts",
        version="1",
        default_input_modes=["text/plain"],
        default_output_modes=["text/plain"],
        capabilities=AgentCapabilities(streaming=True),
        skills=[AgentSkill(id="count", name="count", description="Counts", tags=["count"])],
        supported_interfaces=[
            AgentInterface(url=url, protocol_binding="JSONRPC", protocol_version="1.0"),
            AgentInterface(url=url, protocol_binding="HTTP+JSON", protocol_version="1.0"),
        ],
    )
    handler = _clustered(card, database) if database else _alone(Counter(), card)
    asker = _alone(Asker(), card)
    return Starlette(
        routes=[
            # Before the other agent's, to which any first segment of a path is a tenant.
            *create_jsonrpc_routes(asker, ASKER),
            Mount(ASKER, routes=create_rest_routes(asker)),
            *create_agent_card_routes(card),
            *create_jsonrpc_routes(handler, "/"),
            *create_rest_routes(handler),
            ROUTE,
        ]
    )


def _alone(agent: AgentExecutor, card: AgentCard) -> DefaultRequestHandler:
    return DefaultRequestHandler(agent, InMemoryTaskStore(), card)


def _clustered(card: AgentCard, database: Path) -> DefaultRequestHandler:
    engine = create_async_engine(f"sqlite+aiosqlite:///{database}")
    return DefaultRequestHandler(
        Counter(),
        VersionedDatabaseTaskStore(engine),
        card,
        event_stream=DatabaseTaskEventStream(engine),
    )


async def _prepare(database: Path) -> None:
    """Make the tables, unless another replica has."""
    engine = create_async_engine(f"sqlite+aiosqlite:///{database}")
    await VersionedDatabaseTaskStore(engine).initialize()
    await DatabaseTaskEventStream(engine).initialize()
    await engine.dispose()


def main() -> None:
    """Serve on a free port until ended."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--database", type=Path)
    database = parser.parse_args().database
    if database:
        asyncio.run(_prepare(database))
    listener = socket.create_server(("127.0.0.1", 0), backlog=1024)
    url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    sys.stdout.write(f"ready {url}\n")
    sys.stdout.flush()
    # uvicorn as the gateway has it.
    config = uvicorn.Config(
        application(url, database),
        loop="uvloop",
        http="httptools",
        log_level="warning",
        access_log=False,
    )
    uvicorn.Server(config).run([listener])


if __name__ == "__main__":
    main()
