"""Subscribing to a task: as it is now, or what came after a cursor.

With a cursor the log alone answers, so resuming needs no task state. A cursor that names another
log, or a place that the log does not have, is a loss: the client is told so and gets a snapshot.
"""

from dataclasses import dataclass

from headrace.jetstream.connection import Bus
from headrace.log import first_entry, last_entry
from headrace.model.entry import ANSWERED, Entry
from headrace.model.errors import TaskUnknown
from headrace.model.events import RECOVERED, Json
from headrace.model.messages import GetTask, TaskFound
from headrace.model.task import TERMINAL, TaskKey
from headrace.state_client import StateClient
from headrace_gateway.feeds import Feed, Feeds
from headrace_gateway.refusals import TaskEnded
from headrace_gateway.server.auth.caller import Caller
from headrace_gateway.tasks.ids import Cursor


class NothingFollows(Exception):
    """The cursor is at the end of a log that has ended."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What leads a stream though it is no event of the log: a Task as it is now."""

    generation: int
    """Generation of the last event that it reflects: its cursor."""
    event: Json
    """A StreamResponse."""


@dataclass(frozen=True, slots=True)
class TaskStream:
    """A stream that is about to begin. Its feed is open: who does not stream it releases it."""

    feed: Feed
    after: int
    """Generation behind which the log's events follow."""
    log: str
    first: Snapshot | None = None
    task_shown: bool = False
    """Whether the client sees a task, so that a bare Message may no more come as such."""
    recovered: bool = True
    """False: the client's past is lost, and `first` stands for it."""

    @property
    def key(self) -> TaskKey:
        """Whose log it is."""
        return self.feed.key


class TaskStreams:
    """Opens streams of tasks, for whoever may see them."""

    def __init__(self, bus: Bus, feeds: Feeds, state: StateClient) -> None:
        """Open `feeds`; ask `state` for tasks as they are."""
        self._bus, self._feeds, self._state = bus, feeds, state

    async def open(self, caller: Caller, key: TaskKey, cursor: str = "") -> TaskStream:
        """Return the caller's stream of the task at `key`: behind its cursor, if it has one.

        Raises:
            NothingFollows: nothing came behind the cursor, and nothing will.
            TaskUnknown: no such task of this caller and agent.
            TaskEnded: there is no cursor, and the task is over.
            StateUnavailable, BusUnavailable: try again.
        """
        view = _VisibleTask(self._state, caller, key)
        return await (self._after(view, cursor) if cursor else self._from_now(view))

    async def _from_now(self, view: "_VisibleTask") -> TaskStream:
        found = await view.find()
        if found.state in TERMINAL or found.state == ANSWERED:
            raise TaskEnded(f"task {view.key.task} is over")
        return await self._snapshot(view.key, found)

    async def _after(self, view: "_VisibleTask", cursor: str) -> TaskStream:
        first = await self._first_entry(view)
        feed = await self._feeds.acquire(view.key)
        async with self._feeds.handed_on(feed):
            stream = await self._resumed(feed, Cursor.parse(cursor), first)
        if stream is not None:
            return stream
        await self._feeds.release(feed)
        return await self._lost(view)

    async def _resumed(self, feed: Feed, cursor: Cursor | None, first: Entry) -> TaskStream | None:
        """Return what follows `cursor`; None: it is lost."""
        if cursor is None or cursor.log != feed.log or cursor.generation + 1 < first.generation:
            return None
        if cursor.generation > feed.head and not await self._reaches(feed.key, cursor):
            return None
        if feed.ended and cursor.generation >= feed.head:
            raise NothingFollows
        return TaskStream(feed, cursor.generation, feed.log, task_shown=True)

    async def _first_entry(self, view: "_VisibleTask") -> Entry:
        """Return the oldest entry that is left of the caller's log.

        Somebody else's task takes the same steps as one that does not exist, and as long.

        Raises:
            TaskUnknown, StateUnavailable, BusUnavailable: as `open`.
        """
        first = await first_entry(self._bus, view.key)
        if first is None or not view.is_callers(first):
            # Retention may have trimmed the log's head, with its owner; or this knows why it is
            # gone.
            await view.find()
        if first is None:
            raise TaskUnknown
        return first

    async def _reaches(self, key: TaskKey, cursor: Cursor) -> bool:
        """Whether the log goes as far as `cursor`: another gateway's feed may have been ahead."""
        last = await last_entry(self._bus, key)
        return last is not None and cursor.generation <= last.last_generation

    async def _lost(self, view: "_VisibleTask") -> TaskStream:
        found = await view.find()
        metadata = found.task.get("metadata", {}) | {RECOVERED: False}
        found = found.model_copy(update={"task": found.task | {"metadata": metadata}})
        return await self._snapshot(view.key, found, recovered=False)

    async def _snapshot(
        self, key: TaskKey, found: TaskFound, *, recovered: bool = True
    ) -> TaskStream:
        feed = await self._feeds.acquire(key)
        first = Snapshot(found.generation, {"task": found.task})
        return TaskStream(
            feed, found.generation, found.log, first, task_shown=True, recovered=recovered
        )


class _VisibleTask:
    """A task as one caller may see it."""

    def __init__(self, state: StateClient, caller: Caller, key: TaskKey) -> None:
        self._state, self._caller, self.key = state, caller, key
        self._any_owner = caller.operates(key.agent, "SubscribeToTask")

    def is_callers(self, first: Entry) -> bool:
        """Whether the log that begins with `first` says that the caller may see it."""
        owner = first.stamp.owner
        return owner is not None and (self._any_owner or owner == self._caller.owner)

    async def find(self) -> TaskFound:
        """Return the task, if there is one that the caller may see."""
        return await self._state.get(
            GetTask(
                tenant=self.key.tenant,
                owner=self._caller.owner,
                any_owner=self._any_owner,
                agent=self.key.agent,
                task=self.key.task,
            )
        )
