"""Reading a log: its tail from the leader, and batches by direct get.

A replica of a stream may answer a direct get with stale data, or not at all. So the caller of a
replay passes the log's end as reported by the leader, and the replay reads until it is there.
"""

import asyncio
import logging
from base64 import b64decode
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain
from typing import Any, NamedTuple, Protocol

from nats.aio.msg import Msg

from headrace.jetstream.api import check_empty, get_message, until_answered
from headrace.jetstream.client import ReceivedMessage, StreamPosition, header_lines
from headrace.jetstream.connection import Bus
from headrace.jetstream.direct_get import direct_get, direct_get_begun
from headrace.jetstream.headers import PREVIOUS, SEQUENCE, SUBJECT, TIME
from headrace.model.entry import OWNER, Entry, parse_body, parse_entry, read_stamp
from headrace.model.errors import (
    BusUnavailable,
    LogLost,
    LogTooNew,
    NewerVersion,
    TaskForgotten,
    UndecodableMessage,
)
from headrace.model.task import TaskKey
from headrace.wait_for import ELECTION

_log = logging.getLogger(__name__)

TOMBSTONE = "Headrace-Tombstone"
"""Header of an empty message that replaces the log of a deleted task."""


@dataclass(frozen=True, slots=True)
class Tombstone:
    """The tombstone of a task whose log was deleted."""

    why: str
    """``retention`` or ``deleted``."""
    owner: str
    """The task's owner, as a subject token. Empty: unknown."""


def tombstone_of(headers: Mapping[str, str] | None) -> Tombstone | None:
    """Return the tombstone in a message with `headers`. None: the message is not a tombstone."""
    why = headers.get(TOMBSTONE) if headers else None
    return Tombstone(why, headers.get(OWNER, "")) if headers and why else None


class LogMessage(NamedTuple):
    """A message on a log's subject, entry or not."""

    sequence: int
    previous: int
    """In a live message: the sequence of the previous message on the same subject; 0: this is the
    first.

    Elsewhere it has no meaning for the subject."""
    entry: Entry | None
    """None: the message does not parse and is skipped."""
    tombstone: Tombstone | None = None
    """The tombstone. Nothing can follow it, and earlier messages are gone."""
    newer: str = ""
    """Why this process can't read it, if it is an entry of a later version; else empty."""

    @property
    def is_tombstone(self) -> bool:
        """Whether it is a tombstone."""
        return self.tombstone is not None


def from_message(msg: Msg, event: str = "") -> LogMessage:
    """Read a republished message or one from a direct get.

    `event` is the subject that its log must have; empty: any.

    Raises:
        UndecodableMessage: The message has no sequence, so JetStream did not send it, or it belongs
            to another log.
    """
    if isinstance(msg, ReceivedMessage):
        position = msg.position or StreamPosition.read(msg.block)
        if position is not None:
            return _from_live(msg, position, event)
    headers = msg.headers or {}
    if event and headers.get(SUBJECT) != event:
        raise UndecodableMessage(
            msg.subject, f"the header names {headers.get(SUBJECT)}, not {event}"
        )
    try:
        sequence, previous = int(headers[SEQUENCE]), int(headers.get(PREVIOUS, "0"))
    except (KeyError, ValueError):
        raise UndecodableMessage(
            msg.subject, f"the header {SEQUENCE} is missing or invalid"
        ) from None
    entry, newer = _entry(msg.subject, headers, msg.data, sequence, headers.get(TIME, ""))
    tombstone = None if msg.data else tombstone_of(headers)
    return LogMessage(sequence, previous, entry, tombstone, newer)


def _from_live(msg: ReceivedMessage, live: StreamPosition, event: str) -> LogMessage:
    """Read a republished message as `from_message` does, without parsing all headers."""
    if event and live.subject != event:
        raise UndecodableMessage(msg.subject, f"the header names {live.subject}, not {event}")
    entry, newer = None, ""
    try:
        stamp = read_stamp(msg.subject, msg.block, lambda: msg.headers)
        entry = parse_body(msg.subject, stamp, msg.data, live.sequence, live.time)
    except UndecodableMessage as error:
        newer = _newer(error)
    tombstone = None if msg.data else tombstone_of(msg.headers)
    return LogMessage(live.sequence, live.previous, entry, tombstone, newer)


