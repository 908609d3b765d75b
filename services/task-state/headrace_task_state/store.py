"""The store's interface: what is kept of the logs to list, read and maintain tasks.

The store is a projection: if it is lost, it is rebuilt from the logs. This module does not depend
on how it is stored.
"""

import dataclasses
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

from headrace.model import json_text
from headrace.model.change import Item, TaskFields
from headrace.model.errors import HeadraceError, StateUnavailable
from headrace.model.messages import ListTasks
from headrace.model.task import TaskKey
from headrace_task_state.thread_rows import RowChange, StoredThread
from headrace_task_state.usage import UsageRecord, UsageRow

LARGEST_NUMBER = 2**53 - 1
"""The largest number that a store takes, because it may keep numbers as doubles.

As a time by which lists are ordered (us since 1970) it is in the year 2255; no stream's sequence
reaches it."""


@dataclasses.dataclass(frozen=True, slots=True, order=True)
class Range:
    """The shards that one replica applies, in order: all shards of one event stream.

    A range is not a part of a stream, because its consumer would need filters. Reading back through
    blocks of 2,000 subjects, nats-server 2.15 took about 300 µs a message for a consumer with four
    filters, 20 µs with one filter and 4 µs with none. A stream receives less than one replica can
    apply, and a fleet that outgrows that adds streams.
    """

    stream: int
    """Number of the event stream."""

    @property
    def name(self) -> str:
        """The range's name in keys, consumers and logs."""
        return str(self.stream)


def all_ranges(event_streams: int) -> list[Range]:
    """Return all ranges of that many event streams, in order."""
    return [Range(number) for number in range(event_streams)]


LEASE_SECONDS = 3.0
"""Seconds that a lease lasts without renewal, and until a dead replica is replaced."""

LOOK_AFTER_MS = 30_000
"""Milliseconds until the parent of a child task is checked."""

SUMMARY = "summary"
"""The field of a task of which only the last entry is known."""

type Heads = Mapping[Range, int]
"""One stream sequence per range that the projection has reached when it is read."""

type Fields = dict[str, str]
"""The fields of a task that events overwrite, by name (`TaskChange.fields`)."""


def name_of(key: TaskKey) -> str:
    """Return the task's name in the store: task ids are unique, whatever their agents are."""
    return f"{key.tenant}:{key.task}"


def key_of(name: str, agent: str = "") -> TaskKey:
    """Return the key of the task with that name, under `agent` unless the name has an agent."""
    tenant, task, *named = name.split(":")
    return TaskKey(tenant, named[0] if named else agent, task)


def stored_fields(given: TaskFields) -> Fields:
    """Return those of a fold's fields that events have set, as they are stored."""
    values = {"traceparent": given.traceparent, "version": given.version}
    fields = {name: text for name, text in values.items() if text}
    if given.status_generation:
        fields["status_generation"] = str(given.status_generation)
    for name, value in (("status", given.status), ("answer", given.answer)):
        if value:
            fields[name] = json_text.encode(value).decode()
    return fields


def standing_of(task: str, fields: Fields) -> TaskFields:
    """Return the fields of the fold of a stored task."""
    status, answer = (json_text.decode(fields.get(name, "null")) for name in ("status", "answer"))
    return TaskFields(
        task,
        fields["context"],
        int(fields["generation"]),
        status=status or {},
        answer=answer,
        status_generation=int(fields.get("status_generation", 0)),
        traceparent=fields.get("traceparent"),
        version=fields.get("version"),
    )


class LeaseLost(HeadraceError):
    """This replica may not write the range any more; another replica may hold it now."""

    code = "lease_lost"


class PositionMoved(HeadraceError):
    """The range is not at the position that this replica expected: read it again."""

    code = "position_moved"


class ProjectionBehind(StateUnavailable):
    """The projection is behind its earlier position: it was lost, and is being rebuilt."""


@dataclass(frozen=True, slots=True)
class Lease:
    """The right to write one range, until it lapses."""

    range: Range
    token: str
    """Unique to this lease: only its owner can write."""
    projection_number: int
    """Number of the projection to write to."""


