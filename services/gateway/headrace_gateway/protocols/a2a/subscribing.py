"""SubscribeToTask: the task as it is now, or what came after a cursor.

With a cursor the log alone answers, so resuming needs no task state. A cursor that names another
log, or a place that the log does not have, is a loss: the client is told so and gets a snapshot.
"""

from a2a.utils.errors import UnsupportedOperationError

from headrace.log import first_entry, last_entry
from headrace.model.entry import ANSWERED, Entry
from headrace.model.errors import TaskUnknown
from headrace.model.events import RECOVERED
from headrace.model.messages import GetTask, TaskFound
from headrace.model.task import TERMINAL, TaskKey
from headrace_gateway.call import Call
from headrace_gateway.feeds import Feed
from headrace_gateway.protocols.a2a.cursor import Cursor
from headrace_gateway.protocols.a2a.parameters import OneTask
from headrace_gateway.protocols.a2a.streaming import First, Streaming, check_streaming
from headrace_gateway.server.auth.caller import Caller
from headrace_gateway.services import Services
from headrace_gateway.tasks.ids import task_key


class NothingLeft(Exception):
    """The cursor is at the end of a log that has ended."""


class Subscribing:
    """Opens one caller's stream of one task."""

    def __init__(self, services: Services, caller: Caller, key: TaskKey) -> None:
        """Prepare to stream the task at `key`."""
        self._services, self._caller, self._key = services, caller, key
        self._any_owner = caller.operates(key.agent, "SubscribeToTask")

    async def from_now(self) -> Streaming:
        """Return the stream that begins with the Task as it is.

        Raises:
            TaskUnknown: no such task of this caller and agent.
            UnsupportedOperationError: the task is over.
            StateUnavailable, BusUnavailable: try again.
        """
        found = await self._find()
        if found.state in TERMINAL or found.state == ANSWERED:
            raise UnsupportedOperationError(f"task {self._key.task} is over")
        return await self._snapshot(found)

    async def after(self, cursor: str) -> Streaming:
        """Return the stream of what came after `cursor`.

        Raises:
            NothingLeft: nothing came, and nothing will.
            TaskUnknown: no such task of this caller and agent.
            StateUnavailable, BusUnavailable: try again.
        """
        first = await self._first_entry()
        feed = await self._services.feeds.acquire(self._key)
        try:
            streaming = await self._resumed(feed, Cursor.parse(cursor), first)
        except BaseException:
            await self._services.feeds.release(feed)
            raise
        if streaming is not None:
            return streaming
        await self._services.feeds.release(feed)
        return await self._lost()

    async def _resumed(self, feed: Feed, cursor: Cursor | None, first: Entry) -> Streaming | None:
        """Return what follows `cursor`; None: it is lost."""
        if cursor is None or cursor.log != feed.log or cursor.generation + 1 < first.generation:
            return None
        if cursor.generation > feed.head and not await self._reaches(cursor):
            return None
        if feed.ended and cursor.generation >= feed.head:
            raise NothingLeft
        return Streaming(feed, cursor.generation, feed.log, task_shown=True)

    async def _first_entry(self) -> Entry:
        """Return the oldest entry that is left of the caller's log.

        Somebody else's task takes the same steps as one that does not exist, and as long.

        Raises:
            TaskUnknown, StateUnavailable, BusUnavailable: as `after`.
        """
        first = await first_entry(self._services.bus, self._key)
        owner = None if first is None else first.stamp.owner
        if owner is None or not (self._any_owner or owner == self._caller.owner):
            # Retention may have trimmed the log's head, with its owner; or this knows why it is
            # gone.
            await self._find()
        if first is None:
            raise TaskUnknown
        return first

    async def _reaches(self, cursor: Cursor) -> bool:
        """Whether the log goes as far as `cursor`: another gateway's feed may have been ahead."""
        last = await last_entry(self._services.bus, self._key)
        return last is not None and cursor.generation <= last.last_generation

    async def _lost(self) -> Streaming:
        found = await self._find()
        metadata = found.task.get("metadata", {}) | {RECOVERED: False}
        found = found.model_copy(update={"task": found.task | {"metadata": metadata}})
        return await self._snapshot(found, recovered=False)

    async def _snapshot(self, found: TaskFound, *, recovered: bool = True) -> Streaming:
        feed = await self._services.feeds.acquire(self._key)
        return Streaming(
            feed,
            found.generation,
            found.log,
            First(found.generation, {"task": found.task}),
            task_shown=True,
            recovered=recovered,
        )

    async def _find(self) -> TaskFound:
        return await self._services.state.get(
            GetTask(
                tenant=self._key.tenant,
                owner=self._caller.owner,
                any_owner=self._any_owner,
                agent=self._key.agent,
                task=self._key.task,
            )
        )


async def subscribe(services: Services, call: Call, params: object) -> Streaming:
    """Return the caller's stream of the task, behind the call's cursor if it has one.

    Raises:
        Malformed: the parameters are not the operation's.
        NothingLeft, UnsupportedOperationError, HeadraceError: as `Subscribing`.
    """
    check_streaming(call)
    asked = OneTask.of_subscribe(params)
    key = task_key(services.settings, call.caller, call.agent, asked.task)
    subscribing = Subscribing(services, call.caller, key)
    # Streams whose message stood in a URL say in their cursors whose task it is.
    cursor = call.cursor.removeprefix(f"{key.task}/")
    return await (subscribing.after(cursor) if call.cursor else subscribing.from_now())