def from_leader(message: Mapping[str, Any]) -> LogMessage:
    """Read the ``message`` of a STREAM.MSG.GET answer."""
    headers = headers_of(message)
    sequence = int(message["seq"])
    data = b64decode(message.get("data") or "")
    entry, newer = _entry(message["subject"], headers, data, sequence, message.get("time", ""))
    return LogMessage(sequence, 0, entry, None if data else tombstone_of(headers), newer)


def headers_of(message: Mapping[str, Any]) -> dict[str, str]:
    """Return the headers of the ``message`` of a STREAM.MSG.GET answer."""
    return header_lines(b64decode(message.get("hdrs") or "").partition(b"\r\n")[2])


def _entry(
    subject: str, headers: Mapping[str, str], data: bytes, sequence: int, time: str
) -> tuple[Entry | None, str]:
    try:
        return parse_entry(subject, headers, data, sequence, time), ""
    except UndecodableMessage as error:
        return None, _newer(error)


def _newer(error: UndecodableMessage) -> str:
    return error.reason if isinstance(error, NewerVersion) else ""


def check_readable(key: TaskKey, stored: LogMessage) -> LogMessage:
    """Return `stored`, a message of the log, unless a later version has written it.

    It can't be skipped as other unreadable messages are: a writer would then number its events from
    the last entry that this process reads.

    Raises:
        LogTooNew: It is an entry of a later version than this process reads.
    """
    if stored.newer and not stored.is_tombstone:
        _log.warning("the log of %s is not read by this release: %s", key.task, stored.newer)
        raise LogTooNew(f"the log of {key.task} has an entry of a later version: {stored.newer}")
    return stored


class Continuity:
    """Checks that generations are consecutive and that the log stays the same, up to its end.

    Otherwise a log that is trimmed while it is read would have a silent gap. A log ends with its
    first entry that ends the task. No service appends behind it, but NATS can't forbid that to a
    worker, so readers ignore what is there.
    """

    __slots__ = ("_key", "_log", "is_over", "next")

    def __init__(self, key: TaskKey, after: int) -> None:
        """Expect generation 1 if reading begins after stream sequence 0, else any generation."""
        self._key = key
        self.next: int | None = None if after else 1
        """The only generation that may follow; None: any, because none was read yet."""
        self._log: str | None = None
        self.is_over = False
        """Whether the log's end was read: whatever follows is ignored."""

    def entry_in(self, stored: LogMessage) -> Entry | None:
        """Return the log's next entry. None: `stored` is no entry, or stands behind the end.

        Raises:
            LogLost: It is not the next one; the entries in between are gone.
            LogTooNew: It is an entry of a later version.
        """
        entry = None if self.is_over else check_readable(self._key, stored).entry
        if entry is None:
            return None
        if self.next not in (None, entry.generation):
            lost = f"generation {self.next} of {self._key.task} is gone"
            raise LogLost(f"{lost}: the next entry begins with {entry.generation}")
        if self._log not in (None, entry.stamp.log):
            raise LogLost(f"{self._key.task} now has the log {entry.stamp.log}")
        self.next, self._log = entry.last_generation + 1, entry.stamp.log
        self.is_over = entry.ends_task
        return entry

    def entries_in(self, batch: Iterable[LogMessage]) -> list[Entry]:
        """Return the entries of the next messages of the log; raises as `entry_in`."""
        return [entry for stored in batch if (entry := self.entry_in(stored)) is not None]


BATCH = 512
"""Maximum number of messages per direct get."""

BATCH_BYTES = 4 * 1024 * 1024
"""Maximum bytes per direct get, far below the limit of a slow consumer."""

TIMEOUT = 30.0
"""Seconds without progress after which a replay gives up."""

_FIRST = 8, 16 * 1024
"""Messages and bytes of a log that are asked for before it is known to be short: a task with a
follow-up or two has no more."""


async def last_stored(bus: Bus, key: TaskKey, timeout: float = ELECTION) -> LogMessage | None:
    """Return the last message on the log's subject, from the leader. None: no message.

    Raises:
        LogTooNew: It is an entry of a later version.
        BusUnavailable: No leader answered within `timeout` seconds.
    """
    message = await last_raw(bus, key, timeout)
    return None if message is None else check_readable(key, from_leader(message))


