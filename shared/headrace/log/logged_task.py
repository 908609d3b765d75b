"""A task read from its log alone: where that takes least, or no view is available or up to date."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from headrace.jetstream.connection import Bus
from headrace.log.read import (
    Tombstone,
    headers_of,
    last_raw,
    replay,
    short_log,
    tombstone_of,
)
from headrace.model.entry import Entry
from headrace.model.errors import LogLost, TaskUnknown
from headrace.model.fold import TaskFold
from headrace.model.messages import GetTask, TaskFound
from headrace.model.subjects import is_token, stream_of_shard
from headrace.model.task import FINISHED, TaskKey, is_task_id
from headrace.wait_for import ELECTION


@dataclass(slots=True)
class LoggedTask:
    """A task and its data outside A2A's Task."""

    fold: TaskFold
    owner: str
    """Empty: unknown, because the log's beginning is gone."""
    agent: str
    log: str
    sequence: int
    """Stream sequence of the last entry that the fold reflects."""
    entries: Sequence[Entry] = ()
    """The whole log as it is stored, if it is short and was read for that."""

    @classmethod
    def started_by(cls, first: Entry, agent: str) -> "LoggedTask":
        """Return the task of the log that begins with `first`, before any entry is folded in."""
        stamp = first.stamp
        return cls(TaskFold(), stamp.owner or "", agent, stamp.log, 0)

    def add(self, entry: Entry) -> None:
        """Fold in the next entry.

        Raises:
            LogLost: It belongs to another log.
        """
        if entry.stamp.log != self.log:
            raise LogLost("another log has begun since the last read")
        self.fold.apply_entry(entry)
        self.sequence = entry.sequence

    @property
    def is_over(self) -> bool:
        """Whether the log has ended: what stands behind that changes nothing."""
        return self.fold.state in FINISHED

    def is_for(self, query: GetTask) -> bool:
        """Return whether the task matches `query` and belongs to the caller.

        A log in which no event states the task's status is no task. Workers write it like that
        only if they are hostile.
        """
        is_callers = query.any_owner or query.owner == self.owner
        return is_callers and query.agent in (None, self.agent) and bool(self.fold.state)

    def found(self, history_length: int | None) -> TaskFound:
        """Return the answer to a query for the task."""
        return TaskFound(
            task=self.fold.task(history_length),
            agent=self.agent,
            log=self.log,
            generation=self.fold.generation,
            sequence=self.sequence,
            state=self.fold.state,
            traceparent=self.fold.standing.traceparent,
            version=self.fold.standing.version,
        )


async def fold_log(
    bus: Bus, key: TaskKey, head: int, known: LoggedTask | None = None
) -> LoggedTask | None:
    """Return the task at `key` up to stream sequence `head`, continuing from `known`.

    None: the log has no entries or has lost its beginning.

    Raises:
        BusUnavailable: No replica of the log answers.
    """
    if known is not None and (known.sequence >= head or known.is_over):
        return known
    task = known
    try:
        async for batch in replay(bus, key, known.sequence if known else 0, head):
            for entry in batch:
                task = task or LoggedTask.started_by(entry, key.agent)
                task.add(entry)
    except LogLost:
        # Purged except for its last message, or another log has begun.
        return None if known is None else await fold_log(bus, key, head)
    return task


async def log_of(bus: Bus, query: GetTask, timeout: float = ELECTION) -> tuple[TaskKey, int] | None:
    """Return the key and last sequence of the log for `query`. None: no such log.

    Raises:
        TaskUnknown: The name is not valid for a task, or the task was deleted.
        BusUnavailable: No leader answered within `timeout` seconds.
    """
    key = _key_of(bus, query)
    if key is None:
        raise TaskUnknown
    message = await last_raw(bus, key, timeout)
    if message is None:
        return None
    if (tombstone := tombstone_of(headers_of(message))) is not None:
        raise _forgotten(query, tombstone)
    return bus.subjects.key_of_event(message["subject"]), int(message["seq"])


def _key_of(bus: Bus, query: GetTask) -> TaskKey | None:
    """Return where the log for `query` is. None: a name is not valid, so there is none.

    Without an agent, the key has a wildcard, which finds the log: task ids are unique.
    """
    names = (query.tenant, query.agent or query.tenant)
    if not is_task_id(query.task) or not all(map(is_token, names)):
        return None
    key = TaskKey(query.tenant, query.agent or "*", query.task)
    return key if stream_of_shard(key.shard) < bus.settings.event_streams else None


def _forgotten(query: GetTask, tombstone: Tombstone) -> TaskUnknown:
    """Return the error for a deleted task: other callers must not learn that it existed."""
    if tombstone.owner != query.owner:
        return TaskUnknown()
    if tombstone.why == "deleted":
        return TaskUnknown("this task was deleted")
    return TaskUnknown("this task is past retention and was deleted")


SHORT = 48
"""Events of a log up to which its reader should read it. Asking task state takes about 1 ms of
processor time over all processes, reading about 15 µs per entry."""

_LIMITS = SHORT, 128 * 1024
"""The same, and in bytes: a message may be long."""


type Shown = Callable[[Sequence[Entry]], Sequence[Entry]]
"""Converts the entries of a log for who reads them."""


async def task_in_short_log(
    bus: Bus, query: GetTask, shown: Shown | None = None
) -> LoggedTask | None:
    """Return the caller's task as of now, if no run is active and its log is short.

    None: task state must be asked. It also decides what a caller
    learns of a task that does not exist, or is not the caller's.

    Raises:
        BusUnavailable: No leader of the log answered.
        LogLost, LogTooNew: As `short_log`.
    """
    key = _key_of(bus, query)
    # A hostile worker may write under the id of another agent's task, and a wildcard may find that.
    if key is None or query.agent is None:
        return None
    entries = await short_log(bus, key, None if query.any_owner else query.owner, _LIMITS)
    return task_of(query, key.agent, entries, shown) if entries else None


def task_of(
    query: GetTask,
    agent: str,
    entries: Sequence[Entry],
    shown: Shown | None = None,
    fold: TaskFold | None = None,
) -> LoggedTask | None:
    """Return the task of `agent` whose whole log these entries are. None: it isn't the caller's.

    `fold` is what they make of it, if that is known.

    Raises:
        LogLost: They belong to several logs.
    """
    if fold is None:
        task = LoggedTask.started_by(entries[0], agent)
        for entry in entries if shown is None else shown(entries):
            task.add(entry)
        task.entries = entries
    else:
        first = entries[0].stamp
        owner, sequence = first.owner or "", entries[-1].sequence
        task = LoggedTask(fold, owner, agent, first.log, sequence, entries)
    return task if task.is_for(query) else None


async def task_in_log(bus: Bus, query: GetTask) -> TaskFound:
    """Return the task as of now, from its log alone.

    Raises:
        TaskUnknown: The task does not exist or is not the caller's.
        BusUnavailable: NATS does not answer.
    """
    tail = await log_of(bus, query)
    task = None if tail is None else await fold_log(bus, *tail)
    if task is None or not task.is_for(query):
        raise TaskUnknown
    return task.found(query.history_length)
