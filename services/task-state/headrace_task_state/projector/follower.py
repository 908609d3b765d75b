"""Apply a range: from its consumer to the store, while the lease is held.

The module checks that a range's position is still valid. NATS may have lost its stream, or the end
of it (an older disk image, a power cut without `sync_interval: always`). Sequences are then
assigned again, and an old position would skip messages that were never applied.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from itertools import batched

from headrace import metrics
from headrace.background import keep_running
from headrace.jetstream.api import StreamState, get_message, stream_state, until_answered
from headrace.jetstream.connection import Bus
from headrace.jetstream.headers import nanoseconds
from headrace.model.errors import BusUnavailable, StateUnavailable
from headrace.model.task import TaskKey
from headrace_task_state.projector.applied import LAG_INTERVAL, RangeLag, WaitingLists
from headrace_task_state.projector.batches import Batches, StoreBatch
from headrace_task_state.projector.consumer import Arrival, Consumer, ConsumerLost
from headrace_task_state.projector.dead_letters import DeadLetters
from headrace_task_state.projector.ended_logs import EndedLogs
from headrace_task_state.projector.last_entries import LastEntries
from headrace_task_state.projector.list_changes import ListChangePublisher
from headrace_task_state.projector.summaries import Summaries, TooLittle
from headrace_task_state.store import (
    LeaseLost,
    PositionMoved,
    Progress,
    TaskChange,
    TaskRemoval,
    Writer,
    name_of,
)

_CONFIRM = 0.5

_LOOKS = 2

_TIMEOUT = 2.0


async def same_stream(bus: Bus, stream: str, progress: Progress) -> StreamState | None:
    """Return the stream's state if `progress` is of this very stream; None: it is of another.

    A leader that was frozen briefly answers with outdated state, so a single mismatch is not
    trusted.

    Raises:
        BusUnavailable: no leader answers.
    """
    for pause in (*[_CONFIRM] * _LOOKS, 0.0):
        if (state := await _look(bus, stream, progress)) is not None:
            return state
        await asyncio.sleep(pause)
    return None


async def _look(bus: Bus, stream: str, progress: Progress) -> StreamState | None:
    state = await stream_state(bus, stream, _TIMEOUT)
    same = progress.origin in ("", state.origin) and progress.position <= state.last
    if not same or not await _holds(bus, stream, progress):
        return None
    return state


async def _holds(bus: Bus, stream: str, progress: Progress) -> bool:
    """Return whether the last message applied still has that sequence, or has been purged."""
    if not progress.last:
        return True
    query = {"seq": progress.last}
    message = await until_answered(bus, lambda: get_message(bus, stream, query), _TIMEOUT)
    return message is None or nanoseconds(message["time"]) == progress.time


_log = logging.getLogger(__name__)

LINGER = 0.02
"""Seconds between batches while fewer than `FULL` messages wait, and from the first message after a
silence to its batch. This lets texts accumulate, and a short run's messages; each batch costs about
as much as twenty events."""

FULL = 250

MANY = 30
"""Messages in a batch that indicate load: a task changes several times within `LONGER`, and is
written once."""

SOON = 0.005
"""Minimum seconds from a batch to the next, however many lists wait for the view."""

LONGER = 0.06
"""The same after a batch of `MANY`."""

LONGEST = 0.25
"""Seconds from a batch of `MANY` to the next while no list waits for the view. Reads of one task
never do."""

AT_ONCE = 1000
"""Messages that are folded in at once: some 10 ms, in which nothing else here runs."""

OUTPUT_LINGER = 1.0
"""Seconds between batches while nothing but output of working tasks arrives, unless another time is
given. Each task is written once per batch. Lists end it: see `WaitingLists`."""

_PAUSE = 0.5

type Announce = Callable[[Iterable[TaskKey]], Awaitable[None]]
"""Announces changed tasks; raises BusUnavailable if the outcome is unknown."""


class RangeFollower:
    """Applies one range under one lease."""

    def __init__(  # noqa: PLR0913  # four of them are durations
        self,
        bus: Bus,
        writer: Writer,
        timeout: float,
        announce: Announce,
        tombstone_seen: Callable[[], None],
        *,
        silence: float,
        output_linger: float = OUTPUT_LINGER,
        lag_interval: float = LAG_INTERVAL,
    ) -> None:
        """Write through `writer`; `timeout` and `silence` as for `Batches`.

        Changed tasks are announced before the change counts as applied; `tombstone_seen` is called
        after tombstones were applied.
        """
        self._bus, self._writer = bus, writer
        self._timeout, self._silence = timeout, silence
        self._announce, self._tombstone_seen = announce, tombstone_seen
        self._output_linger = output_linger
        self._range = writer.lease.range
        self._lag = RangeLag(bus, self._range, lag_interval)
        self._stream = bus.streams.events(self._range.stream)
        self._letters = DeadLetters(bus, self._stream)
        self._ended = EndedLogs(bus, writer, self._letters)
        self._loop = asyncio.get_running_loop()
        self._consumers = 0
        self._reads_all = False
        """Whether last entries contain too little, so that a view is built from all entries."""

    async def run(self) -> None:
        """Apply until the lease is lost; wait out failures of NATS and the store."""
        beside = [
            asyncio.create_task(self._lag.watch()),
            keep_running(self._ended.run, "repair of logs that go on behind their end"),
        ]
        try:
            await self._follow_with_retries()
        except LeaseLost as loss:
            _log.info("range %s: %s", self._range.name, loss)
        finally:
            for task in beside:
                task.cancel()
            self._lag.remove()

    async def _follow_with_retries(self) -> None:
        while True:
            try:
                await self._follow()
            except TooLittle as reason:
                self._reads_all = True
                _log.info("range %s: reading every message: %s", self._range.name, reason)
            except (ConsumerLost, PositionMoved) as reason:
                _log.info("range %s restarts: %s", self._range.name, reason)
            except (BusUnavailable, StateUnavailable) as error:
                _log.warning("range %s is waiting: %s", self._range.name, error)
                await asyncio.sleep(_PAUSE)

    async def _follow(self) -> None:
        progress = await self._writer.progress()
        state = await same_stream(self._bus, self._stream, progress)
        if state is None:
            _log.error("stream %s was recreated; removing the tasks of the old one", self._stream)
            await self._writer.begin_projection()
            raise LeaseLost("the view is rebuilt from the start")
        began = progress.began or round(state.at * 1000)
        progress = replace(progress, origin=state.origin, began=began)
        metrics.FOLLOWING.labels(self._range.name).set(1)
        self._lag.begin(progress.position, state.last - progress.position)
        try:
            shards: dict[int, int] = {}
            if not self._reads_all and (progress.is_summarizing or not progress.position):
                progress, shards = await self._summarize(progress)
            elif progress.is_summarizing:
                previous, progress = progress, Progress(origin=state.origin, began=began)
                await self._writer.apply(previous, progress, [])
            await self._apply_all(progress, shards)
        finally:
            metrics.FOLLOWING.labels(self._range.name).set(0)

    def _new_name(self) -> str:
        self._consumers += 1
        return f"task-state-{self._writer.lease.token}-{self._consumers}".replace(".", "-")

    async def _summarize(self, progress: Progress) -> tuple[Progress, dict[int, int]]:
        """Apply the last entry of each log; return the progress of the range and of each shard.

        After a crash it starts again: the last entries may differ by then.

        Raises:
            TooLittle: applying all entries is faster.
        """
        entries = LastEntries(self._bus, self._range, self._new_name())
        summaries = Summaries(self._bus, self._timeout, self._silence)
        writing = BatchWrite(self._writer, self._lag, self._ended, summaries)
        newest = 0, 0  # Sequence and time of the last message up to the head.
        try:
            await entries.open()
            at = Progress(origin=progress.origin, began=progress.began, summarized=entries.head)
            await writing.begin(progress, at, [])
            _log.info("range %s: summarized up to sequence %d", self._range.name, entries.head)
            async for arrivals in entries.batches():
                batch = await summaries.build(arrivals, at)
                await self._send_before(batch)
                before, at = at, replace(at, summaries=at.summaries + 1)
                await writing.begin(before, at, batch.changes)
                stored = [(one.sequence, one.time) for one in arrivals]
                newest = max([newest, *(one for one in stored if one[0] <= entries.head)])
            shards, (last, time) = entries.reached, newest
            summarized = max([entries.head, *shards.values()])
            then = replace(at, position=entries.head, last=last, time=time, summarized=summarized)
            await writing.begin(at, then, [])
            await writing.done()
        finally:
            await writing.give_up()
            await entries.close()
        self._tombstone_seen()
        return then, shards

    async def _send_before(self, batch: StoreBatch) -> None:
        """Send what must be sent before a batch is written."""
        for letter in batch.letters:
            await self._letters.send(letter)
        await self._announce(batch.touched)

    async def _apply_all(self, progress: Progress, shards: dict[int, int]) -> None:
        """Apply what the consumer delivers; build the next batch while one is being written.

        `shards` has for each shard the stream sequence up to which it is already applied.
        """
        batches = Batches(self._bus.subjects, self._timeout, self._silence)
        async with self._consuming(progress) as (consumer, writing):
            since: float | None = None
            is_loaded = False
            while True:
                await self._linger(consumer, since, is_loaded=is_loaded)
                arrivals = await consumer.fetch()
                started, since = self._loop.time(), None
                batches.forget(writing.take_ignored())
                for some in batched(self._left(arrivals, progress, shards), AT_ONCE):
                    batches.take(some)
                    await asyncio.sleep(0)
                batch = batches.finish(progress)
                await self._send_before(batch)
                end = arrivals[-1].sequence if arrivals else consumer.examined
                then = replace(batch.then, position=max(batch.then.position, end))
                if then == progress:
                    await writing.check(progress)
                    continue
                await writing.begin(progress, then, batch.changes)
                if batch.has_tombstones:
                    await writing.done()
                    self._tombstone_seen()
                progress = then
                waiting = max(consumer.waiting, arrivals[-1].pending if arrivals else 0)
                if waiting < FULL:
                    await writing.done()
                    since, is_loaded = started, len(arrivals) >= MANY
                self._lag.waiting = waiting

    @asynccontextmanager
    async def _consuming(self, progress: Progress) -> AsyncIterator[tuple[Consumer, "BatchWrite"]]:
        """Have what follows `progress` delivered, and batches of it written, for a block."""
        changes = ListChangePublisher(self._bus, self._writer)
        consumer = Consumer(self._bus, self._stream, self._new_name())
        lists = WaitingLists(self._bus, self._range, consumer.want, progress.position)
        writing = BatchWrite(self._writer, self._lag, self._ended, changes=changes, lists=lists)
        try:
            async with lists.served():
                await consumer.open(progress.position)
                await self._writer.apply(progress, progress, [])
                await changes.begin(progress.position)
                _log.info(
                    "range %s: following from sequence %d", self._range.name, progress.position
                )
                yield consumer, writing
        finally:
            await writing.give_up()
            changes.close()
            await consumer.close()

    async def _linger(self, consumer: Consumer, since: float | None, *, is_loaded: bool) -> None:
        """Let the messages of a batch accumulate: since the last one, the longer the larger it was.

        A list that waits ends it early. Without `since`, return at once if messages wait.
        """
        rest = 0.0
        if since is not None:
            await asyncio.sleep(since + (LONGER if is_loaded else SOON) - self._loop.time())
            linger = LONGEST if is_loaded else LINGER
            await consumer.accumulate_all(since + linger - self._loop.time())
            rest = since + self._output_linger - self._loop.time()
        elif consumer.is_behind:
            return
        await consumer.accumulate(rest, LINGER)

    def _left(
        self, arrivals: list[Arrival], progress: Progress, shards: dict[int, int]
    ) -> list[Arrival]:
        """Return the arrivals that are not applied yet."""
        if not progress.is_summarizing:
            return arrivals
        subjects = self._bus.subjects
        applied = {
            subjects.shard_events(shard).removesuffix(">"): at for shard, at in shards.items()
        }
        return [
            one
            for one in arrivals
            if not any(
                one.sequence <= at and one.msg.subject.startswith(start)
                for start, at in applied.items()
            )
        ]


class BatchWrite:
    """One batch being written to the store while the next one is built."""

    def __init__(
        self,
        writer: Writer,
        lag: RangeLag,
        ended: EndedLogs,
        summaries: Summaries | None = None,
        *,
        changes: ListChangePublisher | None = None,
        lists: WaitingLists | None = None,
    ) -> None:
        """Write through `writer`, report to `lag`, `ended` and `lists`, and publish `changes`.

        `summaries` is set, and `changes` and `lists` are not, while last entries are applied.
        """
        self._writer, self._summaries, self._changes = writer, summaries, changes
        self._lag, self._ended, self._lists = lag, ended, lists
        self._batch: asyncio.Task[None] | None = None
        self._ignored: list[TaskKey] = []

    def take_ignored(self) -> list[TaskKey]:
        """Return the tasks whose changes the store has ignored since the last call."""
        ignored, self._ignored = self._ignored, []
        return ignored

    async def begin(
        self, expected: Progress, then: Progress, changes: Sequence[TaskChange | TaskRemoval]
    ) -> None:
        """Start writing a batch once the previous one is written.

        Raises:
            HeadraceError: writing the previous batch failed, see `Writer.apply`.
        """
        await self.done()
        self._batch = asyncio.create_task(self._write(expected, then, changes))

    async def _write(
        self, expected: Progress, then: Progress, changes: Sequence[TaskChange | TaskRemoval]
    ) -> None:
        ignored = await self._writer.apply(expected, then, changes)
        if ignored.behind:
            self._ended.wake()
        left_out = {*ignored.foreign, *ignored.behind}
        self._ignored += (changes[at].key for at in left_out)
        if ignored.foreign:
            await self._deal_with_foreign([changes[at] for at in ignored.foreign], then)
        self._lag.position = then.position
        if self._lists is not None:
            self._lists.position = then.position
            if self._lists.waiting:
                await self._lists.answer()
        if self._changes is not None:
            if left_out:
                changes = [one for at, one in enumerate(changes) if at not in left_out]
            await self._changes.publish(then.position, changes)

    async def _deal_with_foreign(
        self, foreign: list[TaskChange | TaskRemoval], then: Progress
    ) -> None:
        """Report the changes by logs with the ids of other agents' tasks, or apply the older ones.

        Last entries are not in the order of first entries, which decide whose a task is.
        """
        if self._summaries is not None:
            foreign = [
                one for one in foreign if not await self._replaces(self._summaries, one, then)
            ]
        if foreign:
            _log.error(
                "ignored an entry with the id of another agent's task: %s",
                " ".join(map(_name, foreign)),
            )

    async def _replaces(
        self, summaries: Summaries, change: TaskChange | TaskRemoval, then: Progress
    ) -> bool:
        """Apply a task whose log began before the stored one; return whether it did."""
        key = change.key
        [known] = await self._writer.fields(name_of(key))
        if isinstance(change, TaskRemoval) or not known:
            return False
        own, other = int(change.fields["sequence"]), int(known["sequence"])
        older = await summaries.replacement(key, own, known["agent"], other)
        if older is None:
            return False
        await self._writer.apply(then, then, [older])
        return True

    async def check(self, progress: Progress) -> None:
        """If a list has found the store behind it, check that the store is at `progress`.

        A store that was rolled back would stay behind until something else is applied. Raises as
        `begin`.
        """
        if self._lists is not None and self._lists.doubts:
            self._lists.doubts = False
            await self.begin(progress, progress, [])
            await self.done()

    async def done(self) -> None:
        """Wait until nothing is being written; raises as `begin`."""
        batch, self._batch = self._batch, None
        if batch is not None:
            await batch

    async def give_up(self) -> None:
        """Stop waiting; a write that was sent may still be carried out."""
        if self._batch is not None:
            self._batch.cancel()
            await asyncio.gather(self._batch, return_exceptions=True)


def _name(change: TaskChange | TaskRemoval) -> str:
    """Return the name of the change's log: two may have the same task id."""
    return f"{name_of(change.key)}:{change.key.agent}"
