"""Feeds: a gateway's shared, live views of task logs, read by any number of clients."""

import asyncio
from bisect import bisect_left
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Sequence
from copy import copy
from dataclasses import dataclass
from types import TracebackType
from typing import Protocol, Self

from headrace.jetstream.connection import Bus
from headrace.links import MARK, SERVED, Links
from headrace.log import Follower, TailRule, find_generation, last_entry
from headrace.log.logged_task import SHORT
from headrace.log.read import Continuity, read_on
from headrace.model.entry import Entry
from headrace.model.errors import LogLost, LogTooNew, TaskUnknown
from headrace.model.fold import TaskFold
from headrace.model.task import FINISHED, INPUT_REQUIRED, RUN_OVER, TaskKey
from headrace_gateway.background_work import BackgroundWork
from headrace_gateway.timing import TIMING
from headrace_gateway.waiting_logs import MOST_BYTES, WaitingLog, WaitingLogs


class EntryRenderer(Protocol):
    """Renders entries into a stream's bytes, without state; one object serves all clients."""

    def render(self, entry: Entry, skip: int) -> tuple[bytes, ...]:
        """Return the entry's events after its first `skip` as frames.

        The result is cut at the places for each client's own envelope (a JSON-RPC id).
        """


_BLOCK_MEMORY, _LINE_MEMORY = 600, 50
"""Bytes that a block and each of its lines or rendered pieces take besides their contents."""


class FeedBlock:
    """An entry; what entry renderers make of it is kept from its second client on.

    Most streams have one client, for whom it would take more memory than the entry itself.
    """

    __slots__ = ("_rendered", "entry", "has_links", "memory", "ring", "size")

    def __init__(self, entry: Entry) -> None:
        """Hold `entry`."""
        self.entry = entry
        self.has_links = False
        """Whether it may contain links of files, which become addresses for each client."""
        size, lines = 0, entry.lines
        for line in lines:
            size += len(line)
            if MARK in line:
                self.has_links = True
        self.size = size
        """Bytes of its events."""
        self.memory = _BLOCK_MEMORY + size + _LINE_MEMORY * len(lines)
        """Bytes that it takes with what is kept of its renderings."""
        self.ring: Ring | None = None
        """The ring that contains it."""
        self._rendered: dict[EntryRenderer, tuple[bytes, ...]] | None = None
        """By their renderers; None until the first rendering, which is not kept."""

    def pieces(self, entry_renderer: EntryRenderer, after: int) -> tuple[bytes, ...]:
        """Return the rendered pieces of the events after generation `after`."""
        skip = after + 1 - self.entry.generation
        if skip > 0:
            return entry_renderer.render(self.entry, skip)
        if self._rendered is None:
            self._rendered = {}
            return entry_renderer.render(self.entry, 0)
        pieces = self._rendered.get(entry_renderer)
        if pieces is None:
            pieces = self._rendered[entry_renderer] = entry_renderer.render(self.entry, 0)
            self._grow(sum(map(len, pieces)) + _LINE_MEMORY * len(pieces))
        return pieces

    def _grow(self, memory: int) -> None:
        self.memory += memory
        if self.ring is not None:
            self.ring.grow(memory)


class FeedMemory:
    """What all rings of a gateway take, with one limit.

    Above it, the rings that have been silent longest are emptied: whoever still needs their events
    reads these from the log.
    """

    def __init__(self, limit: int) -> None:
        """Let the rings take `limit` bytes."""
        self._limit = limit
        self.used = 0
        """Bytes."""
        self._rings = OrderedDict[Ring, None]()
        """Those that have grown since the last `drop_silent`, in the order of their last growth."""
        self._silent = OrderedDict[Ring, None]()
        """The others that contain blocks, likewise."""

    def grow(self, ring: "Ring", memory: int) -> None:
        """Add what `ring` takes more; the blocks of any ring may be dropped, also of this one."""
        self.used += memory
        self._silent.pop(ring, None)
        self._rings[ring] = None
        self._rings.move_to_end(ring)
        while self.used > self._limit and (rings := self._silent or self._rings):
            next(iter(rings)).clear()

    def free(self, ring: "Ring", memory: int) -> None:
        """Subtract what `ring` takes less."""
        self.used -= memory
        if not ring.memory:
            self._rings.pop(ring, None)
            self._silent.pop(ring, None)

    def drop_silent(self) -> None:
        """Empty the rings that have not grown since the call before.

        Their clients have mostly read them, and a task that waits may do so for hours.
        """
        for ring in list(self._silent):
            ring.clear()
        self._rings, self._silent = OrderedDict(), self._rings


