"""Applying a range: from its consumer into the store, as long as the lease is held."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import replace

from headrace import metrics
from headrace.jetstream.connection import Bus
from headrace.model.errors import BusUnavailable, StateUnavailable
from headrace.model.task import TaskKey
from headrace_task_state.projector.arrival import Arrival
from headrace_task_state.projector.batches import Batches, StoreBatch
from headrace_task_state.projector.consumer import MOST, MOST_BYTES, Consumer, ConsumerLost
from headrace_task_state.projector.dead_letters import DeadLetters
from headrace_task_state.projector.last_entries import LastEntries
from headrace_task_state.projector.origin import origin_of
from headrace_task_state.projector.summaries import Summaries, TooLittle
from headrace_task_state.store import (
    Departure,
    LeaseLost,
    PositionMoved,
    Progress,
    TaskChange,
    Writer,
)

_log = logging.getLogger(__name__)

LINGER = 0.02
"""Seconds from one batch to the next while fewer than `FULL` messages wait: under load it lets
texts gather, and each batch costs about as much as twenty events."""

FULL = 250

MANY = 30
"""Messages in a batch that show load: a task changes a few times within `LONGER`, and is written
once."""

LONGER = 0.06
"""Seconds from a batch of `MANY` to the next. Reads of one task do not wait for it, lists do."""

_PAUSE = 0.5

type Announce = Callable[[Iterable[TaskKey]], Awaitable[None]]
"""Tells others which tasks have changed; raises BusUnavailable where that is not sure."""


class RangeFollower:
    """Applies one range under one lease."""

    def __init__(
        self,
        bus: Bus,
        writer: Writer,
        timeout: float,
        announce: Announce,
        tombstone_seen: Callable[[], None],
    ) -> None:
        """Write through `writer`; an input is due to be asked for again after `timeout` s.

        What tasks change is announced before it counts as applied; `tombstone_seen` is called when
        tombstones have been.
        """
        self._bus, self._writer, self._timeout = bus, writer, timeout
        self._announce, self._tombstone_seen = announce, tombstone_seen
        self._range = writer.lease.range
        self._stream = bus.streams.events(self._range.stream)
        self._letters = DeadLetters(bus, self._stream)
        self._loop = asyncio.get_running_loop()
        self._consumers = 0
        self._reads_all = False
        """Whether last entries say too little, so that a view is built from all of them."""

    async def run(self) -> None:
        """Apply until the lease is lost; trouble with NATS and the store is waited out."""
        try:
            await self._persevere()
        except LeaseLost as loss:
            _log.info("range %s: %s", self._range.name, loss)
        finally:
            # How far the range is, its next holder tells.
            metrics.POSITION.remove(self._range.name)
            metrics.LAG.remove(self._range.name)

    async def _persevere(self) -> None:
        while True:
            try:
                await self._follow()
            except TooLittle as reason:
                self._reads_all = True
                _log.info("range %s is read whole: %s", self._range.name, reason)
            except (ConsumerLost, PositionMoved) as reason:
                _log.info("range %s restarts: %s", self._range.name, reason)
            except (BusUnavailable, StateUnavailable) as trouble:
                _log.warning("range %s waits: %s", self._range.name, trouble)
                await asyncio.sleep(_PAUSE)

    async def _follow(self) -> None:
        progress = await self._writer.progress()
        origin = await origin_of(self._bus, self._stream, progress)
        if origin is None:
            _log.error("stream %s was recreated: its former tasks are gone", self._stream)
            await self._writer.begin_era()
            raise LeaseLost("the view begins anew")
        progress = replace(progress, origin=origin)
        metrics.FOLLOWING.labels(self._range.name).set(1)
        metrics.POSITION.labels(self._range.name).set(progress.position)
        try:
            shards: dict[int, int] = {}
            if not self._reads_all and (progress.is_summarizing or not progress.position):
                progress, shards = await self._summarize(progress)
            elif progress.is_summarizing:
                begun, progress = progress, Progress(origin=origin)
                await self._writer.apply(begun, progress, [])
            await self._apply_all(progress, shards)
        finally:
            metrics.FOLLOWING.labels(self._range.name).set(0)

    def _new_name(self) -> str:
        self._consumers += 1
        return f"task-state-{self._writer.lease.token}-{self._consumers}".replace(".", "-")

    async def _summarize(self, progress: Progress) -> tuple[Progress, dict[int, int]]:
        """Apply the last entry of each log; return how far the range is then, and each shard.

        After a crash it begins again: other entries may be the last ones by then.

        Raises:
            TooLittle: it is better to apply all entries.
        """
        entries = LastEntries(self._bus, self._range, self._new_name())
        summaries = Summaries(self._bus, self._timeout)
        writing, newest = Writing(self._writer, summaries), (0, 0)
        try:
            await entries.open()
            at = Progress(origin=progress.origin, summarized=entries.head)
            await writing.begin(progress, at, [])
            _log.info("range %s is summarized up to %d", self._range.name, entries.head)
            async for arrivals in entries.batches():
                batch = await summaries.build(arrivals, at)
                await self._announced(batch)
                await writing.begin(at, at, batch.changes)
                known = [one[:3:2] for one in arrivals if one.sequence <= entries.head]
                newest = max(newest, *known) if known else newest
            shards = entries.reached
            last, time = newest
            then = replace(at, position=entries.head, last=last, time=time)
            then = replace(then, summarized=max([entries.head, *shards.values()]))
            await writing.begin(at, then, [])
            await writing.done()
        finally:
            await writing.give_up()
            await entries.close()
        self._tombstone_seen()
        return then, shards

    async def _announced(self, batch: StoreBatch) -> None:
        """Have sent what must be sent before a batch is written."""
        for letter in batch.letters:
            await self._letters.send(letter)
        await self._announce(batch.touched)

    async def _apply_all(self, progress: Progress, shards: dict[int, int]) -> None:
        """Apply what the consumer hands out; the next batch is built while one is being written.

        Of `shards`, all up to a stream sequence is applied already.
        """
        batches, writing = Batches(self._bus.subjects, self._timeout), Writing(self._writer)
        consumer = Consumer(self._bus, self._stream, self._new_name())
        try:
            await consumer.open(progress.position)
            await self._writer.apply(progress, progress, [])
            _log.info("range %s is followed from %d", self._range.name, progress.position)
            while True:
                arrivals = await consumer.take(MOST, MOST_BYTES)
                begun = self._loop.time()
                batch = batches.build(self._left(arrivals, progress, shards), progress)
                await self._announced(batch)
                then = batch.then
                if then.position < (
                    end := arrivals[-1].sequence if arrivals else consumer.examined
                ):
                    then = replace(then, position=end)
                if then == progress:
                    continue
                await writing.begin(progress, then, batch.changes)
                if batch.has_tombstones:
                    await writing.done()
                    self._tombstone_seen()
                progress = then
                waiting = max(consumer.waiting, arrivals[-1].pending if arrivals else 0)
                metrics.LAG.labels(self._range.name).set(waiting)
                if waiting < FULL:
                    await writing.done()
                    linger = LINGER if len(arrivals) < MANY else LONGER
                    await asyncio.sleep(begun + linger - self._loop.time())
        finally:
            await writing.give_up()
            await consumer.close()

    def _left(
        self, arrivals: list[Arrival], progress: Progress, shards: dict[int, int]
    ) -> list[Arrival]:
        """Return those that are not applied yet."""
        if not progress.is_summarizing:
            return arrivals
        subjects = self._bus.subjects
        shard_of = {
            subjects.shard_events(shard).removesuffix(">"): at for shard, at in shards.items()
        }
        return [
            one
            for one in arrivals
            if not any(
                one.sequence <= at and one.msg.subject.startswith(start)
                for start, at in shard_of.items()
            )
        ]


class Writing:
    """One batch on its way to the store, while the next one is built."""

    def __init__(self, writer: Writer, summaries: Summaries | None = None) -> None:
        """Write through `writer`, perhaps what `summaries` build."""
        self._writer, self._summaries = writer, summaries
        self._position = metrics.POSITION.labels(writer.lease.range.name)
        self._batch: asyncio.Task[None] | None = None

    async def begin(
        self, expected: Progress, then: Progress, changes: Sequence[TaskChange | Departure]
    ) -> None:
        """Write a batch, once the one before it is written.

        Raises:
            HeadraceError: that one was not, see `Writer.apply`.
        """
        await self.done()
        self._batch = asyncio.create_task(self._write(expected, then, changes))

    async def _write(
        self, expected: Progress, then: Progress, changes: Sequence[TaskChange | Departure]
    ) -> None:
        foreign = await self._writer.apply(expected, then, changes)
        if foreign and self._summaries is not None:
            foreign = await self._replace(self._summaries, foreign, then, changes)
        if foreign:
            _log.error(
                "ignored an entry under the id of another agent's task: %s", " ".join(foreign)
            )
        self._position.set(then.position)

    async def _replace(
        self,
        summaries: Summaries,
        foreign: list[str],
        then: Progress,
        changes: Sequence[TaskChange | Departure],
    ) -> list[str]:
        """Apply those that began before what is there, and return the names of the others.

        Last entries don't come in the order of first ones, which tells whose a task is.
        """
        found = {f"{one.key.tenant}:{one.key.task}:{one.key.agent}": one for one in changes}
        ignored: list[str] = []
        for name in foreign:
            change, known = found[name], await self._writer.fields(name.rpartition(":")[0])
            older = None
            if isinstance(change, TaskChange) and known:
                own, other = int(change.fields["sequence"]), int(known["sequence"])
                older = await summaries.replacement(change.key, own, known["agent"], other)
            if older is None:
                ignored.append(name)
            else:
                await self._writer.apply(then, then, [older])
        return ignored

    async def done(self) -> None:
        """Return when nothing is being written; raises as `begin`."""
        batch, self._batch = self._batch, None
        if batch is not None:
            await batch

    async def give_up(self) -> None:
        """Wait for nothing any more; what was sent may be carried out."""
        if self._batch is not None:
            self._batch.cancel()
            await asyncio.gather(self._batch, return_exceptions=True)