@dataclass(frozen=True, slots=True)
class LeaseSurvey:
    """The live replicas and the leases, as of one moment."""

    replicas: list[str]
    """Ids of the live replicas, sorted."""
    lost: list[Range]
    """Ranges that the calling replica no longer holds."""
    free: list[Range]
    """Ranges that no replica holds."""


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a range has been applied; it is written with every batch."""

    position: int = 0
    """Stream sequence up to which everything of the range has been applied."""
    last: int = 0
    """Sequence of the last message applied; the messages in between are other ranges'."""
    time: int = 0
    """When NATS stored that message, nanoseconds since 1970."""
    origin: str = ""
    """When the stream of these sequences was created, in NATS' notation."""
    began: int = 0
    """When the projection of the range began, by NATS' clock, milliseconds since 1970. It begins
    again when a stream is lost or replaced by an older copy. 0: unknown."""
    summarized: int = 0
    """Sequence up to which only the last entry of each log was applied."""
    summaries: int = 0
    """Batches of last entries applied. Until the last one, they are all that has changed."""

    def follows(self, other: "Progress") -> bool:
        """Return whether the same batches were applied before both."""
        return (self.position, self.summaries) == (other.position, other.summaries)

    @property
    def is_summarizing(self) -> bool:
        """Whether last entries are still to come."""
        return self.position < self.summarized


class DueList(StrEnum):
    """Tasks of a range in the order in which they fall due, mostly milliseconds since 1970."""

    AT_WORK = "w"
    """Inputs that no worker has started, and running tasks: when to check them."""
    WAITING = "i"
    """Tasks that wait for their user: since when."""
    ENDED = "e"
    """Ended tasks: when they ended."""
    TOMBSTONES = "b"
    """Tasks that have left the projection and may have data left elsewhere: when a tombstone
    replaced their log."""
    CHILDREN = "d"
    """Child tasks that have not ended: when to check their parents."""
    SUMMARIES = "s"
    """Tasks to complete from their logs: when; the most urgent have times long ago."""
    CONTINUED = "f"
    """Ended tasks whose logs go on behind the end: the newest stream sequence there, no time."""


@dataclass(slots=True)
class TaskChange:
    """The changes of a batch in one task."""

    key: TaskKey
    log: str
    """Id of the log; a change is made only if this log has begun."""
    begins: bool = False
    """Whether its log begins here; earlier data of the task belongs to another log."""
    urgency: int | None = None
    """For a summary, which contains only the log's last entry: its time on the list SUMMARIES, ms.
    """
    replaces: str = ""
    """Agent whose task of this id it replaces, because this log began before that one's."""
    owner: str = ""
    """The owner as a subject token, if the log begins here."""
    context: str = ""
    """The context id, if the log begins here."""
    begins_child: bool = False
    """Whether another task requested this one, if the log begins here."""
    state: str = ""
    """The task's state, or BARE_MESSAGE, which removes it from the lists; empty: unchanged."""
    time: int = 0
    """Time of the status, microseconds since 1970, by which lists are ordered; with a state."""
    due: int | None = None
    """With a state: when to check the task, or since when it waits for its user, ms."""
    ended: int | None = None
    """With a state that ends the task: when that was, milliseconds since 1970."""
    fields: Fields = field(default_factory=dict)
    """The fields that events overwrite, if changed: ``log``, ``agent``, ``owner``, ``context``,
    ``state``, ``status`` and ``answer`` (JSON) with the ``status_generation`` of the last of them,
    ``generation`` and ``sequence`` of the last event; ``summary`` while
    history and artifacts are still to be read from the log; of the newest input its generation
    (``run``), when it was ``submitted`` and its start deadline (``start_by``; 0: none), ms, its
    ``priority`` and ``traceparent``; the ``version`` that the task is pinned to; ``parent``,
    ``parent_agent`` and ``parent_run`` of a child task."""
    history: list[Item] = field(default_factory=list)
    """New history items, after the existing ones (`headrace.model.change`)."""
    artifacts: list[Item] = field(default_factory=list)
    """New artifact items, after the existing ones."""
    usage: list[UsageRecord] = field(default_factory=list)
    """Usage in the log's events, in order."""
    root: str = ""
    """Agent of the task at the root of a child task, if the log begins here."""
    copied: int = 0
    """Generation up to which the log is a copy of another task's, if it begins here."""
    row: RowChange | None = None
    """The change of its row in its thread. None: no run has begun or ended."""


