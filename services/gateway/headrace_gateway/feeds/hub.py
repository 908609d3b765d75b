"""All feeds of a gateway: one per watched task, opened by its first user, closed by its last."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import TracebackType

from headrace.jetstream.connection import Bus
from headrace.links import Links
from headrace.log import TailRule
from headrace.model.task import TaskKey
from headrace_gateway.detached import Detached
from headrace_gateway.feeds.feed import Feed

_READS = 8
"""Clients that have fallen behind read the log so many at a time: each read holds a batch of it,
and more at once would only wait for each other."""


class Feeds:
    """Counts who uses which feed.

    Each `acquire` or `begin` must be answered by one `release`.
    """

    def __init__(
        self,
        bus: Bus,
        rule: TailRule,
        ring_bytes: int,
        detached: Detached,
        links: Links | None = None,
    ) -> None:
        """Open nothing yet, and later in `detached`; `links` show clients where files are."""
        self._detached = detached
        self.links = links
        """How clients are shown links of files."""
        self._bus, self._rule, self._ring_bytes = bus, rule, ring_bytes
        self._reading = asyncio.Semaphore(_READS)
        self._feeds: dict[TaskKey, Feed] = {}
        self._opening: dict[Feed, asyncio.Task[None]] = {}

    def __len__(self) -> int:
        """Return how many tasks are watched."""
        return len(self._feeds)

    async def begin(self, key: TaskKey) -> Feed:
        """Return a feed that waits for generation 1 of a new log, which the caller appends.

        Raises:
            BusUnavailable: there is no connection.
        """
        feed = self._new(key)
        feed.users += 1
        try:
            await feed.open_fresh()
        except BaseException:
            await self.release(feed)
            raise
        return feed

    async def acquire(self, key: TaskKey) -> Feed:
        """Return the feed of a log that exists.

        Raises:
            TaskUnknown: there is no such log.
            BusUnavailable: its leader does not answer.
        """
        feed = self._feeds.get(key)
        opening: asyncio.Task[None] | None
        if feed is None:
            feed = self._new(key)
            feed.users += 1  # So it is not closed while it opens, whoever leaves meanwhile.
            opening = self._detached.start(self._open(feed))
            if not opening.done():
                self._opening[feed] = opening
        else:
            opening = self._opening.get(feed)
        feed.users += 1
        if opening is not None:
            try:
                await asyncio.shield(opening)
            except BaseException:
                await self.release(feed)
                raise
        return feed

    async def _open(self, feed: Feed) -> None:
        try:
            await feed.open()
        except BaseException:
            # Or who comes before the last one that waits has gone would be given it.
            self._forget(feed)
            raise
        finally:
            self._opening.pop(feed, None)
            await self.release(feed)

    def _new(self, key: TaskKey) -> Feed:
        feed = Feed(self._bus, self._rule, key, self._ring_bytes, self._reading, links=self.links)
        self._feeds[key] = feed
        return feed

    async def release(self, feed: Feed) -> None:
        """Use `feed` no more; the last one to say so closes it."""
        feed.users -= 1
        if feed.users == 0:
            self._forget(feed)
            await self._detached.run(feed.close())

    def held(self, feed: Feed) -> "FeedUse":
        """Return what releases `feed` at the end of a block."""
        return FeedUse(self, feed)

    def handed_on(self, feed: Feed) -> "FeedUse":
        """Return what releases `feed` if a block raises; else whoever is handed it does."""
        return FeedUse(self, feed, only_if_raised=True)

    def _forget(self, feed: Feed) -> None:
        if self._feeds.get(feed.key) is feed:
            del self._feeds[feed.key]

    @asynccontextmanager
    async def using(self, key: TaskKey) -> AsyncIterator[Feed]:
        """Acquire the feed for the length of a block."""
        async with self.held(await self.acquire(key)) as feed:
            yield feed


class FeedUse:
    """One use of a feed, for the length of a block."""

    __slots__ = ("_feed", "_feeds", "_only_if_raised")

    def __init__(self, feeds: Feeds, feed: Feed, *, only_if_raised: bool = False) -> None:
        """See `Feeds.held` and `Feeds.handed_on`."""
        self._feeds, self._feed, self._only_if_raised = feeds, feed, only_if_raised

    async def __aenter__(self) -> Feed:
        return self._feed

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        raised: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        if raised is not None or not self._only_if_raised:
            await self._feeds.release(self._feed)
