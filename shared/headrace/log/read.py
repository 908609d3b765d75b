"""Reading a log: its tail at the leader, and batches by direct get.

A follower of a replicated stream may answer a direct get stale, or not at all. So a replay is
told by the caller how far the leader said the log goes, and reads on until it is there.
"""

import asyncio
from base64 import b64decode
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Protocol

from nats.aio.msg import Msg

from headrace.jetstream.api import check_empty, get_message, until_answered
from headrace.jetstream.client import header_lines
from headrace.jetstream.connection import Bus
from headrace.jetstream.direct_get import direct_get
from headrace.jetstream.headers import PREVIOUS, SEQUENCE, SUBJECT, TIME
from headrace.model.entry import OWNER, Entry, parse_entry
from headrace.model.errors import BusUnavailable, LogLost, TaskForgotten, UndecodableMessage
from headrace.model.task import TaskKey
from headrace.wait_for import ELECTION

TOMBSTONE = "Headrace-Tombstone"
"""Header of a message without content that stands where the log of a forgotten task was."""


@dataclass(frozen=True, slots=True)
class Tombstone:
    """What is known of a task that is kept no more."""

    why: str
    """``retention`` or ``deleted``."""
    owner: str
    """Whose it was, as a subject token; empty: nobody knows."""


def tombstone_of(headers: Mapping[str, str] | None) -> Tombstone | None:
    """Return the tombstone that a message with `headers` is; None: it is none."""
    why = headers.get(TOMBSTONE) if headers else None
    return Tombstone(why, headers.get(OWNER, "")) if headers and why else None


@dataclass(frozen=True, slots=True)
class Stored:
    """A message on a log's subject, entry or not."""

    sequence: int
    previous: int
    """In a live message, the sequence of the one before it on the same subject; 0: it is the first.

    Elsewhere it says nothing of the subject."""
    entry: Entry | None
    """None: it does not parse, and is stepped over."""
    tombstone: Tombstone | None = None
    """What it says of a task that is kept no more: nothing can follow, what was before is gone."""

    @property
    def is_tombstone(self) -> bool:
        """Whether it is a tombstone."""
        return self.tombstone is not None


def from_message(msg: Msg, event: str = "") -> Stored:
    """Read a republished or directly got message; `event` is the subject of the log it is to be of.

    Raises:
        UndecodableMessage: it carries no sequence, so JetStream did not send it; or it is of
            another log.
    """
    headers = msg.headers or {}
    if event and headers.get(SUBJECT) != event:
        raise UndecodableMessage(msg.subject, f"is of {headers.get(SUBJECT)}, not of {event}")
    try:
        sequence, previous = int(headers[SEQUENCE]), int(headers.get(PREVIOUS, "0"))
    except (KeyError, ValueError):
        raise UndecodableMessage(msg.subject, f"no {SEQUENCE}: not JetStream's") from None
    entry = _entry(msg.subject, headers, msg.data, sequence, headers.get(TIME, ""))
    return Stored(sequence, previous, entry, None if msg.data else tombstone_of(headers))


def from_leader(message: Mapping[str, Any]) -> Stored:
    """Read the ``message`` of a STREAM.MSG.GET answer."""
    headers = headers_of(message)
    sequence = int(message["seq"])
    data = b64decode(message.get("data") or "")
    entry = _entry(message["subject"], headers, data, sequence, message.get("time", ""))
    return Stored(sequence, 0, entry, None if data else tombstone_of(headers))


def headers_of(message: Mapping[str, Any]) -> dict[str, str]:
    """Return the headers of the ``message`` of a STREAM.MSG.GET answer."""
    return header_lines(b64decode(message.get("hdrs") or "").partition(b"\r\n")[2])


def _entry(
    subject: str, headers: Mapping[str, str], data: bytes, sequence: int, time: str
) -> Entry | None:
    try:
        return parse_entry(subject, headers, data, sequence, time)
    except UndecodableMessage:
        return None


