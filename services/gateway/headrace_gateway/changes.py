"""Changes that any number of clients watch, beside the feeds of tasks.

The newest changes are kept, as many as a bound allows. A watcher that has fallen further behind
is informed that it missed some; nothing else is kept for it. Changes are produced only while there
are watchers.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Collection
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import islice

from headrace.background import cancelled, keep_running

MOST = 200
"""Changes that a watcher reads at once: a slow client has at most their messages in memory."""


@dataclass(frozen=True, slots=True)
class Batch[Item]:
    """What a watcher reads at once."""

    items: list[Item]
    missed: bool
    """Whether changes before them are no longer kept, and the watcher has not read them."""
    end: int
    """The number of the last one."""


@dataclass(slots=True)
class _Watchers:
    """The watchers of one topic."""

    newest: int
    """The number of the newest change that they must read."""
    users: int = 0
    waiting: set[Callable[[], None]] = field(default_factory=set)
    """What the next change wakes."""

    @property
    def is_over(self) -> bool:
        """Whether there are no watchers."""
        return not (self.users or self.waiting)


class Changes[Item]:
    """Numbered changes, from 1, and their watchers."""

    def __init__(self, name: str, kept: int, produce: Callable[[], Awaitable[None]]) -> None:
        """Keep the `kept` newest changes; `produce` calls `append` while there are watchers."""
        self.name = name
        self.head = 0
        """The number of the newest change."""
        self._kept = deque[Item](maxlen=kept)
        self._produce = produce
        self._users = 0
        self._producing: asyncio.Task[None] | None = None
        self._watches = dict[str | None, _Watchers]()
        """By topic."""

    @property
    def is_watched(self) -> bool:
        """Whether anybody watches."""
        return self._users > 0

    def append(self, item: Item, topics: Collection[str] | None = None) -> None:
        """Add the next change, and wake the watchers of `topics` and those without a topic.

        Without `topics`, wake all.
        """
        self._kept.append(item)
        self.head += 1
        for topic in list(self._watches) if topics is None else (None, *topics):
            if (watch := self._watches.get(topic)) is not None:
                watch.newest = self.head
                waiting, watch.waiting = watch.waiting, set()
                for wake in waiting:
                    wake()

    def reader(self, after: int) -> "ChangeReader[Item]":
        """Return a reader of the changes after number `after`."""
        return Topic(self).reader(after)

    def concerns(self, topic: str | None, after: int) -> bool:
        """Return whether a watcher of `topic` must read changes after number `after`."""
        watch = self._watches.get(topic)
        return after < (self.head if watch is None else watch.newest)

    def since(self, after: int) -> Batch[Item]:
        """Return the first `MOST` changes after number `after`; after missed ones, the newest."""
        behind, kept = self.head - after, len(self._kept)
        if MOST < behind <= kept:
            first = kept - behind
            items = list(islice(self._kept, first, first + MOST))
            return Batch(items, missed=False, end=after + MOST)
        # From the newest: most watchers lack one of many, and each copies only what it lacks.
        items = list(islice(reversed(self._kept), min(behind, MOST)))
        items.reverse()
        return Batch(items, missed=behind > kept, end=self.head)

    @asynccontextmanager
    async def held(self, topic: str | None = None) -> AsyncIterator["Changes[Item]"]:
        """Count one watcher, of all changes or of a topic, for the length of a block."""
        self._users += 1
        self._watch(topic).users += 1
        if self._producing is None:
            self._producing = keep_running(self._produce, self.name)
        try:
            yield self
        finally:
            self._users -= 1
            self._watches[topic].users -= 1
            self._drop_if_over(topic)
            if not self._users:
                await self._end()

    async def _end(self) -> None:
        producing, self._producing = self._producing, None
        if producing is not None:
            await cancelled(producing)

    def wake_on_change(self, topic: str | None, wake: Callable[[], None]) -> None:
        """Call `wake` once, at the next change of the topic."""
        self._watch(topic).waiting.add(wake)

    def remove_waiter(self, topic: str | None, wake: Callable[[], None]) -> None:
        """Cancel a `wake_on_change`."""
        if (watch := self._watches.get(topic)) is not None:
            watch.waiting.discard(wake)
            self._drop_if_over(topic)

    def _watch(self, topic: str | None) -> _Watchers:
        return self._watches.setdefault(topic, _Watchers(self.head))

    def _drop_if_over(self, topic: str | None) -> None:
        if self._watches[topic].is_over:
            del self._watches[topic]


def _at_once[Item](_: Batch[Item]) -> float:
    return 0.0


@dataclass(frozen=True, slots=True)
class Topic[Item]:
    """The changes of one topic, for its watchers: they sleep through those of other topics."""

    changes: Changes[Item]
    topic: str | None = None
    """None: every change wakes them."""
    pause: Callable[[Batch[Item]], float] = _at_once
    """Returns the seconds to wait before a batch, after the first one, is read."""

    @property
    def name(self) -> str:
        """Its name in logs."""
        return self.changes.name

    @asynccontextmanager
    async def held(self) -> AsyncIterator["Topic[Item]"]:
        """Count one watcher for the length of a block."""
        async with self.changes.held(self.topic):
            yield self

    def reader(self, after: int) -> "ChangeReader[Item]":
        """Return a reader of the changes after number `after`."""
        return ChangeReader(self, after)


class ChangeReader[Item]:
    """Reads changes from one number on, each once."""

    __slots__ = ("_due", "_has_read", "_wakened", "_watched", "after", "most")

    def __init__(self, watched: Topic[Item], after: int) -> None:
        """Read the changes after number `after`."""
        self._watched = watched
        self._wakened: asyncio.Future[None] | None = None
        self._has_read = False
        self._due: float | None = None
        """When the pause before the next batch is over."""
        self.after = after
        self.most = 0
        """Not used: a batch is bounded by the number of its changes."""

    async def read_now(self) -> list[Batch[Item]]:
        """Return the next changes, if there are any."""
        changes = self._watched.changes
        if self.after >= changes.head:
            return []
        if not changes.concerns(self._watched.topic, self.after):
            self.after = changes.head
            return []
        batch = changes.since(self.after)
        if not self._is_due(batch):
            return []
        self._due, self._has_read, self.after = None, True, batch.end
        return [batch]

    def _is_due(self, batch: Batch[Item]) -> bool:
        now = asyncio.get_running_loop().time()
        if self._due is None:
            self._due = now + self._watched.pause(batch) if self._has_read else now
        return self._due <= now

    @property
    def at_end(self) -> bool:
        """False: changes have no end."""
        return False

    @property
    def run_ended(self) -> bool:
        """False: changes have no runs."""
        return False

    async def wait(self) -> None:
        """Return at the next change, when a pause is over, or after `wake` is called."""
        loop, watched = asyncio.get_running_loop(), self._watched
        self._wakened = loop.create_future()
        timer = None if self._due is None else loop.call_at(self._due, self.wake)
        if timer is None:
            watched.changes.wake_on_change(watched.topic, self.wake)
        try:
            await self._wakened
        finally:
            if timer is not None:
                timer.cancel()
            watched.changes.remove_waiter(watched.topic, self.wake)
            self._wakened = None

    def wake(self) -> None:
        """Make `wait` return."""
        if self._wakened is not None and not self._wakened.done():
            self._wakened.set_result(None)
