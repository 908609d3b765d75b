"""Taking in what callers ask: new tasks, follow-ups, cancellations.

Whatever is accepted is in the log before the caller hears of it.
"""

import random
import uuid
from collections.abc import Awaitable, Callable

from headrace import events
from headrace.bus import Bus
from headrace.directory import Directory
from headrace.entry import Stamp
from headrace.events import Draft, Json
from headrace.files import FileOwner
from headrace.log import LogWriter
from headrace.messages import Run
from headrace.run_requests import with_input
from headrace.state_client import StateClient
from headrace.task import SHARDS_PER_STREAM, SUBMITTED, TaskKey, mint_log_id, mint_task_id
from headrace_gateway.accepted import APPEND_PATIENCE, Accepted, new_writer
from headrace_gateway.asked import FollowUp
from headrace_gateway.caller import Caller
from headrace_gateway.feeds import Feed, Feeds
from headrace_gateway.follow_ups import FollowUps
from headrace_gateway.refusals import AgentUnknown
from headrace_gateway.stowage import Stowage
from headrace_gateway.wanted_runs import WantedRuns

type Prepare = Callable[[TaskKey], Awaitable[None]]
"""What is to be done once a task has a name, before it begins."""


class Intake:
    """Accepts inputs and hands them to the workers by way of the log."""

    def __init__(
        self, bus: Bus, feeds: Feeds, state: StateClient, directory: Directory, runs: WantedRuns
    ) -> None:
        """Work over these."""
        self._bus, self._feeds, self._state, self._directory = bus, feeds, state, directory
        self._shards = bus.settings.event_streams * SHARDS_PER_STREAM
        self._runs, self._stowage = runs, Stowage(bus)
        self.follow_ups = FollowUps(bus, feeds, state, directory, runs)

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
        """Make a task of `message` (an A2A v1.0 Message) and ask workers to do it.

        Raises:
            AgentUnknown: there is no such agent.
            TooManyWaiting: as many runs wait as may.
            EventTooLarge: the message does not fit a bus message.
            BusUnavailable: the log did not take it (LogFull: the stream is at its limit).
        """
        key, context = await self.place(caller, agent, context)
        if prepare is not None:
            await prepare(key)
        return await self.begin(caller, key, context, message, metadata)

    async def place(self, caller: Caller, agent: str, context: str | None) -> tuple[TaskKey, str]:
        """Return where a new task is to be, and its context: a new one, if none is given.

        Raises:
            AgentUnknown: as `start`.
        """
        if self._directory.card(agent) is None:
            raise AgentUnknown(f"there is no agent {agent!r}")
        # Placement, not secrecy: any open shard will do.
        task = mint_task_id(random.randrange(self._shards))  # noqa: S311
        return TaskKey(caller.tenant, agent, task), context or str(uuid.uuid4())

    async def begin(
        self, caller: Caller, key: TaskKey, context: str, message: Json, metadata: Json | None
    ) -> Accepted:
        """Begin the log at `key` and ask workers to do the first leg.

        Raises:
            Fenced: it has begun.
            TooManyWaiting, EventTooLarge, BusUnavailable: as `start`.
        """
        stamp = Stamp(mint_log_id(), 1, new_writer(), SUBMITTED, 1, owner=caller.owner)
        # What is refused for the runs that wait stores no file.
        async with (
            self._runs.admitted(key) as admitted,
            self._stowage.stowed(key, FileOwner(caller.owner, context), message) as stowed,
        ):
            draft = events.task_submitted(key.task, context, stowed, metadata)
            feed, sequence = await self._append(key, draft, stamp)
        run = Run(log=stamp.log, context=context, owner=caller.owner)
        self._runs.ask_for(key, 1, with_input(run, draft.line(1), sequence), metadata, admitted)
        return Accepted(key, context, stamp.log, 1, feed)

    async def _append(self, key: TaskKey, draft: Draft, stamp: Stamp) -> tuple[Feed, int]:
        """Begin the log; return its feed, and the stream sequence of the first entry."""
        feed = await self._feeds.begin(key)
        try:
            first = await LogWriter(self._bus, key).append([draft], stamp, APPEND_PATIENCE)
        except BaseException:
            await self._feeds.release(feed)
            raise
        return feed, first.sequence

    async def follow_up(self, caller: Caller, agent: str, asked: FollowUp) -> Accepted:
        """Append the message to a task, and ask workers to go on if it waits for input.

        Raises:
            HeadraceError: as `FollowUps.take_in`.
        """
        return await self.follow_ups.take_in(caller, agent, asked)
