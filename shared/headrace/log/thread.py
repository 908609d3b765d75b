"""The open logs of a thread: of an owner's context with one agent.

A log's subject names its thread. So one request to the leader tells whether a thread has any tasks,
and a second one to any replica has the last entry of each. A server with the only copy needs the
second one alone.
"""

import asyncio
from typing import NamedTuple

from nats.aio.msg import Msg

from headrace.jetstream.api import get_message, until_answered
from headrace.jetstream.connection import Bus
from headrace.jetstream.direct_get import direct_get
from headrace.jetstream.headers import SUBJECT
from headrace.log.read import LogMessage, check_readable, first_entry, from_message, last_entry
from headrace.model.entry import Entry
from headrace.model.errors import UndecodableMessage
from headrace.model.task import SUBMITTED, WORKING, TaskKey, thread_token

OPEN = frozenset({SUBMITTED, WORKING})
"""States of a task whose run waits for a worker, or is at work."""

_MOST = 16
"""Tasks of a thread up to which reading the end of each takes less than asking task state."""

_BYTES = 128 * 1024
"""The same for the bytes of all ends."""


class ThreadKey(NamedTuple):
    """An owner's context with an agent."""

    tenant: str
    agent: str
    owner: str
    context: str


class LogEnd(NamedTuple):
    """A log's key and its last entry."""

    key: TaskKey
    last: Entry


async def open_logs(bus: Bus, thread: ThreadKey) -> list[LogEnd] | None:
    """Return the ends of the thread's logs that are open (`OPEN`) as of now.

    None: the thread has many tasks or long ends, or the replica that was asked is behind the
    leader. Task state must be asked, which has an index.

    Raises:
        LogTooNew: A log ends with an entry of a later version.
        BusUnavailable: No leader answered.
    """
    streams = map(bus.streams.events, range(bus.settings.event_streams))
    found = await asyncio.gather(*(_of_stream(bus, stream, thread) for stream in streams))
    if None in found:
        return None
    ends = [end for of_stream in found for end in of_stream or () if end.last.stamp.state in OPEN]
    return [end for end in ends if await _is_in(bus, end.key, thread)]


async def _of_stream(bus: Bus, stream: str, thread: ThreadKey) -> list[LogEnd] | None:
    """Return the ends in one event stream of logs with the thread's token."""
    token = thread_token(thread.owner, thread.context)
    subject = bus.subjects.events_of_thread(thread.tenant, thread.agent, token)
    newest = 0
    if not (alone := bus.has_only_copies):
        last = {"last_by_subj": subject}
        message = await until_answered(bus, lambda: get_message(bus, stream, last))
        if message is None:
            return []
        newest = int(message["seq"])
    query = {"multi_last": [subject], "batch": _MOST, "max_bytes": _BYTES}
    answer = await direct_get(bus, stream, query, _named, alone=alone)
    if not answer.complete or answer.pending or answer.up_to < newest:
        return None
    ends = [await _end(bus, *named) for named in answer.messages]
    return [end for end in ends if end is not None]


def _named(msg: Msg) -> tuple[str, LogMessage]:
    return (msg.headers or {})[SUBJECT], from_message(msg)


async def _end(bus: Bus, subject: str, stored: LogMessage) -> LogEnd | None:
    """Return the end of the log on `subject`. None: it is deleted, or no log."""
    try:
        key = bus.subjects.key_of_event(subject)
    except UndecodableMessage:
        return None  # NATS also stores what is published on a subject with wildcards.
    if check_readable(key, stored).is_tombstone:
        return None
    last = stored.entry or await last_entry(bus, key)
    return None if last is None else LogEnd(key, last)


async def _is_in(bus: Bus, key: TaskKey, thread: ThreadKey) -> bool:
    """Return whether the log is the thread's: others can choose a context with the same token."""
    first = await first_entry(bus, key)
    if first is None:
        return False
    (body,) = first.events[0].values()
    return (first.stamp.owner, body.get("contextId")) == (thread.owner, thread.context)