@dataclass(frozen=True, slots=True)
class TaskRemoval:
    """A task leaves the projection: a tombstone has replaced its log."""

    key: TaskKey
    at: int
    """When the tombstone was stored, milliseconds since 1970."""
    owner: str = ""
    """The owner as a subject token, if the tombstone has it."""


@dataclass(frozen=True, slots=True)
class Ignored:
    """The changes of a batch that the store has ignored, by their places in the batch."""

    foreign: list[int]
    """Changes from another agent's log of a task."""
    behind: list[int]
    """Changes by what stands behind a task's end in its log. The task is now on CONTINUED."""


@dataclass(frozen=True, slots=True)
class StoredTask:
    """A task as stored."""

    task: str
    time: int
    """Time of the status by which it was found in a list, us since 1970; 0 outside of lists."""
    fields: Fields
    history: list[Item]
    artifacts: list[Item]

    @property
    def is_summary(self) -> bool:
        """Whether all but the last entry is still to be read from the log."""
        return SUMMARY in self.fields


@dataclass(frozen=True, slots=True)
class StoredPage:
    """One page of a list."""

    tasks: list[StoredTask]
    total: int
    """Tasks of the whole list."""
    more: bool
    """Whether another page follows."""
    last: "After | None"
    """The place of the last task that was looked at, where the next page begins. None: none was."""
    counts: Mapping[str, int] = field(default_factory=dict)
    """Tasks by state, whatever states the query names; only with `openings`."""


@dataclass(frozen=True, slots=True)
class After:
    """Where a page begins: after this task, which had this time."""

    time: int
    """Microseconds since 1970, from 0 to `LARGEST_NUMBER`."""
    task: str


@dataclass(frozen=True, slots=True)
class ThreadOrder:
    """The threads of an owner."""

    contexts: list[tuple[str, int]]
    """Their contexts and when they were changed (us since 1970), in the order of these times."""
    summaries: list[TaskKey]
    """Tasks of the owner that are summaries, so that their threads are not complete."""


@dataclass(frozen=True, slots=True)
class StoreSize:
    """The memory of a store's server, in bytes."""

    used: int
    limit: int
    """0: unlimited."""


class Leases(Protocol):
    """One replica's leases: which ranges it may write, and which other replicas share them.

    Every call raises StateUnavailable while the store does not answer.
    """

    async def renew(self, held: Mapping[Range, Lease]) -> LeaseSurvey:
        """Register this replica as running, renew its leases, and return the current census.

        A lease that is not renewed expires after `LEASE_SECONDS`, as does the replica's
        registration.
        """

    async def acquire(self, place: Range) -> Lease | None:
        """Acquire the lease of a range; None: another replica holds it."""

    async def release(self, leases: Iterable[Lease]) -> None:
        """Release ranges so that other replicas need not wait until the leases lapse."""

    async def leave(self) -> None:
        """Unregister this replica."""


class Writer(Protocol):
    """Writes one range under one lease.

    Every call that writes raises LeaseLost once the lease is gone, and then changes nothing. Every
    call raises StateUnavailable while the store does not answer; it may have written.
    """

    @property
    def lease(self) -> Lease:
        """The lease under which it writes."""

    async def confirm(self) -> None:
        """Raise LeaseLost if the lease is gone."""

    async def progress(self) -> Progress:
        """Return how far the range has been applied; `Progress()` is the beginning."""

    async def apply(
        self, expected: Progress, then: Progress, changes: Sequence[TaskChange | TaskRemoval]
    ) -> Ignored:
        """Make changes in order and advance the range, atomically; this also renews the lease.

        Raises:
            PositionMoved: the range is not at `expected` (its `position` and `summaries`), and
                nothing has changed.
        """

    async def complete(self, name: str, sequence: int, task: TaskChange | None) -> bool:
        """Replace the summary of the entry at `sequence` by the content of the whole log.

        Args:
            name: the task's name.
            sequence: stream sequence of the entry that the summary describes.
            task: the log's content; None: the log makes no task.

        Returns:
            False if more has been applied or there is no summary; then nothing has changed.
        """

    async def due(self, due_list: DueList, until: int, most: int) -> list[str]:
        """Return the earliest `most` names on a list of the range that are due by `until`, ms.

        Names are those of `name_of`, on the list TOMBSTONES with ``:<agent>`` behind them.
        """

    async def due_lists(self, lists: Iterable[DueList], until: int) -> set[DueList]:
        """Return those of `lists` on which a name is due by `until`, ms."""

    async def defer(self, due_list: DueList, dues: Mapping[str, int | None]) -> None:
        """Defer names that are on the list, each until its time, ms; None: remove it."""

    async def settle(self, name: str, sequence: int) -> None:
        """Remove a task from the list CONTINUED, unless its log goes on behind `sequence`."""

    async def fields(self, *names: str) -> list[Fields]:
        """Return each task's fields that events overwrite; empty if the task does not exist."""

    async def begin_projection(self) -> None:
        """Replace a projection made of logs that are gone by an empty one; every lease ends."""


