"""Appender between an agent and its log, with one append in flight at a time.

Events offered during an append go into the next one. An idle log therefore gets each event at once,
a busy log gets batches, and an agent that is too far ahead waits. Where many runs append, text that
continues a block waits for the worker's next tick; everything else is appended at once, with the
text before it.

A gateway may append a queued message, or what the run waits for, although a worker holds the run.
The holder keeps the run: its pending events get the generations after that entry. The holder's
refused append can never be stored, because it expected another tail, so the next append may contain
other bytes.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import partial
from typing import Any

from nats.aio.msg import Msg

from headrace.log import AlikeHeaders, AppendRequest, FencedBy, LogWriter
from headrace.model.entry import Entry, Stamp
from headrace.model.errors import BusUnavailable, EventTooLarge, Fenced, LogLost
from headrace.model.events import Draft, TextChunks
from headrace.model.queued_message import QueuedMessage
from headrace.model.step import StepRecord
from headrace.model.task import RUN_OVER, SUBMITTED, WORKING, TaskKey
from headrace.model.wait import source_of
from headrace.sdk.errors import MalformedOutput, Overtaken, RunOver
from headrace_worker.append_ticks import AppendTicks
from headrace_worker.pending_messages import PendingMessage, PendingMessages, Receipt

_log = logging.getLogger(__name__)

_TIMEOUT = 20.0

_PAUSE = 0.5

PRESSING = 8
"""Pending events that don't wait for a tick: the agent is faster than ticks are."""

_LOOK = 2.0
"""Timeout in seconds for reading new entries; a failed read is followed by the next one."""


class IllegalMove(Exception):
    """A defect: the state does not lead there."""


class AppenderState(Enum):
    """What an appender does."""

    IDLE = "has nothing to append"
    WAITING_TICK = "has text that waits for the worker's next tick"
    DUE = "appends in the loop's next turn"
    SENDING = "has an append in flight"
    CATCHING_UP = "finishes an append that was not acknowledged, or reads what others have appended"
    CLOSED = "appends nothing more"

    def __init__(self, doing: str) -> None:
        """Have no moves yet; they are of states that are defined later."""
        self.doing = doing
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
    idle, tick, due, sending, catching_up, closed = AppenderState
    busy = idle, sending, catching_up, closed
    idle.leads_to = tick, due, closed
    tick.leads_to = due, *busy
    due.leads_to = busy
    sending.leads_to = catching_up.leads_to = tick, *busy
    closed.leads_to = (closed,)


_define_moves()

_IDLE, _WAITING_TICK, _DUE, _SENDING, _CATCHING_UP, _CLOSED = AppenderState
"""The states, where each token looks at them."""


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
        """Return the stamp of an entry that starts at `generation`.

        An entry that leaves the task SUBMITTED is the next run's input, and no attempt's.
        """
        run, attempt = (generation, 0) if state == SUBMITTED else (self.run, self.attempt)
        return Stamp(
            self.log,
            generation,
            self.writer,
            state,
            run,
            attempt,
            self.owner if state in RUN_OVER else None,
            checkpoint,
            step,
        )


class GivesWay(Exception):
    """A queued message waits, so the log does not end as its holder intended."""


