"""Cancelling a task: confirmed by CANCELED in the log, from any writer."""

from headrace.jetstream.connection import Bus
from headrace.log import writer_of
from headrace.model.messages import TaskFound
from headrace.model.task import TERMINAL, TaskKey
from headrace.state_client import StateClient
from headrace.tasks.cancel import TIMING, CancelTiming, cancel_task
from headrace_gateway.background_work import BackgroundWork
from headrace_gateway.feeds import Feed, Feeds
from headrace_gateway.refusals import TaskEnded
from headrace_gateway.server.auth.caller import Caller
from headrace_gateway.tasks.ids import query_of


class TaskCanceler:
    """Cancels tasks through their holder, or by a direct append if the holder does not answer."""

    def __init__(
        self,
        bus: Bus,
        feeds: Feeds,
        state: StateClient,
        background: BackgroundWork,
        timing: CancelTiming = TIMING,
    ) -> None:
        """Use these services; a cancel finishes in `background` if its client disconnects."""
        self._bus, self._feeds, self._state = bus, feeds, state
        self._background, self._timing = background, timing

    async def cancel(self, caller: Caller, key: TaskKey) -> TaskFound:
        """Cancel the task, and return it once its log has ended.

        The task may have ended in another state meanwhile; it is returned in that state.

        Raises:
            TaskUnknown: no such task of this caller and agent.
            TaskEnded: the task was already over.
            BusUnavailable, StateUnavailable: try again.
        """
        return await self._background.run(self._cancel(caller, key))

    async def _cancel(self, caller: Caller, key: TaskKey) -> TaskFound:
        query = query_of(caller, key, "CancelTask")
        found = await self._state.get(query)
        if found.state in TERMINAL:
            raise TaskEnded(f"task {key.task} is over")
        async with await self._feeds.open(key) as feed:
            log = WatchedFeed(feed)
            await cancel_task(self._bus, key, writer_of("gateway"), log, self._timing)
        return await self._state.get(query)


class WatchedFeed:
    """Watches a task's feed for its end."""

    def __init__(self, feed: Feed) -> None:
        """Watch `feed`, which its user holds open."""
        self._feed = feed

    async def is_over(self) -> bool:
        """See `CanceledLog.is_over`."""
        return self._feed.ended

    async def run_ends(self) -> bool:
        """See `CanceledLog.run_ends`."""
        feed, reader, run = self._feed, self._feed.reader(self._feed.head), self._feed.run
        while not feed.ended and feed.run == run:
            if feed.run_ended:
                return False
            await reader.wait()
        return True
