"""Submissions: new tasks, and messages to existing tasks.

An accepted submission is in the log before its caller gets an answer.
"""

import random
import secrets
import uuid
from contextlib import suppress
from typing import NoReturn

from headrace import log_context, tracing
from headrace.directory import Directory
from headrace.jetstream.connection import Bus
from headrace.jetstream.objects import FileOwner
from headrace.log import last_entry
from headrace.log.logged_task import LoggedTask
from headrace.model import events
from headrace.model.agent_route import UNPINNED
from headrace.model.errors import Fenced
from headrace.model.events import Json
from headrace.model.fork import ForkOf
from headrace.model.messages import GetTask, RunRequest
from headrace.model.task import (
    AUTH_REQUIRED,
    INPUT_REQUIRED,
    SHARDS_PER_STREAM,
    TERMINAL,
    TaskKey,
    mint_task_id,
)
from headrace.state_client import StateClient, TaskRead
from headrace.tasks.begin import first_input
from headrace.tasks.continue_ import LogEnd, next_input
from headrace.tasks.fork import end_unfinished, unfinished_fork
from headrace_gateway.background_work import BackgroundWork
from headrace_gateway.feeds import Feeds, HeldFeed
from headrace_gateway.refusals import (
    AgentUnknown,
    ContextMismatch,
    GenerationMismatch,
    TaskBusy,
    TaskEnded,
)
from headrace_gateway.request_span import note_task
from headrace_gateway.server.auth.caller import Caller
from headrace_gateway.tasks.inputs import AcceptedInput, FollowUp, InputWriter

ROUNDS = 5
"""Maximum number of tries to append an input while other writers append too."""

_TERMS = frozenset({events.START_AT, events.START_BY, events.PRIORITY, events.TRACEPARENT})
"""Metadata that sets how a run is scheduled and traced, not what it does."""