_TRIM_TO = 0.75


class Ring:
    """Consecutive blocks of events; above the limit, the oldest are dropped."""

    __slots__ = ("_blocks", "_limit", "_size", "_total", "memory")

    def __init__(self, limit: int, total: FeedMemory) -> None:
        """Keep about `limit` bytes of events, and the newest block, unless `total` is exceeded."""
        self._limit, self._total = limit, total
        self._blocks: list[FeedBlock] = []
        self._size = 0
        self.memory = 0
        """Bytes that it takes."""

    def append(self, block: FeedBlock) -> None:
        """Append the next block."""
        self._blocks.append(block)
        self._size += block.size
        if self._size > self._limit:
            self._trim()
        block.ring = self
        # As `grow`, without its call for each token.
        self.memory += block.memory
        self._total.grow(self, block.memory)

    def grow(self, memory: int) -> None:
        """Add what a block takes more."""
        self.memory += memory
        self._total.grow(self, memory)

    def clear(self) -> None:
        """Drop all blocks."""
        self._drop(len(self._blocks))

    def _trim(self) -> None:
        # Trimming well below the limit makes the shift of the list rare.
        drop, size = 0, self._size
        while size > self._limit * _TRIM_TO and drop < len(self._blocks) - 1:
            size -= self._blocks[drop].size
            drop += 1
        self._drop(drop)

    def _drop(self, count: int) -> None:
        dropped = self._blocks[:count]
        del self._blocks[:count]
        for block in dropped:
            self._size -= block.size
            block.ring = None
        freed = sum(block.memory for block in dropped)
        self.memory -= freed
        self._total.free(self, freed)

    def after(self, generation: int, most: int) -> list[FeedBlock] | None:
        """Return about `most` bytes of blocks after `generation`, or None if they were dropped."""
        blocks = self._blocks
        if not blocks:
            return None
        if blocks[-1].entry.generation == generation + 1:
            return blocks[-1:]  # The newest block is all that a client needs who keeps up.
        if blocks[0].entry.generation > generation + 1:
            return None
        start = end = bisect_left(blocks, generation + 1, key=_last_generation)
        size = 0
        while end < len(blocks) and size < most:
            size += blocks[end].size
            end += 1
        return blocks[start:end]


def _last_generation(block: FeedBlock) -> int:
    return block.entry.last_generation


MOST = 256 * 1024
"""Approximate bytes of events that one read returns."""


type Serve = Callable[[], bool]
"""Does what a change asks for without waiting; returns False if that is not possible."""


class ChangedFeed(Protocol):
    """A feed, as far as its notifier uses it."""

    def notify(self) -> None:
        """Tell the waiting readers of changes since the last time."""


class FeedNotifier:
    """Tells readers of changes once for all that one read of the socket has brought.

    So a reader with several new entries reads them together.
    """

    def __init__(self) -> None:
        """Start without readers."""
        self._changed: list[ChangedFeed] = []

    def add(self, feed: ChangedFeed) -> None:
        """Tell the readers of `feed` in the loop's next turn."""
        if not self._changed:
            asyncio.get_running_loop().call_soon(self._notify)
        self._changed.append(feed)

    def _notify(self) -> None:
        changed, self._changed = self._changed, []
        for feed in changed:
            feed.notify()