class Continuity:
    """Checks that generations follow on each other, and that the log stays the same one.

    A log whose head was trimmed while somebody read it would otherwise show as a silent hole.
    """

    def __init__(self, key: TaskKey, after: int) -> None:
        """Expect generation 1 if reading begins `after` stream sequence 0, else any first."""
        self._key = key
        self._next: int | None = None if after else 1
        self._log: str | None = None

    def check(self, entry: Entry) -> None:
        """Take `entry` as the next one.

        Raises:
            LogLost: it is not; what lay between is gone.
        """
        if self._next not in (None, entry.generation):
            lost = f"generation {self._next} of {self._key.task} is gone"
            raise LogLost(f"{lost}: {entry.generation} comes next")
        if self._log not in (None, entry.stamp.log):
            raise LogLost(f"{self._key.task} has another log now: {entry.stamp.log}")
        self._next, self._log = entry.last_generation + 1, entry.stamp.log


BATCH = 512
"""Messages asked for in one direct get."""

BATCH_BYTES = 4 * 1024 * 1024
"""Bytes asked for in one direct get, far below what makes a subscription a slow consumer."""

TIMEOUT = 30.0
"""Seconds without progress after which a replay gives up."""

_PAUSE = 0.1

_CONFIRM = 0.5


async def last_stored(bus: Bus, key: TaskKey, timeout: float = ELECTION) -> Stored | None:
    """Return the last message on the log's subject as the leader knows it; None: there is none.

    Raises:
        BusUnavailable: no leader answered within `timeout` seconds.
    """
    message = await last_raw(bus, key, timeout)
    return None if message is None else from_leader(message)


async def last_raw(bus: Bus, key: TaskKey, timeout: float = ELECTION) -> dict[str, Any] | None:
    """Return what STREAM.MSG.GET says of that message; `key` may have wildcards for names.

    That there is none is asked for once more, in a way that a leader which has just thawed does
    not pass: a task would be unknown, or its run dropped, although the log is there.

    Raises:
        BusUnavailable: no leader answered within `timeout` seconds.
    """
    stream, subject = bus.streams.of_shard(key.shard), bus.subjects.event(key)

    async def ask() -> dict[str, Any] | None:
        message = await get_message(bus, stream, {"last_by_subj": subject})
        if message is None:
            await check_empty(bus, stream, subject)
        return message

    return await until_answered(bus, ask, timeout)


async def as_if_empty(bus: Bus, key: TaskKey) -> None:
    """Take as long over a log as is taken over one that is empty: that tells nobody it exists."""
    with suppress(BusUnavailable):
        await check_empty(bus, bus.streams.of_shard(key.shard), bus.subjects.event(key))


async def next_stored(
    bus: Bus, key: TaskKey, after: int, timeout: float = ELECTION
) -> Stored | None:
    """Return the first message on the log's subject after sequence `after`, from the leader.

    Raises:
        BusUnavailable: no leader answered within `timeout` seconds.
    """
    return await _ask_leader(
        bus, key, {"seq": after + 1, "next_by_subj": bus.subjects.event(key)}, timeout
    )


async def _ask_leader(
    bus: Bus, key: TaskKey, query: dict[str, Any], timeout: float
) -> Stored | None:
    stream = bus.streams.of_shard(key.shard)
    message = await until_answered(bus, lambda: get_message(bus, stream, query), timeout)
    return None if message is None else from_leader(message)


