"""Changes that any number of clients watch, beside the feeds of tasks.

The newest changes are kept, as many as a bound allows. A watcher that has fallen further behind
learns that it missed some; nothing else is kept for it. What produces the changes runs only while
somebody watches.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from itertools import islice

from headrace.background import keep_running

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


class Changes[Item]:
    """Numbered changes, from 1, and their watchers."""

    def __init__(self, name: str, kept: int, produce: Callable[[], Awaitable[None]]) -> None:
        """Keep the `kept` newest changes; `produce` calls `append` while somebody watches."""
        self.name = name
        self.head = 0
        """The number of the newest change."""
        self._kept = deque[Item](maxlen=kept)
        self._produce = produce
        self._users = 0
        self._producing: asyncio.Task[None] | None = None
        self._waiting: set[Callable[[], None]] = set()

    @property
    def is_watched(self) -> bool:
        """Whether anybody watches."""
        return self._users > 0

    def append(self, item: Item) -> None:
        """Add the next change."""
        self._kept.append(item)
        self.head += 1
        waiting, self._waiting = self._waiting, set()
        for wake in waiting:
            wake()

    def reader(self, after: int) -> "ChangeReader[Item]":
        """Return a reader of the changes after number `after`."""
        return ChangeReader(self, after)

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
    async def held(self, _: "Changes[Item] | None" = None, /) -> AsyncIterator[None]:
        """Count one watcher for the length of a block."""
        self._users += 1
        if self._producing is None:
            self._producing = keep_running(self._produce, self.name)
        try:
            yield
        finally:
            self._users -= 1
            if not self._users:
                await self._end()

    async def _end(self) -> None:
        producing, self._producing = self._producing, None
        if producing is not None:
            producing.cancel()
            with suppress(asyncio.CancelledError):
                await asyncio.shield(asyncio.gather(producing, return_exceptions=True))

    def wake_on_change(self, wake: Callable[[], None]) -> None:
        """Call `wake` once, at the next change."""
        self._waiting.add(wake)

    def no_wake(self, wake: Callable[[], None]) -> None:
        """Cancel a `wake_on_change`."""
        self._waiting.discard(wake)


class ChangeReader[Item]:
    """Reads changes from one number on, each once."""

    __slots__ = ("_changes", "_wakened", "after", "most")

    def __init__(self, changes: Changes[Item], after: int) -> None:
        """Read the changes after number `after`."""
        self._changes = changes
        self._wakened: asyncio.Future[None] | None = None
        self.after = after
        self.most = 0
        """Not used: a batch is bounded by the number of its changes."""

    async def read_now(self) -> list[Batch[Item]]:
        """Return the next changes, if there are any."""
        if self.after >= self._changes.head:
            return []
        batch = self._changes.since(self.after)
        self.after = batch.end
        return [batch]

    @property
    def at_end(self) -> bool:
        """False: changes have no end."""
        return False

    @property
    def rests(self) -> bool:
        """False: changes have no runs."""
        return False

    async def wait(self) -> None:
        """Return at the next change, or after `wake` is called."""
        self._wakened = asyncio.get_running_loop().create_future()
        self._changes.wake_on_change(self.wake)
        try:
            await self._wakened
        finally:
            self._changes.no_wake(self.wake)
            self._wakened = None

    def wake(self) -> None:
        """Make `wait` return."""
        if self._wakened is not None and not self._wakened.done():
            self._wakened.set_result(None)
