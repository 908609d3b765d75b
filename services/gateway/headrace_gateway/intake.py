"""Taking in what callers ask: new tasks, follow-ups, cancellations.

Whatever is accepted is in the log before the caller hears of it.
"""

import asyncio
import logging
import random
import secrets
import uuid
from dataclasses import dataclass

import orjson

from headrace import events
from headrace.bus import Bus
from headrace.directory import Directory
from headrace.entry import Stamp
from headrace.errors import BusUnavailable, Fenced
from headrace.events import Draft, Json
from headrace.log import LogWriter
from headrace.messages import GetTask, Run, TaskFound, WhoseContext
from headrace.state_client import StateClient
from headrace.task import (
    INPUT_REQUIRED,
    SHARDS_PER_STREAM,
    SUBMITTED,
    TERMINAL,
    TaskKey,
    mint_log_id,
    mint_task_id,
)
from headrace_gateway.caller import Caller
from headrace_gateway.feeds import Feed, Feeds
from headrace_gateway.refusals import (
    AgentUnknown,
    ContextMismatch,
    ContextRefused,
    GenerationMismatch,
    TaskBusy,
    TaskEnded,
)

_log = logging.getLogger(__name__)

APPEND_PATIENCE = 5.0
"""Seconds within which an input must be in the log; then the caller is told to try again."""

ROUNDS = 5
"""How often an input is tried behind a tail that others move."""

CARRIED = 16 * 1024
"""Bytes up to which a run carries its input; larger ones are not stored twice."""

_RUN_ACK = 2.0


@dataclass(slots=True)
class Accepted:
    """An input that is in the log."""

    key: TaskKey
    context: str
    log: str
    generation: int
    """The input's generation: the leg's name."""
    feed: Feed
    """Open: whoever holds this must release it (`Feeds.release`)."""
    snapshot: TaskFound | None = None
    """For a follow-up: the Task just before the input."""
    again: bool = False
    """Whether the input had been accepted before: this is what came of it."""


@dataclass(frozen=True, slots=True)
class FollowUp:
    """A message to a task that exists."""

    task: str
    message: Json
    """An A2A v1.0 Message."""
    context: str | None = None
    """The context that the message says it belongs to."""
    metadata: Json | None = None
    if_generation: int | None = None
    """Generation that the task must be at; None: any."""


