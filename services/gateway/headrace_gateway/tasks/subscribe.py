"""Subscriptions to a task: from its current state, or from after a cursor.

With a cursor only the log is read, so resuming does not need task state. If the cursor names
another log, or a place that the log does not have, the stream reports the loss to the client and
begins with a snapshot.
"""

from dataclasses import dataclass

from headrace.jetstream.connection import Bus
from headrace.log import first_entry, last_entry
from headrace.model.cursor import Cursor
from headrace.model.entry import Entry
from headrace.model.errors import LogLost, TaskUnknown
from headrace.model.events import RECOVERED, START, Json
from headrace.model.messages import TaskFound
from headrace.model.task import BARE_MESSAGE, TERMINAL, TaskKey
from headrace.state_client import StateClient
from headrace_gateway.feeds import Feed, FeedHolder, Feeds, HeldFeed
from headrace_gateway.refusals import TaskEnded
from headrace_gateway.server.auth.caller import Caller
from headrace_gateway.tasks.ids import query_of


class NothingFollows(Exception):
    """The cursor is at the end of a log that has ended."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The first event of a stream that is not in the log: the current Task."""

    generation: int
    """Generation of the last event that the snapshot reflects: its cursor."""
    event: Json
    """A StreamResponse."""


@dataclass(frozen=True, slots=True)
class OpenedStream(FeedHolder):
    """A stream that is about to begin."""

    held: HeldFeed
    after: int
    """The stream continues with the log's events after this generation."""
    log: str
    first: Snapshot | None = None
    task_shown: bool = False
    """Whether the client has seen a task, so that a bare Message may not be sent as such."""
    recovered: bool = True
    """False if earlier events are lost, and `first` replaces them."""

    @property
    def key(self) -> TaskKey:
        """The task whose log is streamed."""
        return self.held.feed.key


@dataclass(frozen=True, slots=True)
class OpenedLog(FeedHolder):
    """A log that is about to be read."""

    held: HeldFeed
    after: int
    """Reading continues with the events after this generation."""
    first: int
    """The first generation that the log still has."""


class TaskStreams:
    """Opens streams of tasks for callers that may see them."""

    def __init__(self, bus: Bus, feeds: Feeds, state: StateClient) -> None:
        """Read logs from `feeds`, and current tasks from `state`."""
        self._bus, self._feeds, self._state = bus, feeds, state

    async def open(self, caller: Caller, key: TaskKey, cursor: str = "") -> OpenedStream:
        """Return the caller's stream of the task at `key`, from after `cursor` if it is given.

        Raises:
            NothingFollows: no event follows the cursor, and none will.
            TaskUnknown: no such task of this caller and agent.
            TaskEnded: `cursor` is empty, and the task is over.
            StateUnavailable, BusUnavailable: try again.
        """
        view = _VisibleTask(self._state, caller, key)
        return await (self._after(view, cursor) if cursor else self._from_now(view))

    async def open_log(self, caller: Caller, key: TaskKey, after: Cursor | int | None) -> OpenedLog:
        """Return the caller's log of the task at `key`, after a cursor or a generation.

        None is the oldest event that the log still has.

        Raises:
            TaskUnknown: no such task of this caller and agent.
            LogLost: the cursor is of another log, or the next event is gone.
            StateUnavailable, BusUnavailable: try again.
        """
        oldest = (await self._first_entry(_VisibleTask(self._state, caller, key))).generation
        held = await self._feeds.open(key)
        async with held as feed:
            if isinstance(after, Cursor) and after.log != feed.log:
                raise LogLost(f"the cursor is of another log; this task's is {feed.log}")
            place = after.generation if isinstance(after, Cursor) else after
            if place is not None and place + 1 < oldest:
                raise LogLost(f"events before generation {oldest} are gone")
            following = oldest - 1 if place is None else place
            return OpenedLog(held.hand_over(), following, oldest)

    async def _from_now(self, view: "_VisibleTask") -> OpenedStream:
        found = await view.find()
        if found.state in TERMINAL or found.state == BARE_MESSAGE:
            raise TaskEnded(f"task {view.key.task} is over")
        return await self._snapshot(view.key, found)

    async def _after(self, view: "_VisibleTask", cursor: str) -> OpenedStream:
        first = await self._first_entry(view)
        held = await self._feeds.open(view.key)
        async with held as feed:
            after = Cursor(feed.log, 0) if cursor == START else Cursor.parse(cursor)
            if after is not None and await self._has(feed, after, first):
                if feed.ended and after.generation >= feed.head:
                    raise NothingFollows
                return OpenedStream(held.hand_over(), after.generation, feed.log, task_shown=True)
        return await self._lost(view)

    async def _has(self, feed: Feed, cursor: Cursor, first: Entry) -> bool:
        """Return whether the log, whose oldest entry is `first`, has what follows `cursor`."""
        if cursor.log != feed.log or cursor.generation + 1 < first.generation:
            return False
        if first.stamp.log != feed.log:
            # The newest entry is of another log: a hostile worker's, behind the end.
            return False
        return cursor.generation <= feed.head or await self._reaches(feed.key, cursor)

    async def _first_entry(self, view: "_VisibleTask") -> Entry:
        """Return the oldest remaining entry of the caller's log.

        Another owner's task takes the same steps, and the same time, as a task that does not exist.
        """
        first = await first_entry(self._bus, view.key)
        if first is None or not view.is_callers(first):
            # Retention may have trimmed the log's head, and the owner with it. Task state knows the
            # owner, or why the log is gone.
            await view.find()
        if first is None:
            raise TaskUnknown
        return first

    async def _reaches(self, key: TaskKey, cursor: Cursor) -> bool:
        """Return whether the log reaches `cursor`; another gateway's feed may have been ahead."""
        last = await last_entry(self._bus, key)
        return last is not None and cursor.generation <= last.last_generation

    async def _lost(self, view: "_VisibleTask") -> OpenedStream:
        found = await view.find()
        metadata = found.task.get("metadata", {}) | {RECOVERED: False}
        found = found.model_copy(update={"task": found.task | {"metadata": metadata}})
        return await self._snapshot(view.key, found, recovered=False)

    async def _snapshot(
        self, key: TaskKey, found: TaskFound, *, recovered: bool = True
    ) -> OpenedStream:
        held = await self._feeds.open(key)
        first = Snapshot(found.generation, {"task": found.task})
        return OpenedStream(
            held, found.generation, found.log, first, task_shown=True, recovered=recovered
        )


class _VisibleTask:
    """A task as one caller may see it."""

    def __init__(self, state: StateClient, caller: Caller, key: TaskKey) -> None:
        self._state, self._caller, self.key = state, caller, key
        self._any_owner = caller.operates(key.agent, "SubscribeToTask")

    def is_callers(self, first: Entry) -> bool:
        """Return whether the caller may see the log, by the owner in its `first` entry."""
        owner = first.stamp.owner
        return owner is not None and (self._any_owner or owner == self._caller.owner)

    async def find(self) -> TaskFound:
        """Return the task, if the caller may see it."""
        return await self._state.get(query_of(self._caller, self.key, "SubscribeToTask"))