class Reader(Protocol):
    """Reads the projection, each answer as of one moment.

    Every call raises StateUnavailable while the store does not answer.
    """

    async def task(
        self, tenant: str, task: str, history_length: int | None = None
    ) -> StoredTask | None:
        """Return a task; None: it is not in the projection.

        Its history may lack what its metadata and its last `history_length` messages (None: all) do
        not need, as may those of a page.
        """

    async def page(
        self,
        query: ListTasks,
        least: int,
        after: After | None,
        heads: Heads,
        *,
        openings: bool = False,
        sought: str = "",
    ) -> StoredPage:
        """Return a page of a list: newest status first, tasks of equal time by descending id.

        With `oldest_first`, it is the other way round.
        Tasks whose status is older than `least` (us since 1970, from 0 to `LARGEST_NUMBER`) are
        excluded.
        Without `after`, it is the first page.
        With `openings`, the history of each task begins with its first item and may lack all
        others, and the tasks are counted by state. With `sought`, words in lower case, only
        those of the page are returned whose id or opening may contain all of them, and summaries.

        Raises:
            ProjectionBehind: the projection has not reached `heads` (any more).
        """

    async def advance_completion(self, place: Range, name: str) -> None:
        """Move the completion of the summary of `name` to the front."""

    async def thread_order(self, tenant: str, owner: str, heads: Heads) -> ThreadOrder:
        """Return which threads an owner has.

        Raises:
            ProjectionBehind: the projection has not reached `heads` (any more).
        """

    async def threads(self, tenant: str, owner: str, contexts: Sequence[str]) -> list[StoredThread]:
        """Return the owner's threads with these contexts, without those that do not exist."""

    async def usage(self, tenant: str, days: Sequence[str]) -> list[UsageRow]:
        """Return what a tenant used on these days (``YYYY-MM-DD``, UTC), in any order."""

    async def open_tasks(self, agent: str) -> Counter[str]:
        """Return how many of the agent's tasks are not over, by the version they are pinned to."""

    async def positions(self, ranges: Iterable[Range]) -> list[int]:
        """Return the stream sequence up to which each range has been applied."""

    async def progress(self, place: Range) -> Progress:
        """Return how far the range has been applied; `Progress()` is the beginning."""

    async def are_followed(self, ranges: Iterable[Range]) -> bool:
        """Return whether every range is being applied by a replica."""


class Store(Protocol):
    """A fleet's projection, shared by all replicas of task state.

    A query raises StateUnavailable if the store does not answer.
    """

    @property
    def name(self) -> str:
        """Display name and address, for logs."""

    @property
    def reader(self) -> Reader:
        """Reader of the projection in use."""

    def leases(self, replica: str) -> Leases:
        """Return the leases of `replica`, whose id is unique."""

    def writer(self, lease: Lease) -> Writer:
        """Return the writer for `lease`."""

    async def check(self) -> None:
        """Return if the store answers.

        Raises:
            ConnectionError: it does not.
        """

    async def time(self) -> float:
        """Return the time by the store's clock, seconds since 1970."""

    async def memory(self) -> StoreSize:
        """Return the store's memory."""

    async def check_writes(self) -> None:
        """Return if the store accepts writes.

        Raises:
            StateUnavailable: it refuses them, or does not answer.
        """

    async def is_other_version_in_use(self) -> bool:
        """Return whether live replicas keep a projection of another version."""

    async def delete_unused_versions(self, interval: float) -> None:
        """Delete views of other versions that no replica keeps, every `interval` seconds."""

    async def close(self) -> None:
        """Disconnect."""
