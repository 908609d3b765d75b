"""Task state in this process, with its view in memory."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping
from contextlib import AsyncExitStack
from typing import Any

from nats.aio.msg import Msg

from headrace import clock
from headrace.background import keep_running
from headrace.directory import Directory
from headrace.jetstream.connection import Bus
from headrace.log import last_entry, replay
from headrace.model.event_template import Event
from headrace.model.fold import TaskFold
from headrace.model.messages import BusMessage, WokenRun
from headrace.model.state_operations import COMMANDS, QUERIES
from headrace.model.task import TaskKey
from headrace.model.wait import SourceEvent
from headrace.tasks.wake import wake_by
from headrace.triggers import Trigger, covers
from headrace.webhooks import TaskWebhook
from headrace_task_state.commands.for_workers import WorkerCommands
from headrace_task_state.commands.start_child import ChildStarter
from headrace_task_state.commands.waits import WaitCommands
from headrace_task_state.projector.follower import RangeFollower
from headrace_task_state.queries.frontier import Frontier
from headrace_task_state.replica import Replica
from headrace_task_state.requests import Answers, refusal_of
from headrace_task_state.settings import TaskStateSettings
from headrace_task_state.store import Lease, all_ranges
from headrace_task_state.store_memory import MemoryStore
from headrace_task_state.webhooks.woken_runs import wake_at_end

type _Answer = Callable[[Msg], Awaitable[bytes]]

_NAME = "testing"

_LOOK_EVERY = 0.01
"""Seconds between two looks at a task whose end a run waits for."""


class MemoryTaskState:
    """Serves task state's requests on a bus."""

    def __init__(self, bus: Bus, directory: Directory) -> None:
        """Serve requests on `bus`; `directory` lists the agents of child tasks."""
        settings = TaskStateSettings.model_construct()
        self._bus, self._sweep_after = bus, settings.sweep_after
        ranges = all_ranges(bus.settings.event_streams)
        self._store = MemoryStore(ranges)
        reader = self._store.reader
        waits = WaitCommands(bus, self._watch, self._listen, [])
        workers = WorkerCommands(bus, ChildStarter(bus, directory, settings), waits)
        self._answers = Answers(bus, reader, Frontier(bus, reader, ranges), workers)
        self._replica = Replica(_NAME, self._store.leases(_NAME), ranges, self._duties)
        self._stack = AsyncExitStack()
        self._answering = set[asyncio.Task[None]]()
        self._listening = dict[str, Trigger]()
        """What runs wait for on subjects, by the trigger's name."""

    async def start(self) -> None:
        """Start to serve requests and to apply the log to the view."""
        for operation in QUERIES:
            await self._serve(operation, self._for_anybody)
        for operation in COMMANDS:
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

    async def _watch(self, key: TaskKey, webhook: TaskWebhook) -> None:
        """Have the end of the task at `key` wake a run; there are no other webhooks."""
        if (run := webhook.wakes) is not None:
            self._begin(self._wake_at_end(key, run, webhook.owner))

    async def _wake_at_end(self, key: TaskKey, run: WokenRun, owner: str) -> None:
        while True:
            last = await last_entry(self._bus, key)
            if last is None:
                return
            if last.ends_task:
                break
            await asyncio.sleep(_LOOK_EVERY)
        event, fold = last.events[-1], TaskFold()
        if "message" not in event:
            async for batch in replay(self._bus, key, 0, last.sequence):
                for entry in batch:
                    fold.apply_entry(entry)
            event = {"task": fold.task()}
        await wake_at_end(self._bus, key, run, owner, event)

    async def _listen(self, trigger: Trigger) -> None:
        self._listening.setdefault(trigger.name, trigger)

    async def publish(self, subject: str, headers: Mapping[str, str], data: bytes) -> None:
        """Wake the runs that wait for the event."""
        event = Event.of(subject, headers, data)
        sent = SourceEvent.of_message(subject, headers, data, clock.now())
        for name, trigger in list(self._listening.items()):
            run = trigger.wakes
            if run is not None and covers(trigger.subject, subject) and trigger.matches(event):
                await wake_by(self._bus, trigger.tenant, trigger.owner, run, sent)
                self._listening.pop(name, None)

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._answering.add(task)
        task.add_done_callback(self._answering.discard)

    async def _for_anybody(self, msg: Msg) -> bytes:
        operation = msg.subject.rpartition(".")[2]
        return await self._answers.respond(_read(QUERIES[operation].request, msg))

    async def _for_worker(self, msg: Msg) -> bytes:
        operation, agent = msg.subject.rsplit(".", 2)[1:]
        return await self._answers.for_worker(_read(COMMANDS[operation].request, msg), agent)

    async def _serve(self, operation: str, answer: _Answer) -> None:
        async def respond(msg: Msg) -> None:
            try:
                body = await answer(msg)
            except Exception as error:  # noqa: BLE001 - as in task state, errors are replies
                body = refusal_of(error).encode()
            await self._bus.publish(msg.reply, body)

        async def receive(msg: Msg) -> None:
            self._begin(respond(msg))  # Requests are served concurrently.

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
