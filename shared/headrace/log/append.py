"""Appending to a log by compare-and-set, with one message in flight.

Every outcome but a clean ack is *unknown*: servers word refusals differently alone and in a
cluster, and nats-py may still deliver a publish that already timed out. An unknown outcome is
resolved by reading what the leader has after the expected sequence. A retry is byte-identical.
"""

import asyncio
import logging
import secrets
from collections.abc import Awaitable, Sequence
from contextlib import suppress
from typing import NamedTuple

from nats.aio.msg import Msg
from nats.errors import TimeoutError as NatsTimeout

from headrace.jetstream.api import sequence_in, sequence_of
from headrace.jetstream.client import AnswerListener
from headrace.jetstream.connection import NO_ANSWER, Bus
from headrace.jetstream.errors import Refused
from headrace.jetstream.headers import EXPECTED
from headrace.log.read import check_reaches, next_stored
from headrace.metrics import APPENDS
from headrace.model.entry import GENERATION, Entry, Stamp
from headrace.model.errors import (
    BusUnavailable,
    EventTooLarge,
    Fenced,
    LogFull,
    LogLost,
    NobodyListens,
    OutcomeUnknown,
    TaskForgotten,
)
from headrace.model.events import Draft
from headrace.model.task import TaskKey

_log = logging.getLogger(__name__)

HEADER_ROOM = 16 * 1024
"""Bytes of a message that are reserved for headers (a checkpoint or a step takes up to 8 KB)."""

_FRAMING = 128
"""Bytes of a message's headers beside those of its stamp, at most."""

_PAUSES = (0.0, 0.05, 0.2, 0.5, 1.0)
"""Seconds before each repetition of an append; the last one is repeated."""

_STORED = APPENDS.labels("stored")
_FAILED = {
    Fenced.code: APPENDS.labels("fenced"),
    LogLost.code: APPENDS.labels("lost"),
    TaskForgotten.code: APPENDS.labels("lost"),
    LogFull.code: APPENDS.labels("full"),
}
_UNKNOWN = APPENDS.labels("unknown")


def writer_of(whose: str) -> str:
    """Return a writer id for one append of `whose`."""
    return f"{whose}-{secrets.token_hex(6)}"


async def counted(storing: Awaitable[int]) -> int:
    """Return the result of `storing` and count its outcome.

    Raises:
        Fenced, LogLost, LogFull, BusUnavailable: As `storing`.
    """
    try:
        sequence = await storing
    except (Fenced, LogLost, BusUnavailable) as error:
        _FAILED.get(error.code, _UNKNOWN).inc()
        raise
    _STORED.inc()
    return sequence


class AppendResult(NamedTuple):
    """A stored append."""

    sequence: int
    generation: int
    """Generation of the last event appended."""


class AppendRequest(NamedTuple):
    """An append whose message has been sent, or could not be."""

    payload: bytes
    stamp: Stamp
    events: int
    answer: asyncio.Future[Msg]
    """Done when NATS has answered, or not in time."""


class AlikeHeaders(NamedTuple):
    """Headers of appends of one writer whose stamps differ in their generations only.

    They are bytes around the generation and the expected sequence: all tokens of an attempt are
    such appends, and putting the headers together is a quarter of the cost of sending one.
    """

    stamp: Stamp
    """Of one of them."""
    before: bytes
    between: bytes


class _AlikeAppend(NamedTuple):
    """An append that `send_alike` began."""

    headers: AlikeHeaders
    payload: bytes
    events: int
    serial: str
    """Of its request."""


class _NotSent(BusUnavailable):
    """The message was not sent because there was no connection."""


class FencedBy(Fenced):
    """Another writer's `entry` is stored where this writer wanted to append."""

    def __init__(self, entry: Entry) -> None:
        """Keep the entry."""
        super().__init__(f"{entry.stamp.writer} appended first")
        self.entry = entry


