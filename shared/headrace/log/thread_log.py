"""All logs of a thread, read as one: an owner's context with one agent or with all.

The subjects of these logs match one filter. So a reader needs one place per event stream, whatever
tasks there are and however many begin later. In one event stream, the order is that of the stream.
"""

import asyncio
import hashlib
from collections import OrderedDict
from dataclasses import dataclass
from typing import NamedTuple

from nats.aio.msg import Msg

from headrace.jetstream.api import get_message, stream_state, until_answered
from headrace.jetstream.connection import Bus
from headrace.jetstream.direct_get import direct_get
from headrace.jetstream.headers import SUBJECT
from headrace.log.read import Continuity, LogMessage, check_readable, first_entry, from_message
from headrace.model.cursor import ThreadCursor
from headrace.model.delegation import DELEGATION
from headrace.model.entry import Entry
from headrace.model.errors import BusUnavailable, LogLost, UndecodableMessage
from headrace.model.task import TaskKey, thread_token

ANY_AGENT = "*"

_BATCH, _BATCH_BYTES = 256, 256 * 1024
_TASKS = 1000
"""Tasks of which it is remembered whether they are the thread's."""

_TIMEOUT = 30.0
"""Seconds without progress after which reading fails."""


@dataclass(frozen=True, slots=True)
class ThreadName:
    """The thread to read."""

    tenant: str
    owner: str
    context: str
    agent: str = ANY_AGENT
    """Only its tasks with this agent."""

    @property
    def token(self) -> str:
        """What stands for it in subjects."""
        return thread_token(self.owner, self.context)


@dataclass(frozen=True, slots=True)
class ThreadEntry:
    """A message of one of the thread's logs."""

    key: TaskKey
    entry: Entry | None
    """None: a tombstone has replaced the log."""
    stream: int
    """Number of the event stream."""
    sequence: int
    skip: int = 0
    """Number of its first events that have been read before."""


class _Stored(NamedTuple):
    subject: str
    message: LogMessage


class _Member:
    """A task of the thread: what is expected next of its log."""

    __slots__ = ("continuity",)

    def __init__(self, continuity: Continuity) -> None:
        self.continuity = continuity