class Appender:
    """Appender of one attempt's events, in order, one message in flight at a time."""

    def __init__(  # noqa: PLR0913  # two of them are limits
        self,
        writer: LogWriter,
        authorship: StampBase,
        lost: Callable[[Exception], None],
        overtaken: Callable[[list[QueuedMessage], list[QueuedMessage]], None],
        arrived: Callable[[StepRecord], None],
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
            arrived: Called with what others have recorded for a wait of the run.
            ticks: The worker's ticks, for text that may wait.
            max_events: Pending events from which the agent must wait.
            max_bytes: Pending bytes from which the agent must wait.
            pause: Seconds between tries to append while NATS is unavailable.
        """
        self._writer, self.authorship, self._lost = writer, authorship, lost
        self._overtaken, self._arrived, self._ticks = overtaken, arrived, ticks
        self._pause = pause
        self._pending = PendingMessages(writer.capacity, max_events, max_bytes)
        self.offered = writer.generation
        """Generation of the last event accepted, unless messages are queued before it."""
        self._state = AppenderState.IDLE
        self._is_open = True
        """Whether it accepts what the agent emits."""
        self._end_state: str | None = None
        """The task's state after the last of what is pending; None: that message's own."""
        self._gives_way: Callable[[], bool] | None = None
        """Says before each append of `close` whether it must not be made."""
        self._is_to_look = False
        self._loss: Exception | None = None
        self._sender: asyncio.Future[Any] | None = None
        """Done when the append in flight is over, or when nothing has to be caught up on."""
        self._alike: AlikeHeaders | None = None
        """Headers of the messages that leave the run WORKING and have nothing attached."""
        self._alike_in_flight: PendingMessage | None = None
        """The message in flight, if it has such headers; then there is no `_sender`."""
        self._rested: asyncio.Future[None] | None = None
        """Done when nothing is in flight, and nothing follows. None: nobody waits for that."""
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
        return self._sender is not None or self._alike_in_flight is not None

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
        return self._send_text()

    def offer_piece(self, chunks: TextChunks, text: str) -> bool:
        """Accept an event as `offer_text` does: `text`, which `chunks` encodes when it is sent.

        `fits_line` is true of `text`.

        Raises:
            MalformedOutput, RunOver: as for `offer`.
        """
        if not self._is_open:
            raise RunOver("the run is over")
        self._pending.put_text(chunks, text)
        self.offered += 1
        return self._send_text()

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
            MalformedOutput: as for `offer`, or the checkpoint or step does not fit into a header.
            RunOver: as for `offer`.
        """
        if checkpoint is not None or step is not None:
            self._check_headers(state, checkpoint, step)
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
        if self._is_open:
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
        while self._is_open and not self._pending.has_room:
            await self._pending.changed()

    async def close(
        self,
        last: Sequence[Draft],
        state: str,
        *,
        gives_way: Callable[[], bool] | None = None,
    ) -> None:
        """Append pending events and `last`, which leave the task in `state`; accept no more.

        What else ends the log is appended by further calls: with the state SUBMITTED, the next
        run's input.

        Raises:
            GivesWay: `gives_way` returned True; events of `last` not stored yet are dropped.
            Fenced, LogLost: the attempt no longer holds the log; nothing more was appended.
            RunOver: another writer has taken over, and the attempt was told before.
            MalformedOutput: one of `last` does not fit into a message; none of them was appended.
        """
        for draft in last:
            self._pending.check(draft)
        self._is_open = self._is_to_look = False
        self._end_state, self._gives_way = state, gives_way
        for draft in last:
            self._pending.put(draft)
        self.offered += len(last)
        await self._until_rested()
        if self._pending.events:
            self.offered -= self._pending.drop_last(len(last))
            raise GivesWay

    async def append_last(
        self, last: Draft, timeout: float, *, gives_way: Callable[[], bool] | None = None
    ) -> None:
        """Drop pending events and append `last`, if that takes at most `timeout` seconds.

        Raises:
            GivesWay: `gives_way` returned True; `last` is not appended, and another one may be.
            Fenced, LogLost, RunOver: as for `close`.
        """
        has_given_way = False
        try:
            async with asyncio.timeout(timeout):
                self._pending.lose()
                await self.close([last], WORKING, gives_way=gives_way)
        except GivesWay:
            has_given_way = True
            raise
        except TimeoutError as error:
            _log.info("could not record that the run is handed back: %s", error)
        finally:
            if not has_given_way:
                self.abort()

    def abort(self) -> None:
        """Stop accepting and appending: another writer has taken over the log."""
        self._shut()
        if self._sender is not None:
            self._sender.cancel()
        if self._alike_in_flight is not None:
            self._loop.call_soon(self._on_alike, None)

    async def _until_rested(self) -> None:
        """Send what is pending, and wait until it is stored or must not be appended.

        Raises:
            Fenced, LogLost, RunOver: as for `close`.
        """
        if not self.appending and self._state is not AppenderState.CLOSED:
            self._pending.is_pressing = True
            if self._state is not AppenderState.DUE:
                self._state = self._state.to(AppenderState.DUE)
            self._proceed()
        if self.appending and self._state is not AppenderState.CLOSED:
            self._rested = self._loop.create_future()
            try:
                await self._rested
            except asyncio.CancelledError:
                self.abort()
                raise
        if self._state is AppenderState.CLOSED:
            raise self._loss or RunOver("another writer has taken over the log")

    def _accept(self, draft: Draft) -> None:
        if not self._is_open:
            raise RunOver("the run is over")
        self._pending.put(draft)
        self.offered += 1

    def _send_text(self) -> bool:
        """Send the accepted text when it is time; return whether there is room for more."""
        pending = self._pending
        has_room = pending.has_room
        if pending.events >= PRESSING or not has_room:
            self._send_at_once()
        elif self._state is _IDLE:
            if self._ticks.join(self._on_turn):
                self._state = _WAITING_TICK
            else:
                self._send_at_once()
        return has_room

    def _check_headers(self, state: str, checkpoint: str | None, step: str | None) -> None:
        try:
            self._writer.check(self._stamp(state, checkpoint, step))
        except EventTooLarge as error:
            what = "a checkpoint" if step is None else "a step's record"
            raise MalformedOutput(
                f"{what} takes {error.size} bytes of headers and exceeds the limit of"
                f" {error.limit}; store large data as a file"
            ) from error

    def _send_at_once(self) -> None:
        """Send in the loop's next turn, or after the append in flight."""
        self._pending.is_pressing = True
        if self._state is AppenderState.IDLE or self._state is AppenderState.WAITING_TICK:
            self._state = self._state.to(AppenderState.DUE)
            self._loop.call_soon(self._on_turn)

    def _on_turn(self) -> None:
        """Send at a tick, or in the loop's next turn, unless that has been done meanwhile."""
        if self._state is _WAITING_TICK or self._state is _DUE:
            self._pending.is_pressing = True
            self._proceed()

    def _proceed(self) -> None:
        """Do what comes next: nothing is in flight."""
        if self._state is _CLOSED:
            return
        if self._is_to_look:
            self._catch_up()
        elif not self._pending.events or (self._gives_way is not None and self._gives_way()):
            self._state = self._state.to(AppenderState.IDLE)
            self._end_wait()
        elif self._pending.is_pressing or not self._ticks.join(self._on_turn):
            self._send()
        else:
            self._state = self._state.to(AppenderState.WAITING_TICK)

    def _end_wait(self) -> None:
        if self._rested is not None and not self._rested.done():
            self._rested.set_result(None)

    def _send(self) -> None:
        """Send the next message. `_on_answer` ends its append, so that text needs no task."""
        self._state = self._state.to(_SENDING)
        message = self._pending.pop()
        # What is pending ends a run only if `close` says so.
        state = (None if self._pending.events else self._end_state) or message.state
        is_alike = state == WORKING and message.checkpoint is None and message.step is None
        try:
            if is_alike and self._alike is not None and self._send_alike(self._alike, message):
                return
            message.encode_texts()
            stamp = self._stamp(state, message.checkpoint, message.step)
            sent = self._writer.send(message.drafts, stamp)
            if is_alike and self._alike is None:
                self._alike = self._writer.alike(stamp)
        except Exception as loss:  # noqa: BLE001  # the run must learn of any failure
            message.lost()
            self._give_up(loss)
            return
        self._sender = sent.answer
        sent.answer.add_done_callback(partial(self._on_answer, message, sent))

    def _send_alike(self, alike: AlikeHeaders, message: PendingMessage) -> bool:
        """Send a message whose headers have been sent before; return whether that is possible."""
        payload = message.payload(self._writer.generation + 1)
        if not self._writer.send_alike(alike, payload, message.events, self._on_alike):
            return False
        self._alike_in_flight = message
        return True

    def _on_alike(self, answer: Msg | None) -> None:
        """End the append of `_send_alike`: nearly every answer is a clean ack. None: it is late."""
        message = self._alike_in_flight
        if message is None:
            return
        self._alike_in_flight = None
        try:
            generation = self._writer.generation + 1
            if answer is not None and self._writer.stored_alike(answer):
                self._note_stored(message, generation)
                self._proceed()
            else:
                sent = self._writer.sent_alike(answer)
                self._on_answer(message, sent, sent.answer)
        except Exception as loss:  # noqa: BLE001  # the run must learn of any failure
            message.lost()
            self._give_up(loss)

    def _stamp(self, state: str, checkpoint: str | None, step: str | None) -> Stamp:
        return self.authorship.stamp(self._writer.generation + 1, state, checkpoint, step)

    def _on_answer(
        self, message: PendingMessage, sent: AppendRequest, answer: asyncio.Future[Any]
    ) -> None:
        self._sender = None
        try:
            if not answer.cancelled() and self._writer.acked(sent) is not None:
                self._note_stored(message, sent.stamp.generation)
                self._proceed()
            elif self._state is AppenderState.CLOSED:
                self._writer.give_up(sent)
                message.lost()
            else:
                self._catch_up(message, sent)
        except Exception as loss:  # noqa: BLE001  # as above; and a callback's error ends nothing
            message.lost()
            self._give_up(loss)

    def _note_stored(self, message: PendingMessage, generation: int) -> None:
        self.last_append = self._loop.time()
        if self.first_append is None:
            self.first_append = self.last_append
        if message.receipts:
            message.stored(generation)

    def _catch_up(
        self, message: PendingMessage | None = None, sent: AppendRequest | None = None
    ) -> None:
        """Do in a task what may take several requests, first end the append of `message`."""
        self._state = self._state.to(AppenderState.CATCHING_UP)
        # Eager start: waiting for the next loop iteration would delay the first token.
        work = self._caught_up(message, sent)
        sender = asyncio.Task(work, loop=self._loop, eager_start=True)
        if not sender.done():
            self._sender = sender

    async def _caught_up(self, message: PendingMessage | None, sent: AppendRequest | None) -> None:
        try:
            if message is not None and sent is not None:
                await self._end_append(message, sent)
            while self._is_to_look:
                await self._look()
        except Exception as loss:  # noqa: BLE001  # the run must learn of any failure
            self._give_up(loss)
        finally:
            self._sender = None
            self._proceed()

    async def _end_append(self, message: PendingMessage, sent: AppendRequest) -> None:
        """Send the same bytes until they are stored, however long NATS is unavailable.

        Where others have queued messages first, it is pending again, to be sent behind those.

        Raises:
            Fenced, LogLost: another writer has taken over the log.
        """
        try:
            while not await self._is_stored(sent):
                await asyncio.sleep(self._pause)
                sent = self._writer.send_again(sent)
        except FencedBy as fence:
            self._pending.put_back(message)
            if not self._steps_behind(fence.entry):
                raise
        except BaseException:
            message.lost()
            raise
        else:
            self._note_stored(message, sent.stamp.generation)

    async def _is_stored(self, sent: AppendRequest) -> bool:
        try:
            await self._writer.finish(sent, _TIMEOUT)
        except BusUnavailable as error:
            _log.warning("%d events are waiting to be stored; retrying: %s", sent.events, error)
            return False
        return True

    def _give_up(self, loss: Exception) -> None:
        if not isinstance(loss, Fenced | LogLost):
            _log.error("an append failed unexpectedly", exc_info=loss)
        self._loss = loss
        self._shut()
        self._lost(loss)

    def _shut(self) -> None:
        self._is_open = self._is_to_look = False
        self._pending.lose()
        self._state = self._state.to(AppenderState.CLOSED)
        self._end_wait()

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
        """Continue after `entry` if it begins or ends nothing; return False if it is a fence.

        It may queue messages, or record what the run waits for.
        """
        if (record := _arrival_in(entry)) is not None and self.authorship.holds_after(entry):
            self._writer.continue_after(entry)
            self.offered += 1
            self._arrived(record)
            return True
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
        for receipt, queued in self._pending.queued():
            if (there := named.get(queued.name)) is not None:
                receipt.settle(there)
            elif receipt.is_conditional:
                receipt.fail(Overtaken(generation))
                refused.append(queued)
            else:
                continue
            self._pending.drop(receipt)
            self.offered -= 1
        return refused


def _arrival_in(entry: Entry) -> StepRecord | None:
    """Return the record of an arrival that is all of `entry`. None: it is something else."""
    if entry.stamp.step is None or len(entry.lines) != 1:
        return None
    record = StepRecord.decode(entry.stamp.step, entry.last_generation)
    return None if record is None or source_of(record) is None else record