class LogWriter:
    """Appends a process's events to a task's log.

    It knows the last sequence and generation of the log and advances them with each append. Not for
    concurrent use: with one append in flight per task, appends stay in order. A second one would
    expect the sequence of the first with generations of its own, and be stored.
    """

    def __init__(self, bus: Bus, key: TaskKey, *, sequence: int = 0, generation: int = 0) -> None:
        """Append after `sequence` and `generation`; 0 and 0 start a log."""
        self._bus = bus
        self.key = key
        self._subject = bus.subjects.event(key)
        self.sequence = sequence
        self.generation = generation
        self._is_appending = False
        self._alike: _AlikeAppend | None = None
        """The append in flight, if `send_alike` began it."""

    @classmethod
    def after(cls, bus: Bus, key: TaskKey, last: Entry) -> "LogWriter":
        """Return a writer that appends after `last`."""
        return cls(bus, key, sequence=last.sequence, generation=last.last_generation)

    def continue_after(self, last: Entry) -> None:
        """Append after `last` from now on."""
        self.sequence, self.generation = last.sequence, last.last_generation

    async def next_entry(self, timeout: float) -> Entry | None:
        """Return the entry after this writer's last one, from the leader. None: no such entry.

        Raises:
            LogLost: The log that this writer appended to is gone.
            BusUnavailable: No leader answered within `timeout` seconds.
        """
        while True:
            found = await next_stored(self._bus, self.key, self.sequence, timeout)
            if found is None:
                if self.sequence:
                    await check_reaches(self._bus, self.key, self.sequence, timeout)
                return None
            if found.is_tombstone:
                raise TaskForgotten(f"{self.key.task} has been deleted")
            if found.entry is not None:
                return found.entry
            # Not an entry, so no writer's append: the next append follows it.
            self.sequence = found.sequence

    @property
    def capacity(self) -> int:
        """Maximum size of the events in one message, in bytes."""
        return self._bus.max_payload - HEADER_ROOM

    async def append(
        self, drafts: Sequence[Draft], stamp: Stamp, timeout: float = 60.0
    ) -> AppendResult:
        """Append `drafts` as one message and return when they are stored.

        `stamp.generation` must be the generation after the log's last. After OutcomeUnknown only
        the same drafts with the same stamp may be appended. Anything else raises Fenced if they
        were stored after all.

        Raises:
            FencedBy: Another writer appended first, and this append is never stored. Only a holder
                that finds nothing but queued messages there may `continue_after` them.
            LogLost: The log that this writer appended to is gone.
            LogFull: The stream is at its limit.
            EventTooLarge: The drafts exceed `capacity`, or the headers exceed `HEADER_ROOM`.
            OutcomeUnknown: Still unknown after `timeout` seconds. It may be stored or not.
            BusUnavailable: NATS accepted nothing within `timeout` seconds. It is not stored.
            RuntimeError: An append is in flight, or `stamp` has another generation. Nothing was
                sent.
        """
        return await self.finish(self.send(drafts, stamp), timeout)

    async def repeat(self, end: Entry, timeout: float = 60.0) -> AppendResult:
        """Append `end`, the log's end, once more, unchanged, behind what a hostile worker appended.

        Raises:
            FencedBy, LogLost, LogFull, OutcomeUnknown, BusUnavailable: As `append`.
            EventTooLarge: There is no room for a header more. Nothing was sent: the server would
                close the connection.
        """
        payload = b"\n".join(end.lines)
        headers = end.stamp.headers(self._bus.settings.log_version)
        room = self._bus.max_payload - _FRAMING - _size(headers)
        if len(payload) > room:
            raise EventTooLarge(len(payload), room)
        answer = self._publish(payload, headers)
        self._is_appending = True
        return await self.finish(AppendRequest(payload, end.stamp, len(end.lines), answer), timeout)

    async def repeat_with(self, end: Entry, header: str, value: str) -> None:
        """Append `end`, the log's last entry, once more, with one header that no reader needs.

        The message is sent once. If the outcome is unknown, the caller looks at the log's end.

        Raises:
            EventTooLarge: There is no room for the header. Nothing was sent.
            LogFull: The stream is at its limit.
            BusUnavailable: It is not certain that it is stored; another entry may be there.
        """
        payload, headers = b"\n".join(end.lines), self.check(end.stamp) | {header: value}
        room = self._bus.max_payload - _FRAMING - _size(headers)
        if len(payload) > room:
            raise EventTooLarge(len(payload), room)
        outcome = await self._outcome(self._publish(payload, headers))
        if isinstance(outcome, BusUnavailable):
            raise outcome

    def send(self, drafts: Sequence[Draft], stamp: Stamp) -> AppendRequest:
        """Begin an append: send its message without waiting, in a fraction of the processor time.

        `acked`, `finish` or `give_up` must follow before anything else is appended.

        Raises:
            EventTooLarge, RuntimeError: As `append`.
        """
        if self._is_appending:
            raise RuntimeError(f"two appends at a time to {self._subject}")
        if stamp.generation != self.generation + 1:
            raise RuntimeError(f"{self._subject}: {stamp.generation} after {self.generation}")
        payload = b"\n".join([d.line(stamp.generation + offset) for offset, d in enumerate(drafts)])
        if len(payload) > self.capacity:
            raise EventTooLarge(len(payload), self.capacity)
        answer = self._publish(payload, self.check(stamp))
        self._is_appending = True
        return AppendRequest(payload, stamp, len(drafts), answer)

    def alike(self, stamp: Stamp) -> AlikeHeaders | None:
        """Return headers for `send_alike`. None: the connection has not sent such headers yet."""
        headers = stamp.headers(self._bus.settings.log_version) | {EXPECTED: "0"}
        block = self._bus.connection.header_block(headers) or b""
        before, generation, rest = block.partition(f"\r\n{GENERATION}: ".encode())
        own, end = b"%d" % stamp.generation, b"0\r\n\r\n"
        if not generation or not rest.startswith(own + b"\r\n") or not rest.endswith(end):
            return None
        return AlikeHeaders(stamp, before + generation, rest[len(own) : -len(end)])

    def send_alike(
        self, headers: AlikeHeaders, payload: bytes, events: int, receive: AnswerListener
    ) -> bool:
        """Begin an append as `send` does, in half of the processor time; False: `send` has to.

        `stored_alike`, or else `sent_alike` and what follows `send`, must follow before anything
        else is appended.

        Args:
            headers: What `alike` has returned.
            payload: The lines of the events, the first with the generation after the log's last.
            events: Their number.
            receive: Is called with the answer. None: it is late. It must not raise.

        Raises:
            RuntimeError: An append is in flight.
        """
        if self._is_appending:
            raise RuntimeError(f"two appends at a time to {self._subject}")
        numbers = (headers.before, self.generation + 1, headers.between, self.sequence)
        block = b"%b%d%b%d\r\n\r\n" % numbers
        bus = self._bus
        serial = bus.connection.ask_directly(self._subject, payload, block, bus.timing.ack, receive)
        if not serial:
            return False
        self._is_appending = True
        self._alike = _AlikeAppend(headers, payload, events, serial)
        return True

    def stored_alike(self, answer: Msg) -> bool:
        """End an append of `send_alike`. False: it is no clean ack; `sent_alike` must follow."""
        sent = self._alike
        try:
            sequence = sequence_in(self._subject, answer)
        except BusUnavailable:
            return False
        if sent is None:
            return False
        self._is_appending, self._alike = False, None
        self.sequence = sequence
        self.generation += sent.events
        _STORED.inc()
        return True

    def sent_alike(self, answer: Msg | None) -> AppendRequest:
        """Return an append of `send_alike` as one of `send`, with its answer.

        Args:
            answer: The answer. None: it is late, or nobody waits for it any more.
        """
        sent, self._alike = self._alike, None
        if sent is None:
            raise RuntimeError(f"no append to {self._subject}")
        self._bus.connection.forget(sent.serial)
        done: asyncio.Future[Msg] = asyncio.get_running_loop().create_future()
        if answer is None:
            done.set_exception(NatsTimeout())
            done.exception()  # Retrieved, or asyncio would warn about it.
        else:
            done.set_result(answer)
        stamp = sent.headers.stamp._replace(generation=self.generation + 1)
        return AppendRequest(sent.payload, stamp, sent.events, done)

    def check(self, stamp: Stamp) -> dict[str, str]:
        """Return the headers of `stamp`.

        Raises:
            EventTooLarge: They exceed `HEADER_ROOM`.
        """
        headers = stamp.headers(self._bus.settings.log_version)
        if (size := _size(headers)) > HEADER_ROOM:
            raise EventTooLarge(size, HEADER_ROOM)
        return headers

    def send_again(self, sent: AppendRequest) -> AppendRequest:
        """Send the same bytes again, after `finish` has raised BusUnavailable."""
        headers = sent.stamp.headers(self._bus.settings.log_version)
        self._is_appending = True
        return sent._replace(answer=self._publish(sent.payload, headers))

    def acked(self, sent: AppendRequest) -> AppendResult | None:
        """End an append whose answer has come. None: that is no clean ack; `finish` must follow."""
        try:
            sequence = sequence_of(self._bus, self._subject, sent.answer)
        except BusUnavailable:
            return None
        _STORED.inc()
        return self._advance(sent, sequence)

    async def finish(self, sent: AppendRequest, timeout: float = 60.0) -> AppendResult:
        """End an append, whatever its answer is: wait, ask and send the same bytes as needed.

        Raises:
            FencedBy, LogLost, LogFull, OutcomeUnknown, BusUnavailable: As `append`.
        """
        try:
            with suppress(BusUnavailable, *NO_ANSWER):
                await sent.answer
            # Nearly every answer is a clean ack, which needs none of what follows.
            if (appended := self.acked(sent)) is not None:
                return appended
            return self._advance(sent, await counted(self._store(sent, timeout)))
        finally:
            self._is_appending = False

    def give_up(self, sent: AppendRequest) -> None:
        """End an append without its outcome."""
        sent.answer.cancel()
        self._is_appending = False

    def _advance(self, sent: AppendRequest, sequence: int) -> AppendResult:
        self._is_appending = False
        self.sequence, self.generation = sequence, sent.stamp.generation + sent.events - 1
        return AppendResult(sequence, self.generation)

    async def _store(self, sent: AppendRequest, timeout: float) -> int:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout
        tries, in_doubt = 0, False
        while True:
            outcome = await self._outcome(sent.answer)
            if isinstance(outcome, int):
                return outcome
            in_doubt = in_doubt or not isinstance(outcome, LogFull | NobodyListens | _NotSent)
            if in_doubt or isinstance(outcome, LogFull):
                try:
                    sequence = await self._resolve(sent.payload, sent.stamp, deadline)
                except BusUnavailable as error:
                    raise OutcomeUnknown(str(error)) if in_doubt else outcome from error
                if sequence is not None:
                    return sequence
            if isinstance(outcome, LogFull) or loop.time() > deadline:
                # A publish that was given up may still be stored later.
                raise OutcomeUnknown(str(outcome)) if in_doubt else outcome
            await asyncio.sleep(_PAUSES[min(tries, len(_PAUSES) - 1)])
            tries += 1
            sent = self.send_again(sent)

    def _publish(self, payload: bytes, headers: dict[str, str]) -> asyncio.Future[Msg]:
        """Send the message after the last sequence, and return its answer to come."""
        headers[EXPECTED] = str(self.sequence)
        if self._bus.connected:
            return self._bus.ask(self._subject, payload, self._bus.timing.ack, headers)
        # nats-py would buffer it and send it after a reconnect.
        unsent: asyncio.Future[Msg] = asyncio.get_running_loop().create_future()
        unsent.set_exception(_NotSent(f"{self._subject}: not connected"))
        unsent.exception()  # Retrieved, or asyncio would warn about it.
        return unsent

    async def _outcome(self, answer: asyncio.Future[Msg]) -> int | BusUnavailable:
        """Return the sequence of a clean ack, or why the outcome is unknown."""
        with suppress(BusUnavailable, *NO_ANSWER):
            await answer
        try:
            return sequence_of(self._bus, self._subject, answer)
        except Refused as refused:
            return LogFull(str(refused)) if refused.is_full else refused
        except BusUnavailable as error:
            if not isinstance(error, _NotSent):
                _log.info("append to %s: %s", self._subject, error)
            return error

    async def _resolve(self, payload: bytes, stamp: Stamp, deadline: float) -> int | None:
        """Return the sequence if the append is stored after all. None: it is not, try again."""
        found = await self.next_entry(max(deadline - asyncio.get_running_loop().time(), 0.0))
        if found is None:
            return None
        if not _is_this(found, stamp, payload):
            raise FencedBy(found)
        # Readers may have missed the live copy while the outcome was in doubt.
        with suppress(BusUnavailable):
            await self._bus.publish(self._bus.subjects.recheck(self.key.task), b"")
        return found.sequence


def _is_this(found: Entry, stamp: Stamp, payload: bytes) -> bool:
    """Return whether `found` is this very append.

    The payload is compared too. An append that this writer gave up as unknown and that was stored
    later must not be mistaken for the current one.
    """
    theirs, mine = found.stamp, stamp
    same = (theirs.writer, theirs.generation, theirs.log) == (
        mine.writer,
        mine.generation,
        mine.log,
    )
    return same and b"\n".join(found.lines) == payload


def _size(headers: dict[str, str]) -> int:
    return len("".join([*headers, *headers.values()]).encode()) + len(": \r\n") * len(headers)