class ThreadLog:
    """Reads the logs from one place on. Calls raise BusUnavailable if NATS does not answer."""

    def __init__(self, bus: Bus, name: ThreadName, origin: str, places: list[int]) -> None:
        """Read after these sequences, one per event stream; use `open_thread`."""
        self._bus, self.name, self.origin, self.places = bus, name, origin, places
        self._filter = bus.subjects.events_of_thread(name.tenant, name.agent, name.token)
        self._tasks = OrderedDict[str, _Member | None]()
        """By subject; None: another thread's, or another task's child."""
        self._partly: dict[int, tuple[int, int]] = {}
        """By stream, a message and how many of its events have been read."""

    def begin_within(self, stream: int, sequence: int, events: int) -> None:
        """Read of the message at `sequence` only what follows its first `events` events."""
        self.places[stream] = sequence - 1
        self._partly[stream] = sequence, events

    @property
    def live_subject(self) -> str:
        """The subject on which the messages are republished: a hint to read on."""
        name = self.name
        return self._bus.subjects.live_of_thread(name.tenant, name.agent, name.token)

    def cursor(self, at: ThreadEntry, events: int) -> str:
        """Return the cursor after that many events of an entry that `read` returned; 0: all."""
        places = [self._partly.get(n, (place, 0)) for n, place in enumerate(self.places)]
        places[at.stream] = at.sequence, events
        return str(ThreadCursor(self.origin, tuple(places)))

    async def exists(self) -> bool:
        """Return whether the thread has a task."""
        for stream in self._streams():
            query = {"seq": 1, "next_by_subj": self._filter}
            while (found := await self._from_leader(stream, query)) is not None:
                subject, sequence = found
                if await self._found(subject, 0, None) is not None:
                    return True
                query["seq"] = sequence + 1
        return False

    async def read(self) -> list[ThreadEntry]:
        """Return the next messages of one stream; an empty list: the leaders have no more."""
        for number, stream in enumerate(self._streams()):
            newest = await self._from_leader(stream, {"last_by_subj": self._filter})
            while newest is not None and newest[1] > self.places[number]:
                if found := await self._next(number, stream):
                    return found
        return []

    async def _next(self, number: int, stream: str) -> list[ThreadEntry]:
        batch = await self._batch(number, stream)
        skipped = self._partly.get(number, (0, 0))
        found = list[ThreadEntry]()
        for subject, message in batch:
            one = await self._read(subject, message, number)
            if one is not None:
                has_begun = message.sequence == skipped[0]
                skip = skipped[1] if has_begun else 0
                found.append(ThreadEntry(one.key, one.entry, number, message.sequence, skip))
        # At once: a cancelled read has read nothing.
        self.places[number] = batch[-1].message.sequence
        self._partly.pop(number, None)
        return found

    async def _batch(self, number: int, stream: str) -> list[_Stored]:
        """Return the next messages, of which the leader has at least one."""
        query = {
            "batch": _BATCH,
            "max_bytes": _BATCH_BYTES,
            "seq": self.places[number] + 1,
            "next_by_subj": self._filter,
        }
        loop = asyncio.get_running_loop()
        deadline = loop.time() + _TIMEOUT
        while loop.time() < deadline:
            if found := (await direct_get(self._bus, stream, query, _stored)).messages:
                return found
            # The replica is behind the leader, or does not answer.
            await asyncio.sleep(self._bus.timing.retry)
        raise BusUnavailable(f"no copy of the thread's logs answered for {_TIMEOUT:g} s")

    async def _read(self, subject: str, message: LogMessage, number: int) -> ThreadEntry | None:
        member = await self._member(subject, message.sequence, message)
        if member is None:
            return None
        key = self._bus.subjects.key_of_event(subject)
        if check_readable(key, message).is_tombstone:
            return ThreadEntry(key, None, number, message.sequence)
        entry = member.continuity.entry_in(message)
        return None if entry is None else ThreadEntry(key, entry, number, message.sequence)

    async def _member(self, subject: str, sequence: int, message: LogMessage) -> _Member | None:
        """Return the task at `subject`, if it is the thread's, as of a message of its log."""
        if subject not in self._tasks:
            self._tasks[subject] = await self._found(subject, sequence, message)
            if len(self._tasks) > _TASKS:
                self._tasks.popitem(last=False)
        return self._tasks[subject]

    async def _found(
        self, subject: str, sequence: int, message: LogMessage | None
    ) -> _Member | None:
        try:
            key = self._bus.subjects.key_of_event(subject)
        except UndecodableMessage:
            return None  # NATS also stores what is published on a subject with wildcards.
        if message is not None and message.tombstone is not None:
            is_owners = message.tombstone.owner == self.name.owner
            return _Member(Continuity(key, sequence)) if is_owners else None
        begins = message is not None and message.entry is not None and message.entry.generation == 1
        first = message.entry if message is not None and begins else await self._first(key)
        if first is None or not self._is_mine(first):
            return None
        return _Member(Continuity(key, 0 if begins else sequence))

    async def _first(self, key: TaskKey) -> Entry | None:
        return await first_entry(self._bus, key)

    def _is_mine(self, first: Entry) -> bool:
        (body,) = first.events[0].values()
        owner, context = first.stamp.owner, body.get("contextId")
        is_child = DELEGATION in (body.get("metadata") or {})
        return (owner, context) == (self.name.owner, self.name.context) and not is_child

    async def _from_leader(self, stream: str, query: dict[str, object]) -> tuple[str, int] | None:
        message = await until_answered(self._bus, lambda: get_message(self._bus, stream, query))
        return None if message is None else (str(message["subject"]), int(message["seq"]))

    def _streams(self) -> list[str]:
        return [self._bus.streams.events(number) for number in range(len(self.places))]


async def open_thread(bus: Bus, name: ThreadName, cursor: str = "") -> ThreadLog:
    """Return the thread's logs, after the cursor; empty: from their beginning.

    Raises:
        LogLost: the cursor is of other streams, or of none.
        BusUnavailable: NATS does not answer.
    """
    streams = [bus.streams.events(number) for number in range(bus.settings.event_streams)]
    states = await asyncio.gather(*(stream_state(bus, stream) for stream in streams))
    origin = hashlib.sha256(states[0].origin.encode()).hexdigest()[:8]
    log = ThreadLog(bus, name, origin, [0] * len(states))
    if not cursor:
        return log
    after = ThreadCursor.parse(cursor)
    if after is None or after.origin != origin or len(after.places) > len(states):
        raise LogLost("the cursor is of other logs; follow the thread from its beginning")
    for number, (sequence, events) in enumerate(after.places):
        if sequence > states[number].last:
            raise LogLost("the logs end before the cursor; follow the thread from its beginning")
        log.places[number] = sequence
        if events:
            log.begin_within(number, sequence, events)
    return log


def _stored(msg: Msg) -> _Stored:
    subject = (msg.headers or {}).get(SUBJECT, msg.subject)
    return _Stored(subject, from_message(msg))
