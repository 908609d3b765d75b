"""Between an agent and its log: what is said while an append is in flight goes into the next one.

So an idle log gets each event at once, a busy one gets them in batches, and an agent that is too
far ahead waits.

A gateway may queue a message over the holder's head. That takes nothing from the holder: what it
was about to append gets the generations behind the message. The refused append can never be stored
(it expected another tail), so the new one may have other bytes.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

from headrace.log import FencedBy, LogWriter
from headrace.model import events
from headrace.model.entry import ANSWERED, Entry, Stamp
from headrace.model.errors import BusUnavailable, Fenced, LogLost
from headrace.model.events import Draft, Json
from headrace.model.task import AUTH_REQUIRED, RUN_ENDED, SUBMITTED, WORKING
from headrace.sdk.errors import MalformedOutput, Overtaken, RunOver

_ENDING = RUN_ENDED | {ANSWERED}


@dataclass(frozen=True, slots=True)
class Authorship:
    """What the stamps of one attempt have in common."""

    log: str
    writer: str
    run: int
    attempt: int
    owner: str | None = None
    """Whose task it is, which entries that end a run say again: a view is built from these."""

    def holds_after(self, entry: Entry) -> bool:
        """Tell whether the attempt still holds its task after `entry`, appended by somebody else.

        Who takes a task away from its holder begins another attempt or run, or ends this one. A
        gateway that queues a message over the holder's head repeats the stamp of the tail.
        """
        stamp = entry.stamp
        same = (stamp.log, stamp.run, stamp.attempt) == (self.log, self.run, self.attempt)
        return same and not entry.ends_run

    def stamp(self, generation: int, state: str = WORKING, checkpoint: str | None = None) -> Stamp:
        """Return the stamp of an entry that begins at `generation`."""
        return Stamp(
            self.log,
            generation,
            self.writer,
            state,
            self.run,
            self.attempt,
            self.owner if state in _ENDING else None,
            checkpoint,
        )


@dataclass(slots=True, eq=False)
class Queued:
    """A message that waits in the log."""

    generation: int
    """0 until it is stored."""
    message: Json
    metadata: Json
    is_answer: bool
    """Whether it came while the agent waited for the user."""
    name: str = ""
    """What it was handed in as, once."""

    @classmethod
    def read(cls, event: Json, generation: int) -> "Queued | None":
        """Return the message that `event` queues, if it queues one."""
        metadata = event.get("statusUpdate", {}).get("metadata", {})
        held = metadata.get(events.QUEUED)
        if not isinstance(held, dict) or not isinstance(held.get("message"), dict):
            return None
        is_answer = event["statusUpdate"]["status"]["state"] == AUTH_REQUIRED
        name = metadata.get(events.INPUT_ID) or ""
        return cls(generation, held["message"], held.get("metadata") or {}, is_answer, name)


class Receipt:
    """For one event: where in the log it stands, once it does."""

    __slots__ = ("_failure", "_waiting", "generation", "index", "is_conditional", "queued")

    def __init__(self, queued: Queued | None = None, *, is_conditional: bool = False) -> None:
        """Begin before the event is stored.

        `queued` is the message that it queues; `is_conditional` says that nothing may come between
        the log's end of now and the event.
        """
        self.queued, self.is_conditional = queued, is_conditional
        self.index = 0
        """Of the event in its message."""
        self.generation = 0
        """0: it is not stored."""
        self._failure: Exception | None = None
        self._waiting: list[asyncio.Future[int]] = []

    async def stored(self) -> int:
        """Return the event's generation when it is stored.

        Raises:
            RunOver: it will never be, or nobody knows.
            Overtaken: another message came first.
        """
        if self._failure is not None:
            raise self._failure
        if not self.generation:
            waiting: asyncio.Future[int] = asyncio.get_running_loop().create_future()
            self._waiting.append(waiting)
            await waiting
        return self.generation

    def settle(self, generation: int) -> None:
        """Say that the event is stored as `generation`."""
        self.generation = generation
        if self.queued is not None:
            self.queued.generation = generation
        waiting, self._waiting = self._waiting, []
        for each in waiting:
            if not each.done():
                each.set_result(generation)

    def fail(self, failure: Exception) -> None:
        """Say why the event is not stored."""
        self._failure = failure
        waiting, self._waiting = self._waiting, []
        for each in waiting:
            if not each.done():
                each.set_exception(failure)
                each.exception()  # asked for, so that nobody waiting is no complaint


BATCH = 512
"""Events in one message at most: readers take a message as a whole."""


class PendingMessage:
    """A message in the making."""

    __slots__ = ("checkpoint", "drafts", "receipts", "size", "state")

    def __init__(self) -> None:
        """Begin empty."""
        self.drafts: list[Draft] = []
        self.receipts: list[Receipt] = []
        """For those of the events that somebody waits for."""
        self.size = 0
        self.state = WORKING
        """The task's state after it, unless it is the run's last."""
        self.checkpoint: str | None = None
        """What goes with the events: JSON that the agent finds in its next attempt."""

    def stored(self, first: int) -> None:
        """Be told that the events are stored, from generation `first` on."""
        for receipt in self.receipts:
            receipt.settle(first + receipt.index)

    def lost(self) -> None:
        """Be told that the events are not stored, or not for certain."""
        for receipt in self.receipts:
            receipt.fail(RunOver("the run is over"))

    def drop(self, receipt: Receipt) -> Draft:
        """Take the event of `receipt` out, and return it."""
        self.receipts.remove(receipt)
        for other in self.receipts:
            other.index -= other.index > receipt.index
        return self.drafts.pop(receipt.index)


_log = logging.getLogger(__name__)

_TIMEOUT = 20.0

_PAUSE = 0.5

_GENERATION_ROOM = 21
"""Bytes of a line beside its draft: a generation, and the line's end."""

