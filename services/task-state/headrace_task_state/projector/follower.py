"""Applying a range: from its consumer into the store, as long as the lease is held.

Seeing that a range's position still means what it meant when it was written.
NATS may have lost its stream, or the end of it (a disk image from before, a power cut without
`sync_interval: always`). Sequences are then given out again, and a position from before would step
over messages that nobody has applied.

Reading the last entry of each log of a range, shard by shard.
While a consumer of last messages is made, nats-server 2.15 looks for them in all blocks, and stores
nothing: for 0.35 s with 60,000 logs. So a consumer is made for each shard (0.02 s), and the blocks
are read into the server's memory before.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from dataclasses import replace

from headrace import metrics
from headrace.jetstream.api import Json, get_message, stream_info, stream_state, until_answered
from headrace.jetstream.connection import Bus
from headrace.jetstream.headers import nanoseconds
from headrace.model.errors import BusUnavailable, StateUnavailable
from headrace.model.subjects import shards_of_stream
from headrace.model.task import TaskKey
from headrace_task_state.projector.batches import Batches, StoreBatch
from headrace_task_state.projector.consumer import MOST, MOST_BYTES, Arrival, Consumer, ConsumerLost
from headrace_task_state.projector.dead_letters import DeadLetters
from headrace_task_state.projector.summaries import Summaries, TooLittle
from headrace_task_state.ranges import Range
from headrace_task_state.store import (
    Departure,
    LeaseLost,
    PositionMoved,
    Progress,
    TaskChange,
    Writer,
)

_CONFIRM = 0.5

_LOOKS = 2

_TIMEOUT = 2.0


async def origin_of(bus: Bus, stream: str, progress: Progress) -> str | None:
    """Return the stream's origin if `progress` is of this very stream; None: it is of another.

    A leader that was frozen answers, for a moment, what it knew then, so one look that says so is
    not believed.

    Raises:
        BusUnavailable: no leader answers.
    """
    for pause in (*[_CONFIRM] * _LOOKS, 0.0):
        if (origin := await _look(bus, stream, progress)) is not None:
            return origin
        await asyncio.sleep(pause)
    return None


async def _look(bus: Bus, stream: str, progress: Progress) -> str | None:
    state = await stream_state(bus, stream, _TIMEOUT)
    same = progress.origin in ("", state.origin) and progress.position <= state.last
    if not same or not await _holds(bus, stream, progress):
        return None
    return state.origin


async def _holds(bus: Bus, stream: str, progress: Progress) -> bool:
    """Tell whether the last message applied is the one of that sequence, or purged by now."""
    if not progress.last:
        return True
    query = {"seq": progress.last}
    message = await until_answered(bus, lambda: get_message(bus, stream, query), _TIMEOUT)
    return message is None or nanoseconds(message["time"]) == progress.time


LEAST_MESSAGES = 5_000
"""Messages of a stream from which on last entries are worth it: fewer are read in a second or two,
and nothing has to be completed afterwards."""

MOST_LOGS = 4_000_000
"""Logs of a stream beyond which making a consumer takes too long."""

_BLOCK = 2 * 1024 * 1024
"""Bytes of which one is read so that all blocks have been: nats-server's have 4 or 8 MB."""

_LOOK = 0.05

_SILENT = 5
"""Waits for a shard's next entry in vain after which it is given up."""

_SETTLED = 30.0
"""Seconds that all shards have to show that nothing is missing, when their entries have come."""


class LastEntries:
    """The last entries of a range's logs, each as of when its shard was begun."""

    def __init__(self, bus: Bus, place: Range, name: str) -> None:
        """Read the stream of `place`; consumers' names begin with `name`, which is new."""
        self._bus, self._place, self._name = bus, place, name
        self._stream = bus.streams.events(place.stream)
        self._open: dict[int, Consumer] = {}
        self.head = 0
        """Stream sequence up to which nothing is missing in any shard at the end."""
        self.reached: dict[int, int] = {}
        """Stream sequence up to which all of each shard has been yielded."""

    async def open(self) -> None:
        """Look how far the stream goes, and have the server read it.

        Raises:
            TooLittle: there are too many logs to do so, or too few messages to gain by it.
            BusUnavailable: no leader answers.
        """
        state: Json = (await until_answered(self._bus, self._info, _TIMEOUT))["state"]
        if state.get("num_subjects", 0) > MOST_LOGS:
            raise TooLittle(f"{state['num_subjects']} logs are too many to look for last entries")
        if 0 < int(state["messages"]) < LEAST_MESSAGES:
            raise TooLittle(f"there are {state['messages']} messages")
        self.head = int(state["last_seq"])
        step = max(int(state["messages"]) * _BLOCK // max(int(state["bytes"]), 1), 1)
        for sequence in range(int(state["first_seq"]), self.head + 1, step):
            await get_message(self._bus, self._stream, {"seq": sequence, "next_by_subj": ">"})

    async def _info(self) -> Json:
        return await stream_info(self._bus, self._stream, timeout=_TIMEOUT)

    async def batches(self) -> AsyncIterator[list[Arrival]]:
        """Yield them, those of a shard in order; at the end, all up to `head` have come.

        Raises:
            ConsumerLost: begin again.
            BusUnavailable: no leader answers.
        """
        for shard in shards_of_stream(self._place.stream) if self.head else ():
            name = f"{self._name}-{shard}"
            consumer = Consumer(self._bus, self._stream, name, last_per_subject=True)
            self._open[shard] = consumer
            number = await consumer.open_last_per_subject(self._bus.subjects.shard_events(shard))
            silent = 0
            while number > 0 and shard in self._open:
                arrivals = await consumer.take(MOST, MOST_BYTES)
                silent = 0 if arrivals else silent + 1
                if silent > _SILENT:
                    raise ConsumerLost("it hands out nothing more")
                number -= len(arrivals)
                yield arrivals
                await self._settle()
        deadline = asyncio.get_running_loop().time() + _SETTLED
        while self._open:
            for consumer in list(self._open.values()):
                if consumer.waiting:
                    yield await consumer.take(MOST, MOST_BYTES)
            await asyncio.sleep(_LOOK)
            await self._settle()
            if asyncio.get_running_loop().time() > deadline:
                raise ConsumerLost("shards do not show that nothing is missing")

    async def _settle(self) -> None:
        """Give back the consumers of shards of which nothing up to `head` is missing."""
        for shard, consumer in list(self._open.items()):
            if (reached := consumer.complete_to) >= self.head:
                del self._open[shard]
                self.reached[shard] = reached
                await consumer.close()

    async def close(self) -> None:
        """Give all consumers back."""
        for consumer in self._open.values():
            await consumer.close()


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
