"""The gateway's role in tests of workers: start tasks, publish runs, read the logs."""

import itertools
import secrets
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Literal

import orjson

from headrace.jetstream.connection import Bus
from headrace.log import LogWriter, last_entry, replay
from headrace.model import events
from headrace.model.entry import Entry, Stamp
from headrace.model.errors import BusUnavailable
from headrace.model.events import Json
from headrace.model.fold import TaskFold
from headrace.model.messages import Control, HolderReply, RunRequest, TaskFound
from headrace.model.queues import RunQueue
from headrace.model.subjects import NORMAL
from headrace.model.task import SUBMITTED, TaskKey, mint_log_id, mint_task_id
from headrace.settings import BusSettings
from headrace.tasks.continue_ import behind_question
from tests.support.jetstream_api import answered
from tests.support.waiting import eventually

TIMEOUT = 60.0
"""Bound on hangs, seconds: it costs nothing where nothing hangs."""

_ANSWER = {"who": 2.0, "cancel": 20.0}
"""Seconds that a holder has to answer; who it is, is asked for again."""

_names = itertools.count()


def fresh_names() -> dict[str, str]:
    """Return settings' prefixes that no other test has, so that one server serves all tests."""
    name = f"t{next(_names)}-{secrets.token_hex(3)}"
    return {"prefix": name, "stream_prefix": f"{name}-"}


class TaskSubmitter:
    """Submits tasks as the gateway does, without HTTP."""

    def __init__(self, bus: Bus) -> None:
        self.bus = bus

    async def start(  # noqa: PLR0913  # what a task begins with
        self,
        agent: str,
        text: str = "",
        *,
        message: Json | None = None,
        metadata: Json | None = None,
        publish: bool = True,
        context: str = "",
        owner: str = "anonymous",
        tenant: str = "default",
    ) -> "Task":
        """Append generation 1 and, unless told otherwise, publish its run."""
        output = message or user_message(text)
        task = await self._begin(tenant, agent, output, metadata, context, owner)
        if publish:
            await task.publish(1)
        return task

    async def start_in(self, queue: RunQueue, text: str) -> "Task":
        """Append generation 1 and publish its run in `queue`."""
        task = await self._begin(queue.tenant, queue.agent, user_message(text), None)
        await task.publish(1, priority=queue.priority)
        return task

    async def _begin(  # noqa: PLR0917  # what a task is made of
        self,
        tenant: str,
        agent: str,
        output: Json,
        metadata: Json | None,
        context: str = "",
        owner: str = "anonymous",
    ) -> "Task":
        key = TaskKey(tenant, agent, mint_task_id(secrets.randbelow(16)))
        task = Task(
            self.bus, key, mint_log_id(), context or f"ctx-{secrets.token_hex(4)}", owner=owner
        )
        draft = events.task_submitted(key.task, task.context, output, metadata)
        stamp = Stamp(task.log, 1, "gateway-test", SUBMITTED, 1, owner=owner)
        await LogWriter(self.bus, key).append([draft], stamp)
        return task


