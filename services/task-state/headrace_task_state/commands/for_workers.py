"""Operations that workers' NATS users may not do themselves; task state checks and does them.

The subject of such a request names the agent whose workers may publish there, so the agent is
certain. Whether a child belongs to one of that agent's tasks is read from the child's log.
"""

import asyncio

from headrace.jetstream.connection import Bus
from headrace.jetstream.objects import FileStore
from headrace.log import writer_of
from headrace.log.read import next_stored
from headrace.model.delegation import Lineage
from headrace.model.errors import InvalidName, TaskUnknown
from headrace.model.events import Json
from headrace.model.messages import (
    CancelChild,
    ChildInput,
    ChildTask,
    Control,
    Done,
    DropFile,
    OpenQueue,
    StartTask,
    WaitForEnd,
    WaitForEvent,
)
from headrace.model.queues import PRIORITIES, RunQueue
from headrace.model.subjects import is_token
from headrace.model.task import TaskKey, check_task_id
from headrace.tasks.cancel import TIMING, CancelTiming, cancel_task
from headrace.tasks.holder import ask_holder
from headrace.tasks.runs import RunQueues
from headrace_task_state.commands.start_child import ChildStarter
from headrace_task_state.commands.waits import Wait, WaitCommands

_HOLDER_TIMEOUT = 2.0

type Question = StartTask | CancelChild | ChildInput | OpenQueue | DropFile | Wait


class WorkerCommands:
    """Carries out requests of workers."""

    def __init__(
        self,
        bus: Bus,
        starter: ChildStarter,
        waits: WaitCommands,
        timing: CancelTiming = TIMING,
    ) -> None:
        """Use `bus`; `starter` starts children, and `timing` is that of cancels."""
        self._waits = waits
        self._bus, self._files, self._queues = bus, FileStore(bus), RunQueues(bus)
        self._starter, self._timing = starter, timing
        self._canceling: dict[TaskKey, asyncio.Task[None]] = {}

    async def execute(self, question: Question, agent: str) -> Json:
        """Carry out a request of a worker of `agent`, which the request's subject names.

        Raises:
            InvalidName: the request names another agent, or a name is invalid.
            StartRefused: a rule forbids a child.
            TaskUnknown: the task does not exist, or is not a child of the named one.
            BusUnavailable: NATS does not answer.
        """
        _check_asker(question, agent)
        match question:
            case StartTask():
                return await self._starter.start(question)
            case CancelChild():
                return await self._cancel(question)
            case ChildInput():
                return await self._send_to_child(question)
            case OpenQueue():
                return await self._open_queue(question)
            case DropFile():
                return await self._drop(question)
            case WaitForEnd() | WaitForEvent():
                await self._waits.execute(question)
                return Done().model_dump(exclude_none=True)

    async def _cancel(self, query: CancelChild) -> Json:
        """Cancel a child; the work continues even if the caller stops waiting."""
        key = await self._child(query)
        work = self._canceling.get(key)
        if work is None:
            canceling = cancel_task(self._bus, key, writer_of("task-state"), timing=self._timing)
            work = asyncio.create_task(canceling)
            self._canceling[key] = work
            work.add_done_callback(lambda done: self._canceled(key, done))
        await asyncio.shield(work)
        return Done().model_dump(exclude_none=True)

    def _canceled(self, key: TaskKey, done: "asyncio.Task[None]") -> None:
        self._canceling.pop(key, None)
        # Waiters receive the exception; without waiters, asyncio must not log it.
        _ = done.cancelled() or done.exception()

    async def _send_to_child(self, query: ChildInput) -> Json:
        """Pass a message to the holder of a child."""
        key = await self._child(query)
        control = Control(
            ask="input", input=query.input, message=query.message, read_up_to=query.asked_at
        )
        holding = await ask_holder(self._bus, key, control, _HOLDER_TIMEOUT)
        generation = holding.generation if holding is not None else None
        return Done(generation=generation).model_dump(exclude_none=True)

    async def _open_queue(self, query: OpenQueue) -> Json:
        """Create a queue unless it exists."""
        if not all(map(is_token, (query.tenant, query.agent))):
            raise InvalidName("agent", query.agent, "is not an agent name")
        if query.version and not is_token(query.version):
            raise InvalidName("version", query.version, "is not a token")
        if query.priority not in PRIORITIES:
            raise InvalidName("priority", query.priority, "is not a priority")
        await self._queues.open(RunQueue(query.agent, query.tenant, query.priority, query.version))
        return Done().model_dump(exclude_none=True)

    async def _drop(self, query: DropFile) -> Json:
        """Delete a file of a task of the agent."""
        if not all(map(is_token, (query.tenant, query.agent, query.name))):
            raise InvalidName("name", query.name, "is not a file name")
        key = TaskKey(query.tenant, query.agent, check_task_id(query.task))
        await self._files.drop(key, query.name)
        return Done().model_dump(exclude_none=True)

    async def _child(self, query: ChildTask) -> TaskKey:
        """Return the key of the child's log, after checking in it whose child it is."""
        if not all(map(is_token, (query.tenant, query.agent))):
            raise TaskUnknown
        try:
            key = TaskKey(query.tenant, query.agent, check_task_id(query.task))
        except InvalidName:
            raise TaskUnknown from None
        first = await next_stored(self._bus, key, 0)
        entry = first.entry if first is not None else None
        metadata = {} if entry is None else entry.events[0].get("task", {}).get("metadata") or {}
        lineage = Lineage.of(metadata)
        if lineage is None or (lineage.parent, lineage.agent) != (query.parent, query.parent_agent):
            raise TaskUnknown
        return key


def _check_asker(question: Question, agent: str) -> None:
    match question:
        case OpenQueue() | DropFile() | WaitForEnd() | WaitForEvent():
            acts_for = question.agent
        case _:
            acts_for = question.parent_agent
    if acts_for != agent:
        raise InvalidName("agent", acts_for, f"must be {agent!r}, the agent of this subject")