class FeedReader:
    """Reads a feed from one generation on, each event once.

    `after` is the generation of the last event read. Only one `read` may run at a time.
    """

    __slots__ = (
        "_feed",
        "_has_read_end",
        "_links",
        "_sequence",
        "_serve",
        "_served",
        "_wakened",
        "after",
        "most",
    )

    def __init__(
        self, feed: "Feed", after: int, links: Links | None = None, served: object = None
    ) -> None:
        """Read the events after generation `after`.

        `links` converts links of files to addresses for the client that `served` tells (see
        `Links.entry_for`). None: they stay as in the log.
        """
        self.after = after
        self.most = MOST
        """Approximate bytes of events that one read returns: the amount a slow client is sent at
        once."""
        self._feed = feed
        self._links, self._served = links, served
        self._has_read_end = False
        self._sequence: int | None = None
        self._wakened: asyncio.Future[None] | None = None
        self._serve: Serve | None = None

    async def read(self) -> list[FeedBlock]:
        """Wait for the next blocks and return them; an empty list means that the log has ended.

        Raises:
            LogLost: the log, or that part of it, is gone.
            LogTooNew: it continues in a later version than this gateway reads.
            BusUnavailable: events that were dropped from the ring can't be read now.
        """
        while True:
            if (blocks := await self.read_now()) or self.at_end:
                return blocks
            await self.wait()

    async def read_now(self) -> list[FeedBlock]:
        """Return the next blocks without waiting for new events; may read the log."""
        blocks = self.read_ring()
        if blocks is None:
            try:
                blocks = await self._read_past()
            except LogLost:
                if (loss := self._feed.loss) is not None:
                    raise loss from None  # It says more, as that the task was deleted.
                raise
            self._advance(blocks[-1])
            return self._for_client(blocks)
        return blocks

    def read_ring(self) -> list[FeedBlock] | None:
        """Return the next blocks of those kept in memory. None: they must be read from the log.

        Raises:
            LogLost, LogTooNew: as `read`.
        """
        feed = self._feed
        if self._has_read_end:
            return []
        if self.after >= feed.head:
            if feed.loss is not None and not feed.ended:
                raise feed.loss
            return []
        # The ring has no gaps, even if the log has been lost meanwhile.
        blocks = feed.ring.after(self.after, self.most)
        if blocks is None:
            return None
        # As `_advance`, without its call for each token.
        newest = blocks[-1].entry
        self.after, self._sequence = newest.last_generation, newest.sequence
        return self._for_client(blocks) if feed.has_links else blocks

    def _for_client(self, blocks: list[FeedBlock]) -> list[FeedBlock]:
        """Return the blocks with addresses of files that the reader's client can use."""
        if (links := self._links) is None:
            return blocks
        return [
            FeedBlock(links.entry_for(self._served, one.entry)) if one.has_links else one
            for one in blocks
        ]

    def _advance(self, newest: FeedBlock) -> None:
        self.after, self._sequence = newest.entry.last_generation, newest.entry.sequence

    @property
    def is_behind(self) -> bool:
        """Whether there are events that it has not read."""
        return not self._has_read_end and self.after < self._feed.head

    @property
    def at_end(self) -> bool:
        """Whether everything was read and nothing can follow."""
        return self._has_read_end or (self._feed.ended and self.after >= self._feed.head)

    @property
    def run_ended(self) -> bool:
        """Whether everything was read, and the newest event ended a run."""
        return self._has_read_end or (self._feed.run_ended and self.after >= self._feed.head)

    async def wait(self, serve: Serve | None = None) -> None:
        """Return at the feed's next change, or after `wake` is called.

        A change for which `serve` returns True is done, and the wait continues.
        """
        self._wakened = asyncio.get_running_loop().create_future()
        self._serve = serve
        self._feed.wake_on_change(self)
        try:
            await self._wakened
        finally:
            self._feed.remove_waiter(self)
            # No attribute may refer to the subscription: a cycle would delay freeing both.
            self._wakened = self._serve = None

    def changed(self) -> None:
        """Receive a change of the feed."""
        if self._wakened is None or self._wakened.done():
            return
        if self._serve is None or not self._serve():
            self._wakened.set_result(None)

    def wake(self) -> None:
        """Make `wait` return."""
        if self._wakened is not None and not self._wakened.done():
            self._wakened.set_result(None)

    async def _read_past(self) -> list[FeedBlock]:
        """Read one batch from the log. Between reads none of it is kept in memory.

        A feed that has lost the log's newest events is asked all the same: what the reader needs
        may be there, and end the task. So it is where a hostile worker wrote behind the end, and
        the end was repeated behind that.
        """
        feed, last = self._feed, self._feed.last
        if last is None:
            raise LogLost(f"task {feed.key.task} has no log")
        async with feed.resources.reading:
            blocks = await self._read_on(await self._find_sequence(last), last)
        if not blocks or blocks[0].entry.generation > self.after + 1:
            raise LogLost(f"the log of {feed.key.task} is gone after generation {self.after}")
        if feed.loss is not None and blocks[0].entry.stamp.log != feed.log:
            raise LogLost(f"{feed.key.task} now has the log {blocks[0].entry.stamp.log}")
        return blocks

    async def _read_on(self, sequence: int, last: Entry) -> list[FeedBlock]:
        feed, blocks = self._feed, list[FeedBlock]()
        continuity = Continuity(feed.key, sequence)
        while not blocks and sequence < last.sequence:
            batch = await read_on(
                feed.resources.bus, feed.key, sequence, last.sequence, batch_bytes=self.most
            )
            blocks = list(map(FeedBlock, continuity.entries_in(batch)))
            sequence = batch[-1].sequence if batch else last.sequence
        # A hostile worker may have written behind it.
        self._has_read_end = continuity.is_over
        return blocks

    async def _find_sequence(self, last: Entry) -> int:
        """Return the stream sequence after which the next event is stored."""
        if self._sequence is not None or not self.after:
            return self._sequence or 0
        return await find_generation(self._feed.resources.bus, self._feed.key, self.after + 1, last)