async def last_raw(bus: Bus, key: TaskKey, timeout: float = ELECTION) -> dict[str, Any] | None:
    """Return the ``message`` of STREAM.MSG.GET for the log's last message.

    `key` may contain wildcards. If the leader reports no message, a second query confirms it in a
    way that a leader which was frozen until now does not pass. Otherwise a task would be unknown,
    or its run dropped, although its log exists.

    Raises:
        BusUnavailable: No leader answered within `timeout` seconds.
    """
    stream, subject = bus.streams.of_shard(key.shard), bus.subjects.event(key)

    async def ask() -> dict[str, Any] | None:
        message = await get_message(bus, stream, {"last_by_subj": subject})
        if message is None:
            await check_empty(bus, stream, subject)
        return message

    return await until_answered(bus, ask, timeout)


async def as_if_empty(bus: Bus, key: TaskKey) -> None:
    """Spend as much time on a log as on an empty one, so that timing does not reveal it exists."""
    with suppress(BusUnavailable):
        await check_empty(bus, bus.streams.of_shard(key.shard), bus.subjects.event(key))


async def next_stored(
    bus: Bus, key: TaskKey, after: int, timeout: float = ELECTION
) -> LogMessage | None:
    """Return the first message on the log's subject after sequence `after`, from the leader.

    Raises:
        BusUnavailable: no leader answered within `timeout` seconds.
    """
    return await _ask_leader(
        bus, key, {"seq": after + 1, "next_by_subj": bus.subjects.event(key)}, timeout
    )


async def first_entry(bus: Bus, key: TaskKey) -> Entry | None:
    """Return the oldest entry that the log still has, from the leader. None: no entry.

    Raises:
        BusUnavailable: No leader answered, as during an election that lasts too long.
    """
    sequence = 0
    while (stored := await next_stored(bus, key, sequence)) is not None:
        if stored.entry is not None:
            return stored.entry
        sequence = stored.sequence
    return None


async def last_entry(bus: Bus, key: TaskKey) -> Entry | None:
    """Return the log's last entry, from the leader. None: the log is empty or deleted.

    Raises:
        BusUnavailable: No leader answered, as during an election that lasts too long.
    """
    last = await last_stored(bus, key)
    if last is None or last.is_tombstone or last.entry is not None:
        return last.entry if last else None
    # Rare: the last message is not an entry. It does not link to earlier ones, so this is a binary
    # search.
    search, found = EntrySearch(bus, key), None
    older, newest = 0, last.sequence
    while older < newest:
        middle = (older + newest) // 2
        entry = await search.entry_after(middle)
        if entry is None:
            newest = middle
        else:
            found, older = entry, entry.sequence
    return found


class EntrySearch:
    """Finds a log's entries by stream sequence, at a replica if that has them."""

    def __init__(self, bus: Bus, key: TaskKey) -> None:
        """Search the log at `key`."""
        self._bus, self._key = bus, key
        self._may_read_replicas = True

    async def entry_after(self, sequence: int) -> Entry | None:
        """Return the first entry after `sequence`. None: no entry.

        Raises:
            BusUnavailable: The stream does not answer.
        """
        while (stored := await self._stored_after(sequence)) is not None:
            if stored.entry is not None:
                return stored.entry
            sequence = stored.sequence
        return None

    async def _stored_after(self, sequence: int) -> LogMessage | None:
        if self._may_read_replicas:
            if found := await copy_of_next(self._bus, self._key, sequence + 1):
                return found
            # The replica is stale or frozen, which one search tolerates once, or no message exists
            # there, which only the leader has.
            self._may_read_replicas = False
        return await next_stored(self._bus, self._key, sequence)


async def _ask_leader(
    bus: Bus, key: TaskKey, query: dict[str, Any], timeout: float
) -> LogMessage | None:
    stream = bus.streams.of_shard(key.shard)
    message = await until_answered(bus, lambda: get_message(bus, stream, query), timeout)
    return None if message is None else check_readable(key, from_leader(message))


