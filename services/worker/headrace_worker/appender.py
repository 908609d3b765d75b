"""Appender between an agent and its log, with one append in flight at a time.

Events offered during an append go into the next one. An idle log therefore gets each event at once,
a busy log gets batches, and an agent that is too far ahead waits. Where many runs append, text that
continues a block waits for the worker's next tick; everything else is appended at once, with the
text before it.

A gateway may append a queued message although a worker holds the run. The holder keeps the run: its
pending events get the generations after that message. The holder's refused append can never be
stored, because it expected another tail, so the next append may contain other bytes.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from functools import partial
from typing import Any

from headrace.log import AppendRequest, FencedBy, LogWriter
from headrace.model.entry import RUN_OVER, Entry, Stamp
from headrace.model.errors import BusUnavailable, Fenced, LogLost
from headrace.model.events import Draft
from headrace.model.queued_message import QueuedMessage
from headrace.model.task import SUBMITTED, WORKING, TaskKey
from headrace.sdk.errors import Overtaken, RunOver
from headrace_worker.append_ticks import AppendTicks
from headrace_worker.pending_messages import PendingMessage, PendingMessages, Receipt

_log = logging.getLogger(__name__)

_TIMEOUT = 20.0

_PAUSE = 0.5

PRESSING = 8
"""Pending events that don't wait for a tick: the agent is faster than ticks are."""

_LOOK = 2.0
"""Timeout in seconds for reading new entries; a failed read is followed by the next one."""

type EntryContent = tuple[list[Draft], Stamp]
"""What one append is to store."""


class IllegalMove(Exception):
    """A defect: the state does not lead there."""


class AppenderState(Enum):
    """What an appender does."""

    IDLE = "has nothing to append"
    WAITING_TICK = "has text that waits for the worker's next tick"
    DUE = "appends in the loop's next turn"
    SENDING = "has an append in flight"
    CATCHING_UP = "finishes an append that was not acknowledged, or reads what others have appended"
    CLOSED = "accepts nothing more, and appends what was accepted"
    ABORTED = "appends nothing more"

    def __init__(self, doing: str) -> None:
        """Have no moves yet; they are of states that are defined later."""
        self.doing = doing
        self.is_closed = False
        self.leads_to: tuple[AppenderState, ...] = ()

    def to(self, state: "AppenderState") -> "AppenderState":
        """Return `state`, to which this one leads.

        Raises:
            IllegalMove: it does not lead there.
        """
        if state not in self.leads_to:
            raise IllegalMove(f"an appender that {self.doing}: not to {state.name}")
        return state


def _define_moves() -> None:
    idle, tick, due, sending, catching_up, *closed = AppenderState
    busy = idle, sending, catching_up, *closed
    idle.leads_to = tick, due, *closed
    tick.leads_to = due, *busy
    due.leads_to = busy
    sending.leads_to = catching_up.leads_to = tick, *busy
    AppenderState.CLOSED.leads_to = tuple(closed)
    AppenderState.ABORTED.leads_to = (AppenderState.ABORTED,)
    for state in closed:
        state.is_closed = True


_define_moves()


@dataclass(frozen=True, slots=True)
class StampBase:
    """The parts that all stamps of one attempt have in common."""

    log: str
    writer: str
    run: int
    attempt: int
    owner: str | None = None
    """Owner of the task, repeated in entries that end a run because views are built from these."""

    def holds_after(self, entry: Entry) -> bool:
        """Return whether the attempt still holds its task after another writer's `entry`.

        A writer that takes over a task starts another attempt or run, or ends this one. A gateway
        that queues a message repeats the stamp of the tail.
        """
        stamp = entry.stamp
        same = (stamp.log, stamp.run, stamp.attempt) == (self.log, self.run, self.attempt)
        return same and not entry.ends_run

    def stamp(
        self,
        generation: int,
        state: str = WORKING,
        checkpoint: str | None = None,
        step: str | None = None,
    ) -> Stamp:
        """Return the stamp of an entry that starts at `generation`."""
        return Stamp(
            self.log,
            generation,
            self.writer,
            state,
            self.run,
            self.attempt,
            self.owner if state in RUN_OVER else None,
            checkpoint,
            step,
        )


class GivesWay(Exception):
    """A queued message waits, so the run does not end as its holder intended."""