_LOOK = 2.0
"""Seconds that a look at the log may take; if it fails, the next one comes."""

type Made = tuple[list[Draft], Stamp]


class GivesWay(Exception):
    """A message waits, so that the run does not end as its holder was about to say."""


class Appender:
    """Appends what one attempt says, in order, one message in flight at a time."""

    def __init__(
        self,
        writer: LogWriter,
        authorship: Authorship,
        lost: Callable[[Exception], None],
        overtaken: Callable[[list[Queued], list[Queued]], None],
        *,
        max_events: int,
        max_bytes: int,
    ) -> None:
        """Append with `writer`; `lost` is called once if nothing can be appended any more.

        `overtaken` is called with the messages that somebody else has queued, and those offered
        here that therefore are not: they were to come right behind what was the tail.
        """
        self._writer, self._authorship, self._lost = writer, authorship, lost
        self._overtaken = overtaken
        self._max_events, self._max_bytes = max_events, max_bytes
        self._capacity = writer.capacity
        self._batches: deque[PendingMessage] = deque()
        self._last = PendingMessage()
        self._in_flight: PendingMessage | None = None
        self._events = self._bytes = 0
        self.offered = writer.generation
        """Generation that the last event taken has, unless messages are queued before it."""
        self._awake = self._closed = self._is_to_look = False
        self._loss: Exception | None = None
        self._sender: asyncio.Task[None] | None = None
        self._room = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self.spoke = self._loop.time()
        """When the last append ended, loop time in seconds."""

    @property
    def sequence(self) -> int:
        """Stream sequence of this attempt's last entry."""
        return self._writer.sequence

    @property
    def appending(self) -> bool:
        """Whether an append is in flight."""
        return self._sender is not None

    def offer(self, draft: Draft) -> bool:
        """Take an event; False: the agent is far ahead and must await `room` before the next.

        Raises:
            MalformedOutput: it does not fit a message.
            RunOver: nothing is taken any more.
        """
        if self._closed:
            raise RunOver("the run is over")
        self._put(draft)
        if not self._awake:
            self._wake()
        return self._events < self._max_events and self._bytes < self._max_bytes

    def post(
        self,
        draft: Draft,
        *,
        checkpoint: str | None = None,
        state: str = WORKING,
        receipt: Receipt | None = None,
    ) -> Receipt:
        """Take an event and return its receipt: the one given, or a new one.

        A `checkpoint`, or another `state` than WORKING, ends the message behind it.

        Raises:
            MalformedOutput, RunOver: as `offer`.
        """
        self.check(draft)
        self.offer(draft)
        receipt = receipt or Receipt()
        receipt.index = len(self._last.drafts) - 1
        self._last.receipts.append(receipt)
        if checkpoint is not None or state != WORKING:
            self._last.checkpoint, self._last.state = checkpoint, state
            self._break()
        return receipt

    async def deliver(
        self, draft: Draft, *, checkpoint: str | None = None, state: str = WORKING
    ) -> int:
        """As `post`, and return the event's generation when it is stored."""
        return await self.post(draft, checkpoint=checkpoint, state=state).stored()

    def look(self) -> None:
        """See what others have appended behind this attempt's last entry."""
        self._is_to_look = True
        self._wake()

    def check(self, draft: Draft) -> None:
        """Check that an event fits a message.

        Raises:
            MalformedOutput: it does not.
        """
        if (size := draft.size + 1) > self._capacity:
            raise MalformedOutput(f"an event of {size} bytes exceeds the limit of {self._capacity}")

    async def room(self) -> None:
        """Return when the log has caught up with the agent."""
        while not self._closed and (
            self._events >= self._max_events or self._bytes >= self._max_bytes
        ):
            self._room.clear()
            await self._room.wait()

    async def close(
        self, last: Sequence[Draft], state: str, *, gives_way: Callable[[], bool] = lambda: False
    ) -> None:
        """Append what is pending and `last`, after which the task is in `state`; take no more.

        Raises:
            GivesWay: `gives_way` has become true; of `last`, what is not stored is forgotten.
            Fenced, LogLost: the hold on the log is gone; nothing more was appended.
            MalformedOutput: one of `last` does not fit a message; nothing of them was appended.
        """
        for draft in last:
            self._put(draft)
        self._closed = True
        while self._sender is not None:
            await asyncio.wait([self._sender])
        if self._loss is not None:
            raise self._loss
        try:
            while self._events:
                batch = self._take()
                await self._append(batch, batch.state if self._events else state, gives_way)
        except GivesWay:
            self._forget_last(len(last))
            raise

    async def go_on(self, following: Callable[[], Draft]) -> int:
        """Append the next run's input behind all that was closed; return the run.

        The input is made again if more messages have been queued meanwhile.

        Raises:
            Fenced, LogLost: as `close`.
        """

        def made() -> Made:
            run = self._writer.generation + 1
            stamp = replace(self._authorship, run=run, attempt=0).stamp(run, SUBMITTED)
            return [following()], stamp

        return await self._store(made)

    async def append_last(self, last: Draft, timeout: float) -> None:
        """Drop what is pending and append `last`, if the log takes it in `timeout` seconds."""
        try:
            async with asyncio.timeout(timeout):
                self._shut()
                if self._sender is not None:
                    await asyncio.wait([self._sender])
                if self._loss is None:
                    await self._store(lambda: ([last], self._stamp()))
        except TimeoutError as trouble:
            _log.info("could not append the hand-over: %s", trouble)
        finally:
            self.mute()

    def mute(self) -> None:
        """Take no more, append no more: the log is somebody else's."""
        self._shut()
        if self._sender is not None:
            self._sender.cancel()

    def _put(self, draft: Draft) -> None:
        batch = self._last
        size = len(draft.head) + len(draft.tail) + _GENERATION_ROOM
        if batch.size + size > self._capacity or len(batch.drafts) == BATCH:
            self.check(draft)
            self._break()
            batch = self._last
        batch.drafts.append(draft)
        batch.size += size
        self._events += 1
        self.offered += 1
        self._bytes += size

    def _wake(self) -> None:
        if not self._awake:
            self._awake = True
            self._loop.call_soon(self._send_soon)

    def _break(self) -> None:
        """Let what comes next begin another message."""
        self._batches.append(self._last)
        self._last = PendingMessage()

    def _take(self) -> PendingMessage:
        """Return the events of the next message."""
        if self._batches:
            batch = self._batches.popleft()
        else:
            batch, self._last = self._last, PendingMessage()
        self._events -= len(batch.drafts)
        self._bytes -= batch.size
        return batch

    def _put_back(self, batch: PendingMessage) -> None:
        self._batches.appendleft(batch)
        self._events += len(batch.drafts)
        self._bytes += batch.size

    def _forget_last(self, count: int) -> None:
        """Forget the last `count` events that were put, or as many of them as are left."""
        for batch in [self._last, *reversed(self._batches)]:
            while count and batch.drafts:
                self._uncount(batch, batch.drafts.pop())
                count -= 1

    def _uncount(self, batch: PendingMessage, draft: Draft) -> None:
        size = len(draft.head) + len(draft.tail) + _GENERATION_ROOM
        batch.size -= size
        self.offered -= 1
        if batch is not self._in_flight:
            self._events -= 1
            self._bytes -= size

    def _shut(self) -> None:
        self._closed = True
        for batch in (*self._batches, self._last):
            batch.lost()
        self._batches.clear()
        self._last = PendingMessage()
        self._events = self._bytes = 0
        self._room.set()

    def _send_soon(self) -> None:
        if (self._events or self._is_to_look) and not self._closed:
            # Started at once: a round of the loop later is a later first token.
            sender = asyncio.Task(self._send(), loop=self._loop, eager_start=True)
            self._sender = None if sender.done() else sender
        else:
            self._awake = False

    async def _send(self) -> None:
        try:
            while (self._events or self._is_to_look) and not self._closed:
                if self._is_to_look:
                    await self._catch_up()
                if self._events and not self._closed:
                    batch = self._take()
                    self._room.set()
                    await self._append(batch, batch.state)
        except Exception as loss:  # noqa: BLE001  # whatever it is, the run must hear of it
            if not isinstance(loss, Fenced | LogLost):
                _log.exception("an append failed unexpectedly")
            self._shut()
            self._loss = loss
            self._lost(loss)
        finally:
            self._sender = None
            self._awake = False

    async def _append(
        self, batch: PendingMessage, state: str, gives_way: Callable[[], bool] = lambda: False
    ) -> None:
        """Append until it is stored, however long NATS is away: the same bytes each time."""
        self._in_flight = batch
        try:
            first = await self._store(partial(self._made, batch, state, gives_way))
        except GivesWay:
            self._put_back(batch)
            raise
        except BaseException:
            batch.lost()
            raise
        else:
            batch.stored(first)
        finally:
            self._in_flight = None

    def _made(self, batch: PendingMessage, state: str, gives_way: Callable[[], bool]) -> Made:
        if gives_way():
            raise GivesWay
        return batch.drafts, self._stamp(state, batch.checkpoint)

    def _stamp(self, state: str = WORKING, checkpoint: str | None = None) -> Stamp:
        return self._authorship.stamp(self._writer.generation + 1, state, checkpoint)

    async def _store(self, made: Callable[[], Made]) -> int:
        """Append what is `made` and return its first generation; nothing may be left of it.

        It is made again, and only then, when messages were queued before it.
        """
        drafts, stamp = made()
        while drafts:
            try:
                await self._writer.append(drafts, stamp, _TIMEOUT)
            except BusUnavailable as trouble:
                _log.warning("%d events are waiting to be stored: %s", len(drafts), trouble)
                await asyncio.sleep(_PAUSE)
            except FencedBy as fence:
                if not self._steps_behind(fence.entry):
                    raise
                drafts, stamp = made()
            else:
                self.spoke = self._loop.time()
                break
        return stamp.generation

    async def _catch_up(self) -> None:
        """Go behind the messages that others have queued.

        Raises:
            Fenced, LogLost: the log is somebody else's.
        """
        self._is_to_look = False
        try:
            while (entry := await self._writer.next_entry(_LOOK)) is not None:
                if not self._steps_behind(entry):
                    raise FencedBy(entry)
        except BusUnavailable as trouble:
            _log.info("looking for messages: %s", trouble)

    def _steps_behind(self, entry: Entry) -> bool:
        """Go on behind `entry` if it only queues messages; False: it is a fence."""
        events = enumerate(entry.parsed(), entry.generation)
        queued = [Queued.read(event, generation) for generation, event in events]
        found = [each for each in queued if each is not None]
        if not self._authorship.holds_after(entry) or len(found) < len(queued):
            return False
        self._writer.go_behind(entry)
        self.offered += len(found)
        named = {each.name: each.generation for each in found if each.name}
        refused = self._drop_overtaken(named, entry.last_generation)
        self._overtaken(found, refused)
        return True

    def _drop_overtaken(self, named: dict[str, int], generation: int) -> list[Queued]:
        """Drop pending messages that are in the log by now, or must not come behind `generation`.

        Returns the latter.
        """
        refused: list[Queued] = []
        flying = () if self._in_flight is None else (self._in_flight,)
        for batch in (*flying, *self._batches, self._last):
            for receipt in [each for each in batch.receipts if each.queued is not None]:
                if (there := named.get(receipt.queued.name)) is not None:
                    receipt.settle(there)
                elif receipt.is_conditional:
                    receipt.fail(Overtaken(generation))
                    refused.append(receipt.queued)
                else:
                    continue
                self._uncount(batch, batch.drop(receipt))
        return refused