async def check_reaches(bus: Bus, key: TaskKey, sequence: int, timeout: float = ELECTION) -> None:
    """Return if the log reaches stream sequence `sequence`, which was seen stored before.

    A leader that was frozen may answer with old data for a moment. So the log counts as lost only
    after two such answers.

    Raises:
        LogLost: The log ends before `sequence`.
        TaskForgotten: The log was deleted.
        BusUnavailable: No leader answered within `timeout` seconds.
    """
    for pause in (bus.timing.confirmation, 0.0):
        last = await _ask_leader(bus, key, {"last_by_subj": bus.subjects.event(key)}, timeout)
        if last is not None and last.is_tombstone:
            raise TaskForgotten(f"the log of {key.task} has been deleted")
        if last is not None and last.sequence >= sequence:
            return
        await asyncio.sleep(pause)
    raise LogLost(f"the log of {key.task} ends before sequence {sequence}")


async def replay(
    bus: Bus, key: TaskKey, after: int, head: int, *, batch_bytes: int = BATCH_BYTES
) -> AsyncIterator[list[Entry]]:
    """Yield the entries after stream sequence `after` up to `head`, in order, in batches.

    `head` is a sequence on this subject that the leader reported. Nothing is yielded twice.
    Messages that do not parse are skipped, and so is what stands behind an end that was read.
    `batch_bytes` limits the size of a batch.

    Raises:
        LogLost: Messages before `head` are gone.
        LogTooNew: One is an entry of a later version.
        BusUnavailable: No progress for `TIMEOUT` seconds.
    """
    continuity = Continuity(key, after)
    async for batch in replay_stored(bus, key, after, head, batch_bytes=batch_bytes):
        if entries := continuity.entries_in(batch):
            yield entries
        if continuity.is_over:
            return


async def replay_stored(
    bus: Bus, key: TaskKey, after: int, head: int, *, batch_bytes: int = BATCH_BYTES
) -> AsyncIterator[list[LogMessage]]:
    """Like `replay`, but include all messages, and check none: see `Continuity`."""
    async for batch in replay_as(bus, key, (after, head), from_message, batch_bytes):
        yield batch


class HasSequence(Protocol):
    """A stored message, as a caller's `read` function returns it."""

    @property
    def sequence(self) -> int:
        """Its stream sequence."""

    @property
    def is_tombstone(self) -> bool:
        """Whether it is a tombstone."""


async def replay_as[Read: HasSequence](
    bus: Bus,
    key: TaskKey,
    within: tuple[int, int],
    read: Callable[[Msg], Read],
    batch_bytes: int = BATCH_BYTES,
) -> AsyncIterator[list[Read]]:
    """Like `replay_stored`, after `within[0]` up to `within[1]`, each converted by `read`."""
    after, head = within
    while after < head and (batch := await _read_on(bus, key, (after, head), read, batch_bytes)):
        after = batch[-1].sequence
        yield batch


async def read_on(
    bus: Bus, key: TaskKey, after: int, head: int, *, batch_bytes: int = BATCH_BYTES
) -> list[LogMessage]:
    """Return the next messages after stream sequence `after`, none beyond `head`.

    An empty list: `head` itself was trimmed, and the next message is beyond it. `Continuity` checks
    them.

    Raises:
        LogLost: The log ends before `head`.
        TaskForgotten: The log was deleted, and the next messages are gone.
        BusUnavailable: No replica has answered for `TIMEOUT` seconds.
    """
    return await _read_on(bus, key, (after, head), from_message, batch_bytes)


async def _read_on[Read: HasSequence](
    bus: Bus,
    key: TaskKey,
    within: tuple[int, int],
    read: Callable[[Msg], Read],
    batch_bytes: int,
) -> list[Read]:
    started = asyncio.get_running_loop().time()
    after, head = within
    while not (batch := await _get_batch(bus, key, after + 1, read, (BATCH, batch_bytes))):
        await check_reaches(bus, key, head, TIMEOUT)
        if asyncio.get_running_loop().time() - started > TIMEOUT:
            raise BusUnavailable(f"no copy of {key.task}'s log answered for {TIMEOUT:g} s")
        await asyncio.sleep(bus.timing.retry)
    if batch[0].is_tombstone:
        raise TaskForgotten(f"the log of {key.task} has been deleted")
    return [stored for stored in batch if stored.sequence <= head]


