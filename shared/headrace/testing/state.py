"""Task state in this process, with its view in memory."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from contextlib import AsyncExitStack
from typing import Any

from nats.aio.msg import Msg

from headrace.background import keep_running
from headrace.directory import Directory
from headrace.jetstream.connection import Bus
from headrace.model.messages import BusMessage
from headrace.model.task import TaskKey
from headrace_task_state.commands.for_workers import QUESTIONS, WorkerCommands
from headrace_task_state.commands.start_child import ChildStarter
from headrace_task_state.projector.follower import RangeFollower
from headrace_task_state.queries.frontier import Frontier
from headrace_task_state.replica import Replica
from headrace_task_state.requests import QUERIES, Answers, refusal_of
from headrace_task_state.settings import TaskStateSettings
from headrace_task_state.store import Lease, all_ranges
from headrace_task_state.store_memory import MemoryStore

type _Answer = Callable[[Msg], Awaitable[bytes]]

_NAME = "testing"


class MemoryTaskState:
    """Serves task state's requests on a bus."""

    def __init__(self, bus: Bus, directory: Directory) -> None:
        """Serve requests on `bus`; `directory` lists the agents of child tasks."""
        settings = TaskStateSettings.model_construct()
        self._bus, self._sweep_after = bus, settings.sweep_after
        ranges = all_ranges(bus.settings.event_streams)
        self._store = MemoryStore(ranges)
        reader = self._store.reader
        workers = WorkerCommands(bus, ChildStarter(bus, directory, settings))
        self._answers = Answers(bus, reader, Frontier(bus, reader, ranges), workers)
        self._replica = Replica(_NAME, self._store.leases(_NAME), ranges, self._duties)
        self._stack = AsyncExitStack()
        self._answering = set[asyncio.Task[None]]()

    async def start(self) -> None:
        """Start to serve requests and to apply the log to the view."""
        for operation in QUERIES:
            await self._serve(operation, self._for_anybody)
        for operation in QUESTIONS:
            await self._serve(f"{operation}.*", self._for_worker)
        leasing = keep_running(self._replica.run, "leases")
        self._stack.push_async_callback(self._replica.stop)
        self._stack.callback(leasing.cancel)

    async def stop(self) -> None:
        """Stop serving."""
        await self._stack.aclose()
        for task in self._answering:
            task.cancel()
        await asyncio.gather(*self._answering, return_exceptions=True)

    async def _for_anybody(self, msg: Msg) -> bytes:
        operation = msg.subject.rpartition(".")[2]
        return await self._answers.respond(_read(QUERIES[operation], msg))

    async def _for_worker(self, msg: Msg) -> bytes:
        operation, agent = msg.subject.rsplit(".", 2)[1:]
        return await self._answers.for_worker(_read(QUESTIONS[operation], msg), agent)

    async def _serve(self, operation: str, answer: _Answer) -> None:
        async def respond(msg: Msg) -> None:
            try:
                body = await answer(msg)
            except Exception as error:  # noqa: BLE001 - as in task state, errors are replies
                body = refusal_of(error).encode()
            await self._bus.publish(msg.reply, body)

        async def receive(msg: Msg) -> None:
            # Requests are served concurrently.
            task = asyncio.create_task(respond(msg))
            self._answering.add(task)
            task.add_done_callback(self._answering.discard)

        subscription = await self._bus.subscribe(self._bus.subjects.state(operation), receive)
        self._stack.push_async_callback(self._bus.unsubscribe, subscription)

    def _duties(self, lease: Lease) -> list[Coroutine[Any, Any, None]]:
        writer = self._store.writer(lease)
        after = self._sweep_after
        follower = RangeFollower(
            self._bus, writer, after, _announce_to_nobody, lambda: None, silence=after
        )
        return [follower.run()]


async def _announce_to_nobody(_: Iterable[TaskKey]) -> None:
    """Do nothing: there are no webhooks."""


def _read[Question: BusMessage](asks: type[Question], msg: Msg) -> Question:
    return asks.decode(msg.subject, msg.data)
