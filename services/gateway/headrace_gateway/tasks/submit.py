"""Submissions: new tasks and follow-ups.

An accepted submission is in the log before its caller gets an answer.
"""

import random
import uuid
from collections.abc import Awaitable, Callable
from functools import partial

from headrace.directory import Directory
from headrace.jetstream.connection import Bus
from headrace.jetstream.objects import FileOwner
from headrace.model.events import Json
from headrace.model.task import SHARDS_PER_STREAM, TaskKey, mint_task_id
from headrace.state_client import StateClient
from headrace.tasks.begin import first_input
from headrace_gateway.detached import Detached
from headrace_gateway.feeds import Feeds
from headrace_gateway.refusals import AgentUnknown
from headrace_gateway.server.auth.caller import Caller
from headrace_gateway.tasks.admission import AdmittedRuns
from headrace_gateway.tasks.inputs import Accepted, FollowUp, FollowUps, InputOffload, new_writer
from headrace_gateway.tasks.settle import Settling

type Prepare = Callable[[TaskKey], Awaitable[None]]
"""Called when a task has an id, before its log begins."""


class Submissions:
    """Accepts submissions: appends their inputs to logs and requests runs from workers."""

    def __init__(  # noqa: PLR0913, PLR0917  # one of each
        self,
        bus: Bus,
        feeds: Feeds,
        state: StateClient,
        directory: Directory,
        runs: AdmittedRuns,
        detached: Detached,
        settling: Settling,
    ) -> None:
        """Use these services; submissions finish in `detached` if their client disconnects."""
        self._bus, self._feeds, self._directory = bus, feeds, directory
        self._shards = bus.settings.event_streams * SHARDS_PER_STREAM
        self._runs, self._offload = runs, InputOffload(bus, feeds.links)
        self._detached, self._settling = detached, settling
        self.follow_ups = FollowUps(bus, feeds, state, directory, runs, settling)

    async def start(
        self,
        caller: Caller,
        agent: str,
        message: Json,
        *,
        context: str | None = None,
        metadata: Json | None = None,
        prepare: Prepare | None = None,
    ) -> Accepted:
        """Create a task from `message` (an A2A v1.0 Message) and request its first run.

        Raises:
            AgentUnknown: no such agent.
            TooManyWaiting: the limit of waiting runs is reached.
            EventTooLarge: the message does not fit a bus message.
            BusUnavailable: the log did not store it (LogFull: the stream is at its limit).
            Unsettled: it is unknown whether the log has stored it.
        """
        key, context = await self.place(caller, agent, context)

        async def begin() -> Accepted:
            if prepare is not None:
                await prepare(key)
            return await self.begin(caller, key, context, message, metadata)

        return await self._detached.run(begin(), self.give_back)

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
    ) -> Accepted:
        """Begin the log at `key` and request the first run.

        Raises:
            Fenced: the log has already begun.
            TooManyWaiting, EventTooLarge, BusUnavailable, Unsettled: as `start`.
        """
        await self._settling.ready()
        writer = new_writer()
        # Admission comes first, so that a refused submission stores no file.
        async with (
            self._runs.admitted(key) as admitted,
            self._offload.offloaded(key, FileOwner(caller.owner, context), message, metadata) as (
                said,
                beside,
            ),
        ):
            first = first_input(
                self._bus, key, context, said, beside, owner=caller.owner, writer=writer
            )
            async with self._feeds.handed_on(await self._feeds.begin(key)) as feed:
                await self._settling.append(first, partial(self._runs.request, first, admitted))
        return Accepted(key, context, first.stamp.log, 1, feed)

    async def give_back(self, accepted: Accepted) -> None:
        """Release the feed of an input whose client has disconnected."""
        await self._feeds.release(accepted.feed)

    async def follow_up(self, caller: Caller, agent: str, asked: FollowUp) -> Accepted:
        """Append the message to a task, and request a run if the task waits for input.

        Raises:
            HeadraceError: as `FollowUps.take_in`.
        """
        return await self._detached.run(
            self.follow_ups.take_in(caller, agent, asked), self.give_back
        )
