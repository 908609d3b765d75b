"""Forgetting a task: taking all that the bus keeps of it away, on request or past its retention.

First a tombstone replaces the log (`headrace.log.tombstone`): from then on nobody can append, and
every reader is told that the task is gone. Task state, which reads it like any other message, takes
the task out of its view. What lies elsewhere goes next; whoever dies in between leaves a tombstone
by which task state finishes the work.
"""

import logging

from headrace.jetstream.connection import Bus
from headrace.jetstream.objects import FileStore
from headrace.jetstream.purge import erase, purge
from headrace.log.read import last_stored, next_stored
from headrace.log.tombstone import put_tombstone
from headrace.model.errors import TaskUnknown
from headrace.model.names import decode_token
from headrace.model.task import TaskKey
from headrace.tasks.cancel import cancel_task
from headrace.tasks.dead_letters import Letters, LetterUnknown, Wanted
from headrace.tasks.end import writer_of
from headrace.tasks.runs import until_gone

_log = logging.getLogger(__name__)

DELETED = 24 * 3600.0
"""Least seconds that a deleted task's tombstone stands: a task state that is away, and clients that
send the task's first message again, learn from it for so long."""

_CLEAN_UP = 5.0
"""Seconds that the agent of a task which is to be deleted has to clean up."""


async def mark_deleted(bus: Bus, key: TaskKey) -> None:
    """Cancel the task if it has not ended, and put the tombstone by which task state erases it.

    Repeated, it changes nothing.

    Raises:
        TaskUnknown: there is no such task.
        LogLost: the log went away meanwhile.
        BusUnavailable: NATS does not answer; do it again.
    """
    await cancel_task(bus, key, writer_of("deletion"))
    last, first = await last_stored(bus, key), await next_stored(bus, key, 0)
    if last is None or first is None:
        raise TaskUnknown
    if not last.is_tombstone:
        if last.entry is not None:
            await until_gone(bus, key, last.entry.last_generation, _CLEAN_UP)
        owner = first.entry.stamp.owner if first.entry is not None else None
        seconds = max(bus.settings.tombstone_seconds, DELETED)
        await put_tombstone(bus, key, owner or "", "deleted", seconds, last.sequence)
        _log.info("task %s is deleted", key.task)


async def is_erased(bus: Bus, key: TaskKey) -> bool:
    """Tell whether nothing is left of the log but its tombstone: it goes last.

    Raises:
        BusUnavailable: NATS does not answer.
    """
    first = await next_stored(bus, key, 0)
    return first is None or first.is_tombstone


async def clear_away(bus: Bus, key: TaskKey) -> None:
    """Take away what is left of a task on whose log a tombstone stands.

    Of a deleted one the bytes in NATS's files, too, and dead letters.

    Raises:
        BusUnavailable: NATS does not answer; do it again.
    """
    last = await last_stored(bus, key)
    if last is not None and last.tombstone is None:
        if last.entry is None or not last.entry.ends_task:
            return  # The tombstone has expired, and the task has been begun anew.
        # It has expired before this came to it, and the old log is still there.
        await put_tombstone(
            bus, key, "", "retention", bus.settings.tombstone_seconds, last.sequence
        )
        last = await last_stored(bus, key)
    is_deleted = last is not None and last.tombstone is not None and last.tombstone.why == "deleted"
    if is_deleted:
        await _drop_letters(bus, key)
        await FileStore(bus).erase(key)
    else:
        await FileStore(bus).drop(key)
    await purge(bus, bus.streams.runs, bus.subjects.runs_of_task(key))
    if last is not None:
        stream, subject = bus.streams.of_shard(key.shard), bus.subjects.event(key)
        await (erase if is_deleted else purge)(bus, stream, subject, last.sequence)


async def _drop_letters(bus: Bus, key: TaskKey) -> None:
    letters = Letters(bus)
    wanted = Wanted(decode_token(key.tenant), decode_token(key.agent), task=key.task)
    async for letter in letters.find(wanted):
        try:
            await letters.drop(letter.number)
        except LetterUnknown:
            continue
