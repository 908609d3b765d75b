"""Deleting everything that the bus stores of a task, on request or after its retention.

First a tombstone replaces the log (`headrace.log.tombstone`): appends fail from then on, and every
reader gets the tombstone. Task state reads it like any other message and removes the task from its
view. Data elsewhere is deleted next. If a process is killed in between, the tombstone remains and
task state finishes the work.
"""

import asyncio
import logging
from itertools import batched

from nats.js.api import AckPolicy, ConsumerConfig, DeliverPolicy

from headrace.jetstream.agent_memory import AgentMemory
from headrace.jetstream.connection import Bus
from headrace.jetstream.objects import FileStore
from headrace.jetstream.purge import erase, purge
from headrace.jetstream.streams import find
from headrace.log import writer_of
from headrace.log.read import LogMessage, Tombstone, last_stored, next_stored, tombstone_of
from headrace.log.tombstone import Why, put_tombstone
from headrace.model.entry import Entry
from headrace.model.errors import (
    BusUnavailable,
    Fenced,
    LogFull,
    TaskUnknown,
    UndecodableMessage,
)
from headrace.model.subjects import decode_token
from headrace.model.task import TaskKey
from headrace.tasks.cancel import cancel_task
from headrace.tasks.dead_letters import LetterFilter, Letters, LetterUnknown
from headrace.tasks.runs import until_gone

_log = logging.getLogger(__name__)

DELETED = 24 * 3600.0
"""Minimum seconds that a deleted task's tombstone exists. A task state that was away, and clients
that send the task's first message again, learn of the deletion from it."""

_CLEAN_UP = 5.0
"""Seconds that the agent of a task to be deleted has to clean up."""

_READ_AT_ONCE = 256
_READ_TIMEOUT = 10.0
_CLEARED_AT_ONCE = 32


async def mark_deleted(bus: Bus, key: TaskKey) -> None:
    """Cancel the task if it has not ended, and put the tombstone that makes task state erase it.

    In a full stream, which refuses the end of a task, the tombstone takes the place of the end: a
    deletion makes room. Repetitions change nothing.

    Raises:
        TaskUnknown: The task does not exist.
        LogLost: The log was lost meanwhile.
        BusUnavailable: NATS does not answer. Repeat the call.
    """
    try:
        await cancel_task(bus, key, writer_of("deletion"))
    except LogFull as full:
        _log.warning("task %s is deleted without an end: %s", key.task, full)
    last, first = await last_stored(bus, key), await next_stored(bus, key, 0)
    if last is None or first is None:
        raise TaskUnknown
    if not last.is_tombstone:
        if last.entry is not None and last.entry.ends_task:
            await until_gone(bus, key, last.entry.last_generation, _CLEAN_UP)
        seconds = max(bus.settings.tombstone_seconds, DELETED)
        try:
            await put_tombstone(bus, key, _owner(first), "deleted", seconds, last.sequence)
        except Fenced as fenced:
            raise BusUnavailable(f"task {key.task} has just gone on; try again") from fenced
        _log.info("task %s is deleted", key.task)


async def delete_unended(bus: Bus, key: TaskKey, last: Entry, full: LogFull) -> None:
    """Delete a task that has waited too long, because the stream refuses its end, as `full` says.

    Otherwise such tasks would keep the stream full for ever. `last` is the log's last entry.

    Raises:
        Fenced: Another entry follows it.
        BusUnavailable: It is not certain that the task is deleted.
    """
    _log.warning("task %s is deleted without an end: %s", key.task, full)
    owner, seconds = _owner(await next_stored(bus, key, 0)), bus.settings.tombstone_seconds
    await put_tombstone(bus, key, owner, "retention", seconds, last.sequence)


def _owner(first: LogMessage | None) -> str:
    """Return the owner, which the first message of a log has; empty: unknown."""
    entry = first.entry if first is not None else None
    return (entry.stamp.owner if entry is not None else None) or ""


async def is_erased(bus: Bus, key: TaskKey) -> bool:
    """Return whether nothing but the tombstone is left of the log, which is erased last.

    Raises:
        BusUnavailable: NATS does not answer.
    """
    first = await next_stored(bus, key, 0)
    return first is None or first.is_tombstone