async def check_reaches(bus: Bus, key: TaskKey, sequence: int, timeout: float = ELECTION) -> None:
    """Return if the log goes up to stream sequence `sequence`, which somebody has seen stored.

    A leader that was frozen answers, for a moment, what it knew then. So the log counts as lost
    when the leader has said so twice.

    Raises:
        LogLost: the log ends before `sequence`.
        TaskForgotten: it is kept no more.
        BusUnavailable: no leader answered within `timeout` seconds.
    """
    for pause in (_CONFIRM, 0.0):
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

    `head` is a sequence on this subject that the leader reported. Nothing is yielded twice, and
    messages that do not parse are stepped over. `batch_bytes` bounds what is held at a time.

    Raises:
        LogLost: messages before `head` are gone.
        BusUnavailable: no progress for `TIMEOUT` seconds.
    """
    continuity = Continuity(key, after)
    async for batch in replay_stored(bus, key, after, head, batch_bytes=batch_bytes):
        if entries := [stored.entry for stored in batch if stored.entry is not None]:
            for entry in entries:
                continuity.check(entry)
            yield entries


def replay_stored(
    bus: Bus, key: TaskKey, after: int, head: int, *, batch_bytes: int = BATCH_BYTES
) -> AsyncIterator[list[Stored]]:
    """Like `replay`, with the messages that do not parse left in, and continuity unchecked."""
    return replay_as(bus, key, (after, head), from_message, batch_bytes)


class Placed(Protocol):
    """A message as somebody wants it, who may know more of it than this."""

    @property
    def sequence(self) -> int:
        """Its stream sequence."""

    @property
    def is_tombstone(self) -> bool:
        """Whether it is a tombstone."""


async def replay_as[Read: Placed](
    bus: Bus,
    key: TaskKey,
    within: tuple[int, int],
    read: Callable[[Msg], Read],
    batch_bytes: int = BATCH_BYTES,
) -> AsyncIterator[list[Read]]:
    """Like `replay_stored`, after the first sequence up to the second, each as `read` has it."""
    after, head = within
    while after < head and (batch := await _read_on(bus, key, (after, head), read, batch_bytes)):
        after = batch[-1].sequence
        yield batch


async def read_on(
    bus: Bus, key: TaskKey, after: int, head: int, *, batch_bytes: int = BATCH_BYTES
) -> list[Stored]:
    """Return the messages that come next after stream sequence `after`, none beyond `head`.

    An empty list: `head` itself has been trimmed, and what comes next is beyond it.

    Raises:
        LogLost: the log ends before `head`.
        TaskForgotten: it is kept no more, and what came next is gone.
        BusUnavailable: no copy has answered for `TIMEOUT` seconds.
    """
    return await _read_on(bus, key, (after, head), from_message, batch_bytes)


async def _read_on[Read: Placed](
    bus: Bus,
    key: TaskKey,
    within: tuple[int, int],
    read: Callable[[Msg], Read],
    batch_bytes: int,
) -> list[Read]:
    begun = asyncio.get_running_loop().time()
    after, head = within
    while not (batch := await _get_batch(bus, key, after + 1, read, (BATCH, batch_bytes))):
        await check_reaches(bus, key, head, TIMEOUT)
        if asyncio.get_running_loop().time() - begun > TIMEOUT:
            raise BusUnavailable(f"no copy of {key.task}'s log answered for {TIMEOUT:g} s")
        await asyncio.sleep(_PAUSE)
    if batch[0].is_tombstone:
        raise TaskForgotten(f"the log of {key.task} has been deleted")
    return [stored for stored in batch if stored.sequence <= head]


async def get_batch(
    bus: Bus, key: TaskKey, start: int, *, size: int = BATCH, max_bytes: int = BATCH_BYTES
) -> list[Stored]:
    """Return up to `size` messages of the log from stream sequence `start` on, from any copy.

    There is no hole in them. An empty list says that this copy knows of nothing there, or did not
    answer.

    Raises:
        BusUnavailable: there is no connection.
    """
    return await _get_batch(bus, key, start, from_message, (size, max_bytes))


async def _get_batch[Read](
    bus: Bus, key: TaskKey, start: int, read: Callable[[Msg], Read], limits: tuple[int, int]
) -> list[Read]:
    query = {
        "batch": limits[0],
        "seq": start,
        "next_by_subj": bus.subjects.event(key),
        "max_bytes": limits[1],
    }
    stream = bus.streams.of_shard(key.shard)
    return (await direct_get(bus, stream, query, read)).messages