@dataclass(frozen=True, slots=True)
class FeedResources:
    """What all feeds of a gateway share."""

    bus: Bus
    rule: TailRule
    links: Links | None
    """Converts the addresses of files for clients; None leaves them as in the log."""
    notifier: FeedNotifier
    reading: asyncio.Semaphore
    """Held while a log is read; limits concurrent reads of all feeds."""
    shared: "dict[TaskKey, Feed]"
    """The feeds that others get, by their tasks."""
    waiting: WaitingLogs
    """The logs that waited for their users when their feeds were closed."""


class Feed:
    """A log's live view, shared by all its clients on this gateway.

    It keeps only the ring in memory. A reader of older events reads them from the log, at its own
    pace.
    """

    __slots__ = (
        "_fold",
        "_follower",
        "_has_changed",
        "_waiting",
        "ended",
        "has_links",
        "head",
        "key",
        "last",
        "loss",
        "resources",
        "ring",
        "run_ended",
        "users",
    )

    def __init__(self, resources: FeedResources, key: TaskKey, ring: Ring) -> None:
        """Create a feed of the log of `key` that follows nothing until `open`."""
        self.resources = resources
        self._has_changed = False
        self.key = key
        self.ring = ring
        self.last: Entry | None = None
        """The newest entry, without its lines if they are long; None until generation 1 exists."""
        self.head = 0
        """Generation of the newest event."""
        self.run_ended = False
        """Whether the run of the newest event is over."""
        self.ended = False
        """Whether nothing can follow the newest entry."""
        self.loss: LogLost | LogTooNew | None = None
        self.users = 0
        self.has_links = False
        """Whether the ring has had blocks that may contain links of files."""
        self._fold: TaskFold | None = None
        self._follower = Follower(resources.bus, resources.rule, key, self._deliver, self._lose)
        self._waiting: set[FeedReader] = set()

    @property
    def name(self) -> str:
        """The task, as it is called in logs."""
        return self.key.task

    @property
    def log(self) -> str:
        """The log id; empty before generation 1."""
        return self.last.stamp.log if self.last else ""

    @property
    def run(self) -> int:
        """The run of the newest event; 0 before generation 1."""
        return self.last.stamp.run if self.last else 0

    async def open_fresh(self) -> None:
        """Subscribe before the log begins; the caller then appends generation 1."""
        await self._follower.subscribe()
        self._follower.begin(0)

    async def open(self, known: Sequence[Entry] = ()) -> None:
        """Subscribe to an existing log and read its last entry, unless it is the last `known` one.

        Raises:
            TaskUnknown: no such log.
            BusUnavailable: the leader does not answer.
        """
        await self._follower.subscribe()
        last = known[-1] if known else await last_entry(self.resources.bus, self.key)
        if last is None:
            raise TaskUnknown
        for entry in known or (last,):
            self._add(entry)
        self._follower.begin(last.sequence)

    def end_use(self) -> None:
        """End one use; the end of the last one closes the feed."""
        self.users -= 1
        if self.users == 0:
            if self.resources.shared.get(self.key) is self:
                del self.resources.shared[self.key]
            self._follower.stop()
            last = self.last
            if last is not None and last.stamp.state == INPUT_REQUIRED:
                self._keep()
            self.ring.clear()

    def rest(self, silence: float) -> None:
        """Drop what makes the next token cheap, if nothing has come for `silence` seconds."""
        self._follower.rest(silence)

    def note_fold(self, fold: TaskFold) -> None:
        """Remember what a client's wait has made of the task, which changes no more."""
        self._fold = fold

    def _keep(self) -> None:
        if (log := self.waiting_log()) is not None:
            size = self.ring.memory * (1 if log.fold is None else 2)
            self.resources.waiting.keep(self.key, log, size)

    def waiting_log(self) -> WaitingLog | None:
        """Return the log, if it is short and its task waits for its user.

        Its fold is returned once: who gets it may continue it.
        """
        last = self.last
        if last is None or last.stamp.state != INPUT_REQUIRED or self.ring.memory > MOST_BYTES:
            return None
        if self.loss is not None or self.head > SHORT:
            return None
        blocks = self.ring.after(0, MOST_BYTES)
        return WaitingLog([one.entry for one in blocks], self._take_fold()) if blocks else None

    def _take_fold(self) -> TaskFold | None:
        fold, self._fold = self._fold, None
        # With links, it is a fold for one client.
        is_whole = fold is not None and fold.generation == self.head and not self.has_links
        return fold if is_whole else None

    def reader(self, after: int) -> FeedReader:
        """Return a reader of the events after generation `after`, for the current request."""
        links = self.resources.links
        return FeedReader(self, after, links, None if links is None else SERVED.get())

    async def entries(self, after: int) -> AsyncIterator[list[Entry]]:
        """Yield the entries after generation `after` as they arrive, until the log ends.

        The first entry may begin at or before `after`, if the cursor is inside a batch.

        Raises:
            LogLost: the log, or that part of it, is gone.
        """
        reader = self.reader(after)
        while blocks := await reader.read():
            yield [block.entry for block in blocks]

    def wake_on_change(self, reader: FeedReader) -> None:
        """Call the reader's `changed` at each change from now on."""
        self._waiting.add(reader)

    def remove_waiter(self, reader: FeedReader) -> None:
        """Cancel a `wake_on_change`."""
        self._waiting.discard(reader)

    def notify(self) -> None:
        """Tell the waiting readers of changes since the last time."""
        self._has_changed = False
        for reader in tuple(self._waiting):
            reader.changed()

    def _deliver(self, entry: Entry) -> None:
        if entry.generation != self.head + 1:
            # Retention trimmed the log's head. The entries between are gone, so report the gap.
            self._lose(LogLost(f"the log of {self.key.task} is gone after generation {self.head}"))
            return
        self._add(entry)
        if self._waiting and not self._has_changed:
            self._wake()

    def _add(self, entry: Entry) -> None:
        block, state = FeedBlock(entry), entry.stamp.state
        self.has_links = self.has_links or block.has_links
        self.head = entry.last_generation
        self.run_ended, self.ended = state in RUN_OVER, state in FINISHED
        self.last = entry if block.size <= _LAST_BYTES else _without_lines(entry)
        self.ring.append(block)

    def _lose(self, loss: LogLost | LogTooNew) -> None:
        self.loss = loss
        if not self._has_changed:
            self._wake()

    def _wake(self) -> None:
        """Have the waiting readers told of a change, once for several."""
        self._has_changed = True
        self.resources.notifier.add(self)


