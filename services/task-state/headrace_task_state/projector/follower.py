"""Applying a range: from its consumer into the store, as long as the lease is held."""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace

from headrace import metrics
from headrace.jetstream.connection import Bus
from headrace.model.errors import BusUnavailable, StateUnavailable
from headrace.model.task import TaskKey
from headrace_task_state.projector.batches import Batches, StoreBatch
from headrace_task_state.projector.consumer import Consumer, ConsumerLost
from headrace_task_state.projector.dead_letters import DeadLetters
from headrace_task_state.projector.origin import origin_of
from headrace_task_state.projector.summaries import Summaries
from headrace_task_state.store import (
    Departure,
    LeaseLost,
    PositionMoved,
    Progress,
    TaskChange,
    Writer,
)

_log = logging.getLogger(__name__)

MOST = 1000
"""Messages in one batch."""

MOST_BYTES = 1024 * 1024
"""Bytes of messages in one batch: some 10 ms, for which nothing else here gets its turn."""

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

_SILENT = 5
"""Waits for a message in vain after which a range is not summarized any further."""

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
            if progress.is_summarizing or not (progress.position or self._reads_all):
                progress = await self._summarize(progress)
            await self._apply_all(progress)
        finally:
            metrics.FOLLOWING.labels(self._range.name).set(0)

    @asynccontextmanager
    async def _consumer(self, *, last_per_subject: bool = False) -> AsyncIterator[Consumer]:
        self._consumers += 1
        name = f"task-state-{self._writer.lease.token}-{self._consumers}".replace(".", "-")
        consumer = Consumer(self._bus, self._stream, name, last_per_subject=last_per_subject)
        try:
            yield consumer
        finally:
            await consumer.close()

    async def _summarize(self, progress: Progress) -> Progress:
        """Apply the last entry of each log; return how far the range is then.

        After a crash it begins again: other entries may be the last ones by then.
        """
        summaries = Summaries(self._bus, self._timeout)
        writing = Writing(self._writer, summaries)
        async with self._consumer(last_per_subject=True) as consumer:
            try:
                head = await consumer.open_last_per_subject()
                then = Progress(origin=progress.origin, summarized=head)
                await writing.begin(progress, then, [])
                progress, silent = then, 0
                _log.info("range %s is summarized up to %d", self._range.name, head)
                while progress.is_summarizing:
                    arrivals = await consumer.take(MOST, MOST_BYTES)
                    silent = 0 if arrivals else silent + 1
                    if silent > _SILENT:
                        # What was to come is gone; how far that was, nobody says.
                        self._reads_all = not progress.position
                        raise ConsumerLost("it hands out nothing more")
                    found = [one for one in arrivals if one.sequence <= head]
                    batch = await summaries.build(found, progress)
                    if not (summaries.is_worth_it or progress.position):
                        self._reads_all = True
                        break
                    await self._announced(batch)
                    then = batch.then
                    if consumer.examined >= head or any(one.sequence >= head for one in arrivals):
                        then = replace(then, position=head)
                    if then != progress:
                        await writing.begin(progress, then, batch.changes)
                    progress = then
                if self._reads_all:
                    then = replace(progress, summarized=0)
                    await writing.begin(progress, then, [])
                    progress = then
                await writing.done()
                self._tombstone_seen()
            finally:
                await writing.give_up()
        return progress

    async def _announced(self, batch: StoreBatch) -> None:
        """Have sent what must be sent before a batch is written."""
        for letter in batch.letters:
            await self._letters.send(letter)
        await self._announce(batch.touched)

    async def _apply_all(self, progress: Progress) -> None:
        """Apply what the consumer hands out; the next batch is built while one is being written."""
        batches, writing = Batches(self._bus.subjects, self._timeout), Writing(self._writer)
        async with self._consumer() as consumer:
            await consumer.open(progress.position)
            await self._writer.apply(progress, progress, [])
            _log.info("range %s is followed from %d", self._range.name, progress.position)
            try:
                while True:
                    arrivals = await consumer.take(MOST, MOST_BYTES)
                    begun = self._loop.time()
                    batch = batches.build(arrivals, progress)
                    await self._announced(batch)
                    then = batch.then
                    if not arrivals:
                        if consumer.examined <= progress.position:
                            continue
                        then = replace(progress, position=consumer.examined)
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
