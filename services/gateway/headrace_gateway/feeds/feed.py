"""One task's log as this gateway sees it: a live subscription and a ring of recent entries."""

import asyncio
from collections.abc import AsyncIterator, Callable

from headrace.jetstream.connection import Bus
from headrace.links import Links
from headrace.log import Follower, TailRule, last_entry
from headrace.model.entry import Entry
from headrace.model.errors import LogLost, TaskUnknown
from headrace.model.task import TaskKey
from headrace_gateway.feeds.block import Block
from headrace_gateway.feeds.reader import Reader
from headrace_gateway.feeds.ring import Ring


class Feed:
    """A log's live view, shared by all its clients on this gateway.

    It holds no more than the ring; who reads further back does so from the log, at its own pace.
    """

    def __init__(
        self,
        bus: Bus,
        rule: TailRule,
        key: TaskKey,
        ring_bytes: int,
        reading: asyncio.Semaphore,
        *,
        links: Links | None = None,
    ) -> None:
        """Watch nothing until `open`; `reading` bounds how many read logs at a time.

        `links` show clients where files are; None: as the log has it.
        """
        self.bus = bus
        self.reading = reading
        self.key = key
        self.ring = Ring(ring_bytes)
        self.last: Entry | None = None
        """The newest entry; None until generation 1 is there."""
        self.loss: LogLost | None = None
        self.users = 0
        self._links = links
        self._follower = Follower(bus, rule, key, self._deliver, self._lose)
        self._waiting: set[Callable[[], None]] = set()

    @property
    def head(self) -> int:
        """Generation of the newest event."""
        return self.last.last_generation if self.last else 0

    @property
    def log(self) -> str:
        """The log id; empty before generation 1."""
        return self.last.stamp.log if self.last else ""

    @property
    def run(self) -> int:
        """The run of the newest event; 0 before generation 1."""
        return self.last.stamp.run if self.last else 0

    @property
    def rests(self) -> bool:
        """Whether the run of the newest event is over."""
        return self.last is not None and self.last.ends_run

    @property
    def ended(self) -> bool:
        """Whether nothing can follow the newest entry."""
        return self.last is not None and self.last.ends_task

    async def open_fresh(self) -> None:
        """Subscribe before the log begins: the caller appends generation 1 next."""
        await self._follower.subscribe()
        self._follower.begin(0)

    async def open(self) -> None:
        """Subscribe to a log that exists and learn where it ends.

        Raises:
            TaskUnknown: there is no such log.
            BusUnavailable: the leader does not answer.
        """
        await self._follower.subscribe()
        last = await last_entry(self.bus, self.key)
        if last is None:
            raise TaskUnknown
        self.last = last
        self.ring.append(self.block(last))
        self._follower.begin(last.sequence)

    async def close(self) -> None:
        """Give the subscription back."""
        await self._follower.stop()

    def reader(self, after: int) -> Reader:
        """Return a reader of what lies behind generation `after`."""
        return Reader(self, after)

    async def entries(self, after: int) -> AsyncIterator[list[Entry]]:
        """Yield the entries behind generation `after` as they come, to the log's end.

        The first may begin at or before `after`, where a cursor lies within a batch.

        Raises:
            LogLost: the log, or that part of it, is gone.
        """
        reader = self.reader(after)
        while blocks := await reader.read():
            yield [block.entry for block in blocks]

    def block(self, entry: Entry) -> Block:
        """Return the entry as clients get to see it."""
        return Block(entry if self._links is None else self._links.entry(entry))

    def wake_on_change(self, wake: Callable[[], None]) -> None:
        """Call `wake` once, at the next change."""
        self._waiting.add(wake)

    def no_wake(self, wake: Callable[[], None]) -> None:
        """Do not call `wake` after all."""
        self._waiting.discard(wake)

    def _deliver(self, entry: Entry) -> None:
        if entry.generation != self.head + 1:
            # A head trimmed by retention: what lay between is gone, and must not be a silent hole.
            self._lose(LogLost(f"the log of {self.key.task} is gone behind {self.head}"))
            return
        self.last = entry
        self.ring.append(self.block(entry))
        self._wake()

    def _lose(self, loss: LogLost) -> None:
        self.loss = loss
        self._wake()

    def _wake(self) -> None:
        waiting, self._waiting = self._waiting, set()
        for wake in waiting:
            wake()