class Submissions:
    """Accepts submissions: appends their inputs to logs and requests runs from workers."""

    def __init__(
        self,
        bus: Bus,
        feeds: Feeds,
        state: StateClient,
        directory: Directory,
        *,
        inputs: InputWriter,
        background: BackgroundWork,
    ) -> None:
        """Use these services; submissions finish in `background` if their client disconnects."""
        self._bus, self._feeds, self._state, self._directory = bus, feeds, state, directory
        self._inputs, self._background = inputs, background
        self._shards = bus.settings.event_streams * SHARDS_PER_STREAM

    async def start(
        self,
        caller: Caller,
        agent: str,
        message: Json,
        *,
        context: str | None = None,
        metadata: Json | None = None,
    ) -> AcceptedInput:
        """Create a task from `message` (an A2A v1.0 Message) and request its first run.

        Raises:
            AgentUnknown: no such agent.
            TooManyWaiting, EventTooLarge, BusUnavailable, Unsettled: as `begin`.
        """
        key, context = await self.place(caller, agent, context)
        beginning = self.begin(caller, key, context, message, metadata)
        return await self._background.run(beginning)

    async def place(self, caller: Caller, agent: str, context: str | None) -> tuple[TaskKey, str]:
        """Return a new task's key, and its context: `context`, or a new one if that is None.

        Raises:
            AgentUnknown: as `start`.
        """
        if self._directory.card(agent) is None:
            raise AgentUnknown(f"agent {agent!r} does not exist")
        # Random for placement, not secrecy: any open shard will do.
        task = mint_task_id(random.randrange(self._shards))  # noqa: S311
        return TaskKey(caller.tenant, agent, task), context or str(uuid.uuid4())

    async def begin(
        self, caller: Caller, key: TaskKey, context: str, message: Json, metadata: Json | None
    ) -> AcceptedInput:
        """Begin the log at `key` and request the first run.

        Raises:
            Fenced: the log has already begun.
            QuotaExceeded, TooManyWaiting: as `InputWriter.admit`.
            EventTooLarge, BusUnavailable, Unsettled: as `InputWriter.append`.
        """
        if tracing.is_enabled():
            note_task(key.task, context)
        else:
            log_context.note_task(key.task)
        version = caller.chosen_version
        if not version and (route := self._directory.content.routes.get(key.agent)) is not None:
            version = route.version_for(key.agent, key.tenant, context)
        if version:
            metadata = {**(metadata or {}), events.VERSION: version}
        inputs, owner, sender = self._inputs, caller.owner, FileOwner(caller.owner, context)
        with await inputs.admit(key, owner) as admitted:
            async with inputs.offloaded(key, sender, message, metadata) as stored:
                held = await self._feeds.open_new(key)
                async with held:
                    by = f"gateway-{secrets.token_hex(6)}"
                    first = first_input(self._bus, key, context, *stored, owner=owner, writer=by)
                    await inputs.append(first, admitted)
                    return AcceptedInput(key, context, first.stamp.log, 1, held.hand_over())

    async def follow_up(self, caller: Caller, agent: str, follow_up: FollowUp) -> AcceptedInput:
        """Append the message to a task, and request a run if the task waits for input.

        If a run is active, the message is queued for it; the agent's policy decides what happens
        next.

        Raises:
            TaskUnknown: no such task of this caller and agent.
            ContextMismatch: the task belongs to another context.
            GenerationMismatch: the task is not at the generation that the message requires.
            TaskEnded: the task is over.
            TaskBusy: a run is active, and the agent accepts no messages meanwhile; or the task is a
                fork whose past is still being copied.
            TooManyWaiting, EventTooLarge, BusUnavailable, Unsettled: as `start`.
            StateUnavailable: the task can't be looked up.
        """
        return await self._background.run(self._follow_up(caller, agent, follow_up))

    async def _follow_up(self, caller: Caller, agent: str, follow_up: FollowUp) -> AcceptedInput:
        name = f"input-{secrets.token_hex(12)}"
        for _ in range(ROUNDS):
            read = await self.find(caller, agent, follow_up)
            with suppress(Fenced):
                return await self.append(caller, read, follow_up, name)
            # Another input came first, possibly through another gateway, or the run ended.
        raise TaskBusy(f"task {follow_up.task} is busy with other messages")

    async def find(self, caller: Caller, agent: str, follow_up: FollowUp) -> TaskRead:
        """Return the task of a follow-up as it is now, if it can accept the message.

        Raises:
            TaskUnknown, ContextMismatch, GenerationMismatch, TaskEnded, TaskBusy, StateUnavailable:
                as `follow_up`.
        """
        query = GetTask(tenant=caller.tenant, owner=caller.owner, agent=agent, task=follow_up.task)
        read = await self._state.read(query)
        found = read.found
        fork = ForkOf.of(found.task.get("metadata"))
        if fork is not None and found.generation < fork.complete:
            await self._refuse_unfinished(TaskKey(caller.tenant, found.agent, follow_up.task))
        if follow_up.context not in (None, found.task["contextId"]):
            raise ContextMismatch(f"task {follow_up.task} belongs to another context")
        # The append succeeds only right after the state found here, so this check still holds then.
        if follow_up.if_generation not in (None, found.generation):
            raise GenerationMismatch(follow_up.task, found.generation)
        if found.state in TERMINAL:
            raise TaskEnded(f"task {follow_up.task} is over and accepts no messages")
        return read

    async def _refuse_unfinished(self, key: TaskKey) -> NoReturn:
        """Refuse a message to a fork whose past is incomplete, and end the fork if it stays so."""
        last = await last_entry(self._bus, key)
        is_unfinished = last and await unfinished_fork(self._bus, key, last)
        if last and is_unfinished and await end_unfinished(self._bus, key, last):
            raise TaskEnded(f"task {key.task} is over: its past was not copied completely")
        raise TaskBusy(f"the past of task {key.task} is still being copied")

    async def append(
        self, caller: Caller, read: TaskRead, follow_up: FollowUp, name: str
    ) -> AcceptedInput:
        """Append a follow-up under `name`, right after the state in `read`.

        Raises:
            Fenced: another entry came first, or the run ended; find the task again.
            TaskBusy, TooManyWaiting, EventTooLarge, BusUnavailable, Unsettled: as `follow_up`.
        """
        found = read.found
        key = TaskKey(caller.tenant, found.agent, found.task["id"])
        note_task(key.task, found.task["contextId"])
        if found.state == INPUT_REQUIRED:
            return await self._next_run(caller, key, read, follow_up, name)
        card = self._directory.card(found.agent)
        if card is not None and card.follow_ups == "reject" and found.state != AUTH_REQUIRED:
            raise TaskBusy(f"task {key.task} is running; wait until it asks for input")
        # The message joins a run that has begun, so that run's terms apply.
        return await self._queue(caller, key, read, follow_up.without(_TERMS), name)

    async def _queue(
        self, caller: Caller, key: TaskKey, read: TaskRead, follow_up: FollowUp, name: str
    ) -> AcceptedInput:
        inputs, found, context = self._inputs, read.found, read.found.task["contextId"]
        await inputs.check(key, caller.owner)
        sender, metadata = FileOwner(caller.owner, context), follow_up.metadata
        async with inputs.offloaded(key, sender, follow_up.message, metadata) as stored:
            held = await self._feeds.open(key)
            async with held:
                follow_up = follow_up.stored_as(*stored)
                generation = await inputs.queue(key, found, follow_up, name)
                feed = held.hand_over()
                return AcceptedInput(key, context, found.log, generation, feed, found, read.logged)

    async def _next_run(
        self, caller: Caller, key: TaskKey, read: TaskRead, follow_up: FollowUp, name: str
    ) -> AcceptedInput:
        found = read.found
        request = RunRequest(
            log=found.log,
            context=found.task["contextId"],
            owner=caller.owner,
            traceparent=found.traceparent,
            version=found.version,
        )
        version = self._directory.route(key.agent).continues(found.version)
        if version != found.version:
            follow_up = follow_up.continued_by(version or UNPINNED)
        inputs, sender = self._inputs, FileOwner(caller.owner, request.context)
        message, metadata = follow_up.message, follow_up.metadata
        with await inputs.admit(key, caller.owner) as admitted:
            async with inputs.offloaded(key, sender, message, metadata) as stored:
                held = await self._open_after(key, read.logged)
                async with held:
                    end = LogEnd(key, found.sequence, found.generation)
                    following = next_input(self._bus, end, request, *stored, writer=name)
                    await inputs.append(following, admitted)
                    log, run, context = found.log, following.stamp.run, request.context
                    feed = held.hand_over()
                    return AcceptedInput(key, context, log, run, feed, found, read.logged)

    async def _open_after(self, key: TaskKey, logged: LoggedTask | None) -> HeldFeed:
        if logged is not None and logged.last is not None:
            return await self._feeds.open_after(key, logged.last)
        return await self._feeds.open(key)
