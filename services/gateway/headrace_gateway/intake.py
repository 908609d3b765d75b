"""Taking in what callers ask: new tasks, follow-ups, cancellations.

Whatever is accepted is in the log before the caller hears of it.
"""

import random
import secrets
import uuid
from dataclasses import dataclass, replace

from headrace import events
from headrace.bus import Bus
from headrace.directory import Directory
from headrace.entry import Stamp
from headrace.errors import Fenced
from headrace.events import Draft, Json
from headrace.files import FileStore, stowed_message
from headrace.log import LogWriter
from headrace.messages import GetTask, Run, TaskFound, WhoseContext
from headrace.run_requests import RunRequests, with_input
from headrace.state_client import StateClient
from headrace.task import (
    AUTH_REQUIRED,
    INPUT_REQUIRED,
    SHARDS_PER_STREAM,
    SUBMITTED,
    TERMINAL,
    TaskKey,
    mint_log_id,
    mint_task_id,
)
from headrace_gateway.asked import FollowUp
from headrace_gateway.caller import Caller
from headrace_gateway.feeds import Feed, Feeds
from headrace_gateway.handing_in import HandingIn, busy, new_name
from headrace_gateway.refusals import (
    AgentUnknown,
    ContextMismatch,
    ContextRefused,
    GenerationMismatch,
    TaskBusy,
    TaskEnded,
)

APPEND_PATIENCE = 5.0
"""Seconds within which an input must be in the log; then the caller is told to try again."""

ROUNDS = 5
"""How often an input is tried behind a tail that others move."""


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


class Intake:
    """Accepts inputs and hands them to the workers by way of the log."""

    def __init__(self, bus: Bus, feeds: Feeds, state: StateClient, directory: Directory) -> None:
        """Work over these."""
        self._bus, self._feeds, self._state, self._directory = bus, feeds, state, directory
        self._shards = bus.settings.event_streams * SHARDS_PER_STREAM
        self._handing_in, self._files = HandingIn(bus), FileStore(bus)
        self._runs = RunRequests(bus)

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
        message = await self._stowed(key, message)
        draft = events.task_submitted(key.task, context, message, metadata)
        stamp = Stamp(mint_log_id(), 1, _writer_id(), SUBMITTED, 1, owner=caller.owner)
        feed = await self._feeds.begin(key)
        try:
            first = await LogWriter(self._bus, key).append([draft], stamp, APPEND_PATIENCE)
        except BaseException:
            await self._feeds.release(feed)
            raise
        run = Run(log=stamp.log, context=context, owner=caller.owner)
        self._runs.ask_for(key, 1, with_input(run, draft.line(1), first.sequence))
        return Accepted(key, context, stamp.log, 1, feed)

    async def _stowed(self, key: TaskKey, message: Json) -> Json:
        return await stowed_message(self._files, key, message, self._bus.settings.inline_bytes)

    async def _check_context(self, caller: Caller, context: str) -> None:
        owner = await self._state.context_owner(WhoseContext(tenant=caller.tenant, context=context))
        if owner not in (None, caller.owner):
            raise ContextRefused("this contextId cannot be accepted")

    async def follow_up(self, caller: Caller, agent: str, asked: FollowUp) -> Accepted:
        """Append the message to a task, and ask workers to go on if it waits for input.

        To a task at work it is handed in: what becomes of it there is its agent's policy.

        Raises:
            TaskUnknown: no such task of this caller and agent.
            ContextMismatch: the task is of another context.
            GenerationMismatch: the task is not where the message wants it.
            TaskEnded: the task is over.
            TaskBusy: the task is being worked on, and takes none meanwhile.
            EventTooLarge, BusUnavailable, StateUnavailable: as `start`.
        """
        name = new_name()
        for _ in range(ROUNDS):
            found = await self._look(caller, agent, asked)
            try:
                if found.state == INPUT_REQUIRED:
                    return await self.go_on(caller, found, asked)
                if (accepted := await self._hand_in(caller, found, asked, name)) is not None:
                    return accepted
            except Fenced:
                # Another input came first, through another gateway perhaps: look again.
                continue
        raise TaskBusy(f"task {asked.task} takes other messages now")

    async def _hand_in(
        self, caller: Caller, found: TaskFound, asked: FollowUp, name: str
    ) -> Accepted | None:
        task, context = found.task["id"], found.task["contextId"]
        card = self._directory.card(found.agent)
        refuses = card is not None and card.follow_ups == "reject" and found.state != AUTH_REQUIRED
        # Only an append of our own comes right behind what was found.
        if refuses or asked.if_generation is not None:
            raise busy(task)
        key = TaskKey(caller.tenant, found.agent, task)
        asked = replace(asked, message=await self._stowed(key, asked.message))
        feed = await self._feeds.acquire(key)
        generation = None
        try:
            generation = await self._handing_in.hand_in(key, found, asked, name)
        finally:
            if generation is None:
                await self._feeds.release(feed)
        if generation is None:
            return None
        return Accepted(key, context, found.log, generation, feed, found)

    async def find(self, caller: Caller, agent: str, asked: FollowUp) -> TaskFound:
        """Return the task as it is, which waits for input.

        Raises:
            TaskUnknown, ContextMismatch, GenerationMismatch, TaskEnded, StateUnavailable: as
                `follow_up`.
            TaskBusy: the task is being worked on.
        """
        found = await self._look(caller, agent, asked)
        if found.state != INPUT_REQUIRED:
            raise busy(asked.task)
        return found

    async def _look(self, caller: Caller, agent: str, asked: FollowUp) -> TaskFound:
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
        message = await self._stowed(key, asked.message)
        draft = events.status_update(task, context, SUBMITTED, message, asked.metadata)
        stamp = Stamp(found.log, leg, writer or _writer_id(), SUBMITTED, leg)
        feed = await self._append(key, found, draft, stamp)
        self._runs.ask_for(key, leg, Run(log=found.log, context=context, owner=caller.owner))
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


def _writer_id() -> str:
    return f"gateway-{secrets.token_hex(6)}"