async def clear_away(bus: Bus, key: TaskKey) -> Why | None:
    """Delete the remaining data of a task whose log has a tombstone; return why it has one.

    For a deleted task, also overwrite its bytes in NATS's files and drop its dead letters. None:
    the tombstone has expired, and a new task has begun there; nothing was deleted.

    Raises:
        BusUnavailable: NATS does not answer. Repeat the call.
    """
    last = await last_stored(bus, key)
    if last is not None and last.tombstone is None:
        if last.entry is None or not last.entry.ends_task:
            return None
        # The tombstone expired before this ran, and the old log still exists.
        await put_tombstone(
            bus, key, "", "retention", bus.settings.tombstone_seconds, last.sequence
        )
        last = await last_stored(bus, key)
    is_deleted = last is not None and last.tombstone is not None and last.tombstone.why == "deleted"
    await purge(bus, bus.streams.runs, bus.subjects.runs_of_task(key))
    await _clear_kept(bus, key, is_deleted=is_deleted)
    if last is not None:
        await _clear_log(bus, key, last.sequence, is_deleted=is_deleted)
    return "deleted" if is_deleted else "retention"


async def clear_mirrored(bus: Bus) -> int:
    """Delete from mirrors what the tombstones in them replace; return the number of tombstones.

    Only tombstones that are the last of their logs count: not those that had expired in the origin
    when a new task of the same id began.

    A mirror keeps what is removed from its origin, and its tombstones do not expire. Those that
    have expired in the origin are removed as soon as the mirror becomes a stream, and what they
    replace would be a log again.

    Raises:
        BusUnavailable: NATS does not answer. Repeat the call.
        nats.errors.Error: JetStream refuses.
    """
    cleared = 0
    for number in range(bus.settings.event_streams):
        stream = bus.streams.events(number)
        if not ((await find(bus.js, stream)) or {}).get("mirror"):
            continue
        # All before the first is cleared: that changes what the consumer counts.
        found = await _tombstones(bus, stream)
        for some in batched(found, _CLEARED_AT_ONCE):
            await asyncio.gather(*(_clear_replaced(bus, *each) for each in some))
        cleared += len(found)
    return cleared


async def _tombstones(bus: Bus, stream: str) -> list[tuple[TaskKey, int, Tombstone]]:
    config = ConsumerConfig(
        deliver_policy=DeliverPolicy.LAST_PER_SUBJECT,
        ack_policy=AckPolicy.NONE,
        headers_only=True,
        inactive_threshold=300.0,
    )
    last_entries = await bus.js.pull_subscribe(">", stream=stream, config=config)
    found = list[tuple[TaskKey, int, Tombstone]]()
    try:
        pending = (await last_entries.consumer_info()).num_pending
        while pending:
            for msg in await last_entries.fetch(_READ_AT_ONCE, _READ_TIMEOUT):
                pending = msg.metadata.num_pending
                if (tombstone := tombstone_of(msg.headers)) is None:
                    continue
                try:
                    key = bus.subjects.key_of_event(msg.subject)
                except UndecodableMessage:
                    continue  # No task's log, so nothing reads it.
                found.append((key, msg.metadata.sequence.stream, tombstone))
    finally:
        await last_entries.unsubscribe()
    return found


async def _clear_replaced(bus: Bus, key: TaskKey, sequence: int, tombstone: Tombstone) -> None:
    is_deleted = tombstone.why == "deleted"
    await _clear_kept(bus, key, is_deleted=is_deleted)
    await _clear_log(bus, key, sequence, is_deleted=is_deleted)


async def _clear_kept(bus: Bus, key: TaskKey, *, is_deleted: bool) -> None:
    """Delete the task's files and memory, and its dead letters if it is deleted."""
    await AgentMemory(bus).erase(key, is_deleted=is_deleted)
    if is_deleted:
        await _drop_letters(bus, key)
        await FileStore(bus).erase(key)
    else:
        await FileStore(bus).drop(key)


async def _clear_log(bus: Bus, key: TaskKey, tombstone: int, *, is_deleted: bool) -> None:
    """Delete the task's log up to the tombstone with that sequence."""
    stream, subject = bus.streams.of_shard(key.shard), bus.subjects.event(key)
    await (erase if is_deleted else purge)(bus, stream, subject, tombstone)


async def _drop_letters(bus: Bus, key: TaskKey) -> None:
    letters = Letters(bus)
    wanted = LetterFilter(decode_token(key.tenant), decode_token(key.agent), task=key.task)
    async for letter in letters.find(wanted):
        try:
            await letters.drop(letter.number)
        except LetterUnknown:
            continue