class Task:
    """One submitted task."""

    def __init__(
        self, bus: Bus, key: TaskKey, log: str, context: str, *, owner: str = "anonymous"
    ) -> None:
        self.bus, self.key, self.log, self.context = bus, key, log, context
        self.owner = owner

    async def publish(self, run: int, body: bytes | None = None, priority: str = NORMAL) -> Json:
        """Publish the request for a run and return JetStream's answer."""
        request = RunRequest(log=self.log, context=self.context, owner=self.owner).encode()
        subject = self.bus.subjects.run(self.key, run, priority)
        msg = await self.bus.request(subject, request if body is None else body, TIMEOUT)
        answer: Json = orjson.loads(msg.data)
        return answer

    async def append(
        self, draft: events.Draft, state: str, *, writer: str, run: int = 0, attempt: int = 0
    ) -> int:
        """Append over whoever's head; return the generation. `run` 0: it begins one."""
        last = await self.last()
        generation = last.last_generation + 1
        stamp = Stamp(self.log, generation, writer, state, run or generation, attempt)
        await LogWriter.after(self.bus, self.key, last).append([draft], stamp)
        return generation

    async def follow_up(self, text: str) -> int:
        """Append a follow-up and publish its run request; return the run."""
        return await self.follow_up_with(user_message(text))

    async def follow_up_with(self, message: Json, metadata: Json | None = None) -> int:
        """Append a follow-up with `message` and publish its run request; return the run."""
        last = await self.last()
        assert not last.ends_task, "no gateway accepts messages to an ended task"
        if status := last.events[-1].get("statusUpdate", {}).get("status"):
            metadata = {**(metadata or {}), **behind_question(status)}
        draft = events.status_update(self.key.task, self.context, SUBMITTED, message, metadata)
        run = await self.append(draft, SUBMITTED, writer="gateway-test")
        await self.publish(run)
        return run

    async def found(self) -> TaskFound:
        """Return the task as task state would."""
        last = await self.last()
        fold = TaskFold()
        for entry in await self.entries(last):
            fold.apply_entry(entry)
        return TaskFound(
            task=fold.task(),
            agent=self.key.agent,
            log=self.log,
            generation=last.last_generation,
            sequence=last.sequence,
            state=last.stamp.state,
        )

    async def ask(
        self, ask: Literal["who", "cancel"], timeout: float | None = None
    ) -> HolderReply | None:
        """Ask the holder; None: nobody listens, or nobody answers in time."""
        subject, question = self.bus.subjects.control(self.key), Control(ask=ask).encode()
        try:
            msg = await self.bus.request(subject, question, timeout or _ANSWER[ask])
        except BusUnavailable:
            return None
        return HolderReply.decode(subject, msg.data)

    async def held(self, timeout: float = TIMEOUT) -> HolderReply:
        """Return the holder's answer as soon as there is a holder."""
        return await eventually(lambda: self.ask("who"), timeout=timeout)

    async def last(self) -> Entry:
        """Return the log's last entry."""
        last = await last_entry(self.bus, self.key)
        assert last is not None
        return last

    async def _last_if(self, holds: Callable[[Entry], bool]) -> Entry | None:
        last = await last_entry(self.bus, self.key)  # A child that is asked is not begun yet.
        return last if last is not None and holds(last) else None

    async def reaches(self, generation: int, timeout: float = TIMEOUT) -> Entry:
        """Return the last entry once the log goes that far."""
        return await eventually(
            lambda: self._last_if(lambda e: e.last_generation >= generation), timeout=timeout
        )

    async def ended(self, timeout: float = TIMEOUT) -> list[Entry]:
        """Return the whole log once its run has ended."""
        last = await eventually(lambda: self._last_if(lambda e: e.ends_run), timeout=timeout)
        return await self.entries(last)

    async def entries(self, last: Entry | None = None) -> list[Entry]:
        """Return the whole log; nothing where a child that was asked is not begun yet."""
        last = last or await last_entry(self.bus, self.key)
        head = 0 if last is None else last.sequence
        return [entry async for batch in replay(self.bus, self.key, 0, head) for entry in batch]

    async def events(self) -> list[Json]:
        """Return all events, once the run has ended."""
        return [event for entry in await self.ended() for event in entry.events]

    async def runs_waiting(self) -> int:
        """Return how many runs of this tenant and agent are in the work queue, at work or not.

        The stream has a run once its publish is acknowledged; its consumer may hear of it later.
        """
        runs = f"{self.bus.subjects.prefix}.run.{self.key.tenant}.{self.key.agent}.>"
        info = await answered(
            lambda: self.bus.js.stream_info(self.bus.streams.runs, subjects_filter=runs)
        )
        return sum((info.state.subjects or {}).values())

    async def is_off_the_queue(self) -> bool:
        """Return whether no run of this agent waits or is at work."""
        return await self.runs_waiting() == 0


def user_message(text: str) -> Json:
    """Return a user's message with one text part."""
    return {
        "messageId": f"msg-{secrets.token_hex(4)}",
        "role": "ROLE_USER",
        "parts": [{"text": text}],
    }


@asynccontextmanager
async def open_submitter(settings: BusSettings) -> AsyncIterator[TaskSubmitter]:
    """Open a `TaskSubmitter` on a connection of its own."""
    bus = Bus(settings)
    await bus.connect("submitter")
    try:
        yield TaskSubmitter(bus)
    finally:
        await bus.close()