_LAST_BYTES = 4096
"""Maximum bytes of events for which a feed keeps its last entry beside the ring."""


def _without_lines(entry: Entry) -> Entry:
    bare = copy(entry)
    bare.lines = []
    return bare


_READS = 8
"""Concurrent log reads of clients that have fallen behind. Each read holds a batch in memory, and
more at once would only wait for each other."""


class HeldFeed:
    """One use of a feed, which ends with its holder's block unless it is handed over before."""

    __slots__ = ("feed", "is_held")

    def __init__(self, feed: Feed) -> None:
        """Hold a use of `feed` that has begun."""
        self.feed = feed
        self.is_held = True
        """False once it has ended or has been handed over."""

    async def __aenter__(self) -> Feed:
        return self.feed

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        raised: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        if self.is_held:
            self.is_held = False
            self.feed.end_use()

    def hand_over(self) -> "HeldFeed":
        """Return the use for its next holder.

        Others get the feed from now on: who opened it behind an entry has appended the next one.

        Raises:
            RuntimeError: the use has ended, or has been handed over before.
        """
        if not self.is_held:
            raise RuntimeError(f"this use of the feed of {self.feed.key.task} is over")
        self.is_held, feed = False, self.feed
        feed.resources.shared.setdefault(feed.key, feed)
        return HeldFeed(feed)


class _Holding(Protocol):
    @property
    def held(self) -> HeldFeed: ...


class FeedHolder:
    """A result with a feed that it holds: for the length of a block, or until it hands it over."""

    __slots__ = ()

    @property
    def feed(self: _Holding) -> Feed:
        """The feed."""
        return self.held.feed

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self: _Holding,
        kind: type[BaseException] | None,
        raised: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        if self.held.is_held:
            await self.held.__aexit__(kind, raised, at)


