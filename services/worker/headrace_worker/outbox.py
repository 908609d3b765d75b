"""Between an agent and its log: what is said while an append is in flight goes into the next one.

So an idle log gets each event at once, a busy one gets them in batches, and an agent that is too
far ahead waits.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import replace

from headrace.entry import Stamp
from headrace.errors import BusUnavailable, Fenced, LogLost
from headrace.events import Draft
from headrace.log import LogWriter
from headrace.task import SUBMITTED, WORKING
from headrace_worker.authorship import Authorship
from headrace_worker.batch import BATCH, Batch
from headrace_worker.errors import LegOver, MalformedOutput
from headrace_worker.receipts import Receipts

_log = logging.getLogger(__name__)

_PATIENCE = 20.0
_PAUSE = 0.5
_GENERATION_ROOM = 21
"""Bytes of a line beside its draft: a generation, and the line's end."""


class Outbox:
    """Appends what one attempt says, in order, one message in flight at a time."""

    def __init__(
        self,
        writer: LogWriter,
        authorship: Authorship,
        lost: Callable[[Exception], None],
        *,
        max_events: int,
        max_bytes: int,
    ) -> None:
        """Append with `writer`; `lost` is called once if nothing can be appended any more."""
        self._writer, self._authorship, self._lost = writer, authorship, lost
        self._max_events, self._max_bytes = max_events, max_bytes
        self._capacity = writer.capacity
        self._batches: deque[Batch] = deque()
        self._last = Batch()
        self._events = self._bytes = 0
        self.offered = writer.generation  # of the last event that was taken
        self.receipts = Receipts(writer.generation)
        self._awake = self._closed = False
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
            LegOver: nothing is taken any more.
        """
        if self._closed:
            raise LegOver("the leg is over")
        self._put(draft)
        if not self._awake:
            self._awake = True
            self._loop.call_soon(self._send_soon)
        return self._events < self._max_events and self._bytes < self._max_bytes

    def post(self, draft: Draft, *, checkpoint: str | None = None, state: str = WORKING) -> int:
        """Take an event and return the generation that it will have.

        A `checkpoint`, or another `state` than WORKING, ends the message behind it.

        Raises:
            MalformedOutput, LegOver: as `offer`.
        """
        self.check(draft)
        self.offer(draft)
        if checkpoint is not None or state != WORKING:
            self._last.checkpoint, self._last.state = checkpoint, state
            self._break()
        return self.offered

    async def deliver(
        self, draft: Draft, *, checkpoint: str | None = None, state: str = WORKING
    ) -> int:
        """As `post`, and return when the event is stored."""
        generation = self.post(draft, checkpoint=checkpoint, state=state)
        await self.receipts.of(generation)
        return generation

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

    async def close(self, last: Iterable[Draft], state: str) -> None:
        """Append what is pending and `last`, after which the task is in `state`; take no more.

        Raises:
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
        while self._events:
            batch = self._take()
            await self._append(batch, batch.state if self._events else state)

    async def go_on(self, following: Draft) -> int:
        """Append the next leg's input behind all that was closed; return the leg.

        Raises:
            Fenced, LogLost: as `close`.
        """
        leg = self._writer.generation + 1
        stamp = replace(self._authorship, leg=leg, attempt=0).stamp(leg, SUBMITTED)
        await self._store([following], stamp)
        return leg

    async def bid_farewell(self, last: Draft, patience: float) -> None:
        """Drop what is pending and append `last`, if the log takes it in `patience` seconds."""
        try:
            async with asyncio.timeout(patience):
                self._shut()
                if self._sender is not None:
                    await asyncio.wait([self._sender])
                if self._loss is None:
                    stamp = self._authorship.stamp(self._writer.generation + 1)
                    await self._writer.append([last], stamp, patience)
        except (TimeoutError, BusUnavailable) as trouble:
            _log.info("left a log without a word: %s", trouble)
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

    def _break(self) -> None:
        """Let what comes next begin another message."""
        self._batches.append(self._last)
        self._last = Batch()

    def _take(self) -> Batch:
        """Return the events of the next message."""
        if self._batches:
            batch = self._batches.popleft()
        else:
            batch, self._last = self._last, Batch()
        self._events -= len(batch.drafts)
        self._bytes -= batch.size
        return batch

    def _shut(self) -> None:
        self._closed = True
        self._batches.clear()
        self._last = Batch()
        self._events = self._bytes = 0
        self._room.set()
        self.receipts.lost()

    def _send_soon(self) -> None:
        if self._events and not self._closed:
            # Started at once: a round of the loop later is a later first token.
            sender = asyncio.Task(self._send(), loop=self._loop, eager_start=True)
            self._sender = None if sender.done() else sender
        else:
            self._awake = False

    async def _send(self) -> None:
        try:
            while self._events and not self._closed:
                batch = self._take()
                self._room.set()
                await self._append(batch, batch.state)
        except Exception as loss:  # noqa: BLE001  # whatever it is, the leg must hear of it
            if not isinstance(loss, Fenced | LogLost):
                _log.exception("an append failed in an unknown way")
            self._shut()
            self._loss = loss
            self._lost(loss)
        finally:
            self._sender = None
            self._awake = False

    async def _append(self, batch: Batch, state: str) -> None:
        """Append until it is stored, however long NATS is away: the same bytes each time."""
        first = self._writer.generation + 1
        await self._store(batch.drafts, self._authorship.stamp(first, state, batch.checkpoint))

    async def _store(self, drafts: list[Draft], stamp: Stamp) -> None:
        while True:
            try:
                await self._writer.append(drafts, stamp, _PATIENCE)
            except BusUnavailable as trouble:
                _log.warning("keeping %d events until the log takes them: %s", len(drafts), trouble)
                await asyncio.sleep(_PAUSE)
            else:
                self.spoke = self._loop.time()
                self.receipts.stored(self._writer.generation)
                return