class Appender:
    """Appender of one attempt's events, in order, one message in flight at a time."""

    def __init__(  # noqa: PLR0913  # two of them are limits
        self,
        writer: LogWriter,
        authorship: StampBase,
        lost: Callable[[Exception], None],
        overtaken: Callable[[list[QueuedMessage], list[QueuedMessage]], None],
        *,
        ticks: AppendTicks,
        max_events: int,
        max_bytes: int,
        pause: float = _PAUSE,
    ) -> None:
        """Append with `writer`.

        Args:
            writer: Writer of the task's log.
            authorship: What all stamps of the attempt have in common.
            lost: Called once, when nothing more can be appended.
            overtaken: Called with the messages that other writers queued, and with the conditional
                messages offered here that are refused because of them.
            ticks: The worker's ticks, for text that may wait.
            max_events: Pending events from which the agent must wait.
            max_bytes: Pending bytes from which the agent must wait.
            pause: Seconds between tries to append while NATS is unavailable.
        """
        self._writer, self.authorship, self._lost = writer, authorship, lost
        self._overtaken, self._ticks = overtaken, ticks
        self._pause = pause
        self._pending = PendingMessages(writer.capacity, max_events, max_bytes)
        self._in_flight: PendingMessage | None = None
        self.offered = writer.generation
        """Generation of the last event accepted, unless messages are queued before it."""
        self._state = AppenderState.IDLE
        self._is_to_look = False
        self._loss: Exception | None = None
        self._sender: asyncio.Future[Any] | None = None
        """Done when the append in flight is over, or when nothing has to be caught up on."""
        self._loop = asyncio.get_running_loop()
        self.began = self.last_append = self._loop.time()
        """When it began, and when the last append ended; loop time in seconds."""
        self.first_append: float | None = None
        """When the first append ended; None until then."""

    @property
    def key(self) -> TaskKey:
        """The task whose log it writes."""
        return self._writer.key

    @property
    def sequence(self) -> int:
        """Stream sequence of this attempt's last entry."""
        return self._writer.sequence

    @property
    def appending(self) -> bool:
        """Whether an append is in flight."""
        return self._sender is not None

    def offer(self, draft: Draft) -> bool:
        """Accept an event; if False, the agent must await `drain` before the next.

        Raises:
            MalformedOutput: the event does not fit into a message.
            RunOver: the appender is closed.
        """
        self._accept(draft)
        self._send_at_once()
        return self._pending.has_room

    def offer_text(self, draft: Draft) -> bool:
        """Accept an event as `offer` does; it may wait for the worker's next tick.

        Raises:
            MalformedOutput, RunOver: as for `offer`.
        """
        self._accept(draft)
        pending = self._pending
        if pending.events >= PRESSING or not pending.has_room:
            self._send_at_once()
        elif self._state is AppenderState.IDLE:
            if self._ticks.join(self._on_tick):
                self._state = self._state.to(AppenderState.WAITING_TICK)
            else:
                self._send_at_once()
        return pending.has_room

    def post(
        self,
        draft: Draft,
        *,
        checkpoint: str | None = None,
        step: str | None = None,
        state: str = WORKING,
        receipt: Receipt | None = None,
    ) -> Receipt:
        """Accept an event and return its receipt: the one given, or a new one.

        A `checkpoint`, a `step`, or a `state` other than WORKING, makes the event the last of its
        message.

        Raises:
            MalformedOutput, RunOver: as for `offer`.
        """
        self._pending.check(draft)
        self.offer(draft)
        receipt = receipt or Receipt()
        self._pending.attach(receipt, checkpoint, step, state)
        return receipt

    async def deliver(
        self,
        draft: Draft,
        *,
        checkpoint: str | None = None,
        step: str | None = None,
        state: str = WORKING,
    ) -> int:
        """Accept an event as `post` does, wait until it is stored and return its generation."""
        return await self.post(draft, checkpoint=checkpoint, step=step, state=state).stored()

    def look(self) -> None:
        """Read what other writers have appended after this attempt's last entry."""
        self._is_to_look = True
        self._send_at_once()

    def check(self, draft: Draft) -> None:
        """Check that an event fits into a message.

        Raises:
            MalformedOutput: the event is too large.
        """
        self._pending.check(draft)

    async def drain(self) -> None:
        """Wait until the log has caught up with the agent."""
        while not self._state.is_closed and not self._pending.has_room:
            await self._pending.changed()

    async def close(
        self, last: Sequence[Draft], state: str, *, gives_way: Callable[[], bool] = lambda: False
    ) -> None:
        """Append pending events and `last`, which leave the task in `state`; accept no more.

        Raises:
            GivesWay: `gives_way` returned True; events of `last` not stored yet are dropped.
            Fenced, LogLost: the attempt no longer holds the log; nothing more was appended.
            MalformedOutput: one of `last` does not fit into a message; none of them was appended.
        """
        for draft in last:
            self._pending.put(draft)
            self.offered += 1
        if not self._state.is_closed:
            self._state = self._state.to(AppenderState.CLOSED)
        await self._until_sent()
        if self._loss is not None:
            raise self._loss
        try:
            while self._pending.events:
                message = self._pending.pop()
                is_last = not self._pending.events
                await self._append(message, state if is_last else message.state, gives_way)
        except GivesWay:
            self.offered -= self._pending.drop_last(len(last))
            raise

    async def begin_next_run(self, following: Callable[[], Draft]) -> int:
        """Append the next run's input after `close`, and return that run.

        `following` is called again if more messages are queued in the meantime.

        Raises:
            Fenced, LogLost: as for `close`.
        """

        def make() -> EntryContent:
            run = self._writer.generation + 1
            stamp = replace(self.authorship, run=run, attempt=0).stamp(run, SUBMITTED)
            return [following()], stamp

        return await self._store(make)

    async def append_closed(
        self, draft: Draft, state: str = WORKING, *, gives_way: Callable[[], bool] = lambda: False
    ) -> None:
        """Append an event after `close`, which leaves the task in `state`.

        Raises:
            GivesWay: `gives_way` returned True; nothing was appended.
            Fenced, LogLost: as for `close`.
        """

        def make() -> EntryContent:
            if gives_way():
                raise GivesWay
            return [draft], self._stamp(state=state)

        await self._store(make)

    async def append_last(self, last: Draft, timeout: float) -> None:
        """Drop pending events and append `last`, if that takes at most `timeout` seconds."""
        try:
            async with asyncio.timeout(timeout):
                self._shut(AppenderState.CLOSED)
                await self._until_sent()
                if self._loss is None:
                    await self._store(lambda: ([last], self._stamp()))
        except TimeoutError as error:
            _log.info("could not record that the run is handed back: %s", error)
        finally:
            self.abort()

    def abort(self) -> None:
        """Stop accepting and appending: another writer has taken over the log."""
        self._shut(AppenderState.ABORTED)
        if self._sender is not None:
            self._sender.cancel()

    async def _until_sent(self) -> None:
        """Wait until no append is in flight; the appender is closed, so none follows it."""
        while self._sender is not None:
            await asyncio.wait([self._sender])

    def _accept(self, draft: Draft) -> None:
        if self._state.is_closed:
            raise RunOver("the run is over")
        self._pending.put(draft)
        self.offered += 1

    def _shut(self, state: AppenderState) -> None:
        if self._state is not AppenderState.ABORTED:
            self._state = self._state.to(state)
        self._pending.lose()

    def _send_at_once(self) -> None:
        """Send in the loop's next turn, or after the append in flight."""
        self._pending.is_pressing = True
        if self._state is AppenderState.IDLE or self._state is AppenderState.WAITING_TICK:
            self._state = self._state.to(AppenderState.DUE)
            self._loop.call_soon(self._proceed)

    def _on_tick(self) -> None:
        if self._state is AppenderState.WAITING_TICK:
            self._pending.is_pressing = True
            self._proceed()

    def _proceed(self) -> None:
        """Do what comes next: nothing is in flight."""
        if self._state.is_closed:
            return
        if self._is_to_look:
            self._catch_up()
        elif not self._pending.events:
            self._state = self._state.to(AppenderState.IDLE)
        elif self._pending.is_pressing or not self._ticks.join(self._on_tick):
            self._send_next()
        else:
            self._state = self._state.to(AppenderState.WAITING_TICK)

    def _send_next(self) -> None:
        """Send the next message. `_on_answer` ends its append, so that text needs no task."""
        self._state = self._state.to(AppenderState.SENDING)
        message = self._pending.pop()
        try:
            sent = self._writer.send(message.drafts, self._stamp(message, message.state))
        except Exception as loss:  # noqa: BLE001  # the run must learn of any failure
            message.lost()
            self._give_up(loss)
            return
        self._in_flight, self._sender = message, sent.answer
        sent.answer.add_done_callback(partial(self._on_answer, message, sent))

    def _on_answer(
        self, message: PendingMessage, sent: AppendRequest, answer: asyncio.Future[Any]
    ) -> None:
        self._in_flight = self._sender = None
        try:
            if not answer.cancelled() and self._writer.acked(sent) is not None:
                self._note_append()
                message.stored(sent.stamp.generation)
                self._proceed()
            elif answer.cancelled() or self._state is AppenderState.ABORTED:
                self._writer.give_up(sent)
                message.lost()
            else:
                self._catch_up(message, sent)
        except Exception as loss:  # noqa: BLE001  # as above; and a callback's error ends nothing
            message.lost()
            self._give_up(loss)

    def _catch_up(
        self, message: PendingMessage | None = None, sent: AppendRequest | None = None
    ) -> None:
        """Do in a task what may take several requests, first end the append of `message`."""
        if not self._state.is_closed:
            self._state = self._state.to(AppenderState.CATCHING_UP)
        # Eager start: waiting for the next loop iteration would delay the first token.
        work = self._caught_up(message, sent)
        sender = asyncio.Task(work, loop=self._loop, eager_start=True)
        if not sender.done():
            self._sender = sender

    async def _caught_up(self, message: PendingMessage | None, sent: AppendRequest | None) -> None:
        try:
            if message is not None:
                await self._append(message, message.state, sent=sent)
            while self._is_to_look and not self._state.is_closed:
                await self._look()
        except Exception as loss:  # noqa: BLE001  # the run must learn of any failure
            self._give_up(loss)
        finally:
            self._sender = None
            self._proceed()

    def _give_up(self, loss: Exception) -> None:
        if not isinstance(loss, Fenced | LogLost):
            _log.error("an append failed unexpectedly", exc_info=loss)
        self._shut(AppenderState.CLOSED)
        self._loss = loss
        self._lost(loss)

    async def _append(
        self,
        message: PendingMessage,
        state: str,
        gives_way: Callable[[], bool] = lambda: False,
        sent: AppendRequest | None = None,
    ) -> None:
        """Append the same bytes until they are stored, however long NATS is unavailable.

        `sent` is set if they have been sent already, and the answer is no clean ack.
        """
        self._in_flight = message
        try:
            first = await self._store(partial(self._content, message, state, gives_way), sent)
        except GivesWay:
            self._pending.put_back(message)
            raise
        except BaseException:
            message.lost()
            raise
        else:
            message.stored(first)
        finally:
            self._in_flight = None

    def _content(
        self, message: PendingMessage, state: str, gives_way: Callable[[], bool]
    ) -> EntryContent:
        if gives_way():
            raise GivesWay
        return message.drafts, self._stamp(message, state)

    def _stamp(self, message: PendingMessage | None = None, state: str = WORKING) -> Stamp:
        checkpoint = step = None
        if message is not None:
            checkpoint, step = message.checkpoint, message.step
        return self.authorship.stamp(self._writer.generation + 1, state, checkpoint, step)

    async def _store(
        self, make: Callable[[], EntryContent], sent: AppendRequest | None = None
    ) -> int:
        """Append what `make` returns, if it has events, and return its first generation.

        `make` is called again only if other messages were queued first. Set `sent` if what it
        returns has been sent.
        """
        drafts, stamp = make()
        while drafts:
            sending, sent = sent, None
            try:
                if sending is None:
                    sending = self._writer.send(drafts, stamp)
                await self._writer.finish(sending, _TIMEOUT)
            except BusUnavailable as error:
                _log.warning("%d events are waiting to be stored; retrying: %s", len(drafts), error)
                await asyncio.sleep(self._pause)
            except FencedBy as fence:
                if not self._steps_behind(fence.entry):
                    raise
                drafts, stamp = make()
            else:
                self._note_append()
                break
        return stamp.generation

    def _note_append(self) -> None:
        self.last_append = self._loop.time()
        if self.first_append is None:
            self.first_append = self.last_append

    async def _look(self) -> None:
        """Skip the messages that other writers have queued.

        Raises:
            Fenced, LogLost: another writer has taken over the log.
        """
        self._is_to_look = False
        try:
            while (entry := await self._writer.next_entry(_LOOK)) is not None:
                if not self._steps_behind(entry):
                    raise FencedBy(entry)
        except BusUnavailable as error:
            _log.info("could not check the log for messages: %s", error)

    def _steps_behind(self, entry: Entry) -> bool:
        """Continue after `entry` if it only queues messages; return False if it is a fence."""
        events = enumerate(entry.parsed(), entry.generation)
        queued = [QueuedMessage.read(event, generation) for generation, event in events]
        found = [each for each in queued if each is not None]
        if not self.authorship.holds_after(entry) or len(found) < len(queued):
            return False
        self._writer.continue_after(entry)
        self.offered += len(found)
        named = {each.name: each.generation for each in found if each.name}
        refused = self._drop_overtaken(named, entry.last_generation)
        self._overtaken(found, refused)
        return True

    def _drop_overtaken(self, named: dict[str, int], generation: int) -> list[QueuedMessage]:
        """Drop pending messages that are already in the log, or must not come after `generation`.

        Returns:
            The messages that must not come after `generation`.
        """
        refused: list[QueuedMessage] = []
        flying = () if self._in_flight is None else (self._in_flight,)
        for message in (*flying, *self._pending):
            for receipt in [each for each in message.receipts if each.queued is not None]:
                if (there := named.get(receipt.queued.name)) is not None:
                    receipt.settle(there)
                elif receipt.is_conditional:
                    receipt.fail(Overtaken(generation))
                    refused.append(receipt.queued)
                else:
                    continue
                size = message.drop(receipt)
                self.offered -= 1
                if message is not self._in_flight:
                    self._pending.uncount(size)
        return refused