class Feeds:
    """Opens feeds, each of which is shared by its users and closed after the last use."""

    def __init__(  # noqa: PLR0913  # three of them are limits
        self,
        bus: Bus,
        rule: TailRule,
        ring_bytes: int,
        background: BackgroundWork,
        links: Links | None = None,
        *,
        total_bytes: int = 256 * 1024 * 1024,
        silence: float = TIMING.feed_silence,
    ) -> None:
        """Open feeds in `background` on request; `links` converts file addresses for clients.

        Each keeps about `ring_bytes` of events; together they take `total_bytes` of memory at most.
        One without a new entry for `silence` seconds, at most twice that, keeps only its last.
        """
        self._background = background
        self.links = links
        """Converts links of files into addresses for clients."""
        self._ring_bytes, self._silence = ring_bytes, silence
        self._memory = FeedMemory(total_bytes)
        self._feeds: dict[TaskKey, Feed] = {}
        self._resources = FeedResources(
            bus, rule, links, FeedNotifier(), asyncio.Semaphore(_READS), self._feeds, WaitingLogs()
        )
        self._opening: dict[Feed, asyncio.Task[None]] = {}
        self._dropping: asyncio.TimerHandle | None = None
        """When silent feeds drop their events; None: no feed is open."""

    def __len__(self) -> int:
        """Return the number of open feeds."""
        return len(self._feeds)

    @property
    def memory(self) -> int:
        """Bytes that the recent events of all feeds take."""
        return self._memory.used

    async def open_new(self, key: TaskKey) -> HeldFeed:
        """Return a feed of a new log; the caller appends generation 1.

        Raises:
            BusUnavailable: there is no connection.
        """
        feed = self._feeds[key] = self._new(key)
        try:
            await feed.open_fresh()
        except BaseException:
            feed.end_use()
            raise
        return HeldFeed(feed)

    async def open_after(self, key: TaskKey, known: Sequence[Entry]) -> HeldFeed:
        """Return a feed of a log that ended with those entries, for who appends after them.

        A new one reads nothing: if another entry has come since, the append fails. Nobody else gets
        it until its holder, who has appended, hands it over. If none are `known`, the last one is
        read.

        Raises:
            TaskUnknown: no such log.
            BusUnavailable: there is no connection, or the log's leader does not answer.
        """
        if not known or key in self._feeds:
            return await self.open(key)
        feed = self._new(key)
        try:
            await feed.open(known)
        except BaseException:
            feed.end_use()
            raise
        return HeldFeed(feed)

    def waiting_log(self, key: TaskKey) -> WaitingLog | None:
        """Return the log of a task that was last seen waiting for its user, if it is short.

        Others may have appended since: it serves only who appends after it.
        """
        if (feed := self._feeds.get(key)) is not None:
            return feed.waiting_log()
        return self._resources.waiting.take(key)

    async def open(self, key: TaskKey) -> HeldFeed:
        """Return the feed of an existing log: a new one, if what there is has lost it.

        Raises:
            TaskUnknown: no such log.
            BusUnavailable: the log's leader does not answer.
        """
        feed = self._feeds.get(key)
        opening: asyncio.Task[None] | None
        if feed is None or feed.loss is not None:
            # Its first use keeps it open while it opens, even if all callers leave.
            feed = self._feeds[key] = self._new(key)
            opening = self._background.start(self._open(feed))
            if not opening.done():
                self._opening[feed] = opening
        else:
            opening = self._opening.get(feed)
        feed.users += 1
        if opening is not None:
            try:
                await asyncio.shield(opening)
            except BaseException:
                feed.end_use()
                raise
        return HeldFeed(feed)

    async def _open(self, feed: Feed) -> None:
        try:
            await feed.open()
        except BaseException:
            # Otherwise a caller that comes before the last waiting one has left would get this
            # feed.
            if self._feeds.get(feed.key) is feed:
                del self._feeds[feed.key]
            raise
        finally:
            self._opening.pop(feed, None)
            feed.end_use()

    def _new(self, key: TaskKey) -> Feed:
        """Return a feed with one use, which nobody else gets yet."""
        feed = Feed(self._resources, key, Ring(self._ring_bytes, self._memory))
        feed.users += 1
        if self._dropping is None:
            self._drop_later()
        return feed

    def _drop_later(self) -> None:
        self._dropping = asyncio.get_running_loop().call_later(self._silence, self._drop_silent)

    def _drop_silent(self) -> None:
        self._memory.drop_silent()
        for feed in self._feeds.values():
            feed.rest(self._silence)
        self._resources.waiting.drop_old()
        self._dropping = None
        if self._feeds or self._memory.used or self._resources.waiting:
            self._drop_later()