async def short_log(
    bus: Bus, key: TaskKey, owner: str | None, limits: tuple[int, int]
) -> list[Entry] | None:
    """Return all entries of a log as of now, if its last one says that they are few and `owner`'s.

    None: the log has more events or bytes than `limits`, is empty, deleted or damaged, or the
    replica that was asked is behind the leader, or a mirror. Or its last entry does not name
    `owner` (None: any will do), as those that end a run do: before that is known, no entry is read,
    so that no log takes longer to ask for than one that is not there. The leader is asked once and,
    at the same time, a replica for the beginning; a server that has the only copy is asked for that
    alone.

    Raises:
        BusUnavailable: No leader answered.
        LogLost: The log's beginning is gone.
        LogTooNew: It has an entry of a later version.
    """
    stream = bus.streams.of_shard(key.shard)
    at_first = min(limits[0], _FIRST[0]), min(limits[1], _FIRST[1])
    beginning, newest = _batch_query(bus, key, 1, at_first), 0
    if alone := bus.has_only_copies:
        got = await direct_get(bus, stream, beginning, _as_it_is, alone=True)
    else:
        async with direct_get_begun(bus, stream, beginning, _as_it_is) as answer:
            last_query = {"last_by_subj": bus.subjects.event(key)}
            message = await get_message(bus, stream, last_query)
            if message is None or not _is_short(from_leader(message), owner, limits[0]):
                return None
            newest, got = int(message["seq"]), await answer()
    messages = got.messages
    if messages and 0 < got.pending <= limits[0]:
        left = limits[1] - sum(len(msg.data) for msg in messages)
        after = from_message(messages[-1]).sequence
        rest = _batch_query(bus, key, after + 1, (limits[0], left))
        got = await direct_get(bus, stream, rest, _as_it_is, alone=alone)
        messages += got.messages
    if not messages or not got.complete or got.pending:
        return None
    last = from_message(messages[-1])
    # A leader that was frozen may know less than the replica: what that has more counts as well.
    if last.sequence < newest or not (newest or _is_short(last, owner, limits[0])):
        return None
    return Continuity(key, 0).entries_in(chain(map(from_message, messages[:-1]), (last,)))


def _as_it_is(msg: Msg) -> Msg:
    return msg


def _is_short(last: LogMessage, owner: str | None, most: int) -> bool:
    """Return whether a log with this last message is `owner`'s, of at most so many events."""
    entry = last.entry
    return (
        entry is not None and entry.last_generation <= most and owner in (None, entry.stamp.owner)
    )


async def copy_of_beginning(bus: Bus, key: TaskKey) -> list[Entry]:
    """Return the log's first entries as one replica has them, which may be all, some or none.

    Raises:
        LogLost: The log's beginning is gone.
        LogTooNew: One is an entry of a later version.
        BusUnavailable: The connection is down.
    """
    batch = await _get_batch(bus, key, 1, from_message, (BATCH, BATCH_BYTES))
    return Continuity(key, 0).entries_in(batch)


async def copy_of_next(bus: Bus, key: TaskKey, start: int) -> LogMessage | None:
    """Return the first message of the log from stream sequence `start`, from any replica.

    None: this replica has no message there, or did not answer.

    Raises:
        LogTooNew: It is an entry of a later version.
        BusUnavailable: The connection is down.
    """
    batch = await _get_batch(bus, key, start, from_message, (1, BATCH_BYTES))
    return check_readable(key, batch[0]) if batch else None


async def _get_batch[Read](
    bus: Bus, key: TaskKey, start: int, read: Callable[[Msg], Read], limits: tuple[int, int]
) -> list[Read]:
    query, stream = _batch_query(bus, key, start, limits), bus.streams.of_shard(key.shard)
    return (await direct_get(bus, stream, query, read)).messages


def _batch_query(bus: Bus, key: TaskKey, start: int, limits: tuple[int, int]) -> dict[str, Any]:
    return {
        "batch": limits[0],
        "seq": start,
        "next_by_subj": bus.subjects.event(key),
        "max_bytes": limits[1],
    }