class Intake:
    """Accepts inputs and hands them to the workers by way of the log."""

    def __init__(self, bus: Bus, feeds: Feeds, state: StateClient, directory: Directory) -> None:
        """Work over these."""
        self._bus, self._feeds, self._state, self._directory = bus, feeds, state, directory
        self._shards = bus.settings.event_streams * SHARDS_PER_STREAM
        self._publishing: set[asyncio.Task[None]] = set()

    async def start(
        self,
        caller: Caller,
        agent: str,
        message: Json,
        *,
        context: str | None = None,
        metadata: Json | None = None,
    ) -> Accepted:
        """Make a task of `message` (an A2A v1.0 Message) and ask workers to do it.

        Raises:
            AgentUnknown: there is no such agent.
            ContextRefused: the context is not the caller's.
            EventTooLarge: the message does not fit a bus message.
            BusUnavailable: the log did not take it (LogFull: the stream is at its limit).
            StateUnavailable: the context's owner can't be looked up.
        """
        key, context = await self.place(caller, agent, context)
        return await self.begin(caller, key, context, message, metadata)

    async def place(self, caller: Caller, agent: str, context: str | None) -> tuple[TaskKey, str]:
        """Return where a new task is to be, and its context: a new one, if none is given.

        Raises:
            AgentUnknown, ContextRefused, StateUnavailable: as `start`.
        """
        if self._directory.card(agent) is None:
            raise AgentUnknown(f"there is no agent {agent!r}")
        if context is not None:
            await self._check_context(caller, context)
        # Placement, not secrecy: any open shard will do.
        task = mint_task_id(random.randrange(self._shards))  # noqa: S311
        return TaskKey(caller.tenant, agent, task), context or str(uuid.uuid4())

    async def begin(
        self, caller: Caller, key: TaskKey, context: str, message: Json, metadata: Json | None
    ) -> Accepted:
        """Begin the log at `key` and ask workers to do the first leg.

        Raises:
            Fenced: it has begun.
            EventTooLarge, BusUnavailable: as `start`.
        """
        draft = events.task_submitted(key.task, context, message, metadata)
        stamp = Stamp(mint_log_id(), 1, _writer_id(), SUBMITTED, 1, owner=caller.owner)
        feed = await self._feeds.begin(key)
        try:
            first = await LogWriter(self._bus, key).append([draft], stamp, APPEND_PATIENCE)
        except BaseException:
            await self._feeds.release(feed)
            raise
        run = Run(log=stamp.log, context=context, owner=caller.owner)
        self._ask_workers(key, 1, _with_input(run, draft.line(1), first.sequence))
        return Accepted(key, context, stamp.log, 1, feed)

    async def _check_context(self, caller: Caller, context: str) -> None:
        owner = await self._state.context_owner(WhoseContext(tenant=caller.tenant, context=context))
        if owner not in (None, caller.owner):
            raise ContextRefused("this contextId cannot be accepted")

    async def follow_up(self, caller: Caller, agent: str, asked: FollowUp) -> Accepted:
        """Append the message to a task that waits for input, and ask workers to go on.

        Raises:
            TaskUnknown: no such task of this caller and agent.
            ContextMismatch: the task is of another context.
            GenerationMismatch: the task is not where the message wants it.
            TaskEnded: the task is over.
            TaskBusy: the task is being worked on.
            EventTooLarge, BusUnavailable, StateUnavailable: as `start`.
        """
        for _ in range(ROUNDS):
            found = await self.find(caller, agent, asked)
            try:
                return await self.go_on(caller, found, asked)
            except Fenced:
                # Another input came first, through another gateway perhaps: look again.
                continue
        raise TaskBusy(f"task {asked.task} takes other messages now")

    async def find(self, caller: Caller, agent: str, asked: FollowUp) -> TaskFound:
        """Return the task as it is, which takes the message.

        Raises:
            TaskUnknown, ContextMismatch, GenerationMismatch, TaskEnded, TaskBusy,
            StateUnavailable: as `follow_up`.
        """
        found = await self._state.get(
            GetTask(tenant=caller.tenant, owner=caller.owner, agent=agent, task=asked.task)
        )
        if asked.context not in (None, found.task["contextId"]):
            raise ContextMismatch(f"task {asked.task} belongs to another context")
        # What is appended goes right behind what was found, or not at all: so this holds.
        if asked.if_generation not in (None, found.generation):
            raise GenerationMismatch(asked.task, found.generation)
        if found.state in TERMINAL:
            raise TaskEnded(f"task {asked.task} is over and takes no message")
        if found.state != INPUT_REQUIRED:
            raise TaskBusy(f"task {asked.task} is being worked on; wait until it asks for input")
        return found

    async def go_on(
        self, caller: Caller, found: TaskFound, asked: FollowUp, writer: str | None = None
    ) -> Accepted:
        """Append the message right behind what was `found`, as `writer`.

        Raises:
            Fenced: something else came behind it.
            EventTooLarge, BusUnavailable: as `start`.
        """
        task, context, leg = found.task["id"], found.task["contextId"], found.generation + 1
        key = TaskKey(caller.tenant, found.agent, task)
        draft = events.status_update(task, context, SUBMITTED, asked.message, asked.metadata)
        stamp = Stamp(found.log, leg, writer or _writer_id(), SUBMITTED, leg)
        feed = await self._append(key, found, draft, stamp)
        self._ask_workers(key, leg, Run(log=found.log, context=context, owner=caller.owner))
        return Accepted(key, context, found.log, leg, feed, found)

    async def _append(self, key: TaskKey, found: TaskFound, draft: Draft, stamp: Stamp) -> Feed:
        writer = LogWriter(self._bus, key, sequence=found.sequence, generation=found.generation)
        feed = await self._feeds.acquire(key)
        try:
            await writer.append([draft], stamp, APPEND_PATIENCE)
        except BaseException:
            await self._feeds.release(feed)
            raise
        return feed

    def _ask_workers(self, key: TaskKey, leg: int, run: Run) -> None:
        # Not awaited: should it fail, task state's sweep publishes the run again.
        task = asyncio.create_task(self._publish(self._bus.subjects.run(key, leg), run))
        self._publishing.add(task)
        task.add_done_callback(self._publishing.discard)

    async def _publish(self, subject: str, run: Run) -> None:
        try:
            ack = orjson.loads((await self._bus.request(subject, run.encode(), _RUN_ACK)).data)
        except BusUnavailable as trouble:
            _log.warning("%s; the sweep will publish it", trouble)
            return
        if "error" in ack:
            _log.warning("%s: %s; the sweep will look", subject, ack["error"].get("description"))


def _with_input(run: Run, line: bytes, sequence: int) -> Run:
    """Return `run` with the input that was just appended, unless that is large."""
    if len(line) > CARRIED:
        return run
    return run.model_copy(update={"input": line.decode(), "sequence": sequence})


def _writer_id() -> str:
    return f"gateway-{secrets.token_hex(6)}"
