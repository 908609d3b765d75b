"""What is kept of the logs so that they can be listed, read and looked after.

The store is a projection: lost, it is built from the logs again. Nothing here knows how it is kept.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

from headrace.model.errors import HeadraceError, StateUnavailable
from headrace.model.fold import Item
from headrace.model.messages import ListTasks
from headrace.model.task import TaskKey
from headrace_task_state.ranges import Range

LEASE_SECONDS = 3.0
"""How long a lease holds without being renewed: a dead replica is missed so long."""

LOOK_AFTER_MS = 30_000
"""Milliseconds after which the parent of a task that another one has asked for is looked at."""

SUMMARY = "summary"
"""The field of a task of which no more than the last entry is known."""

type Heads = Mapping[Range, int]
"""Stream sequences, one of each range, that the projection has reached which is read."""

type Fields = dict[str, str]
"""What of a task each event overwrites, by name (`TaskChange.fields`)."""


class LeaseLost(HeadraceError):
    """Another replica writes the range now, or nobody does; this one may not."""

    code = "lease_lost"


class PositionMoved(HeadraceError):
    """The range is not where this replica left it: it must look again."""

    code = "position_moved"


class ProjectionBehind(StateUnavailable):
    """The projection is not where it was a moment ago: it was lost, and is being rebuilt."""


@dataclass(frozen=True, slots=True)
class Lease:
    """The right to write one range, until it lapses."""

    range: Range
    token: str
    """Unique to this taking of the lease: only who knows it can write."""
    era: int
    """Number of the projection to write to."""


@dataclass(frozen=True, slots=True)
class Census:
    """Who lives and what is held, as of one moment."""

    replicas: list[str]
    """Ids of the live replicas, sorted."""
    lost: list[Range]
    """What the asking replica does not hold any more."""
    free: list[Range]
    """What nobody holds."""


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a range has been applied; it is written with every batch."""

    position: int = 0
    """Stream sequence up to which everything of the range has been applied."""
    last: int = 0
    """Sequence of the last message applied; what lies between is other ranges'."""
    time: int = 0
    """When NATS stored that message, nanoseconds since 1970."""
    origin: str = ""
    """When the stream was made that these sequences are of, as NATS writes it."""
    summarized: int = 0
    """Sequence up to which the last entry of each log was applied, and no other."""

    @property
    def is_summarizing(self) -> bool:
        """Whether last entries are still to come."""
        return self.position < self.summarized


class DueList(StrEnum):
    """Tasks of a range in the order in which they fall due, milliseconds since 1970."""

    AT_WORK = "w"
    """Inputs that no worker has taken up, and tasks at work: when to look at them."""
    WAITING = "i"
    """Tasks that wait for their user: since when."""
    ENDED = "e"
    """Ended tasks: when they ended."""
    TOMBSTONES = "b"
    """Tasks that have left the projection and of which something may be left elsewhere: when a
    tombstone took their log's place."""
    ASKED_FOR = "d"
    """Tasks that other tasks have asked for and that have not ended: when to look at the parent."""
    SUMMARIES = "s"
    """Tasks that are to be completed from their logs: when to, the most urgent long ago."""


@dataclass(slots=True)
class TaskChange:
    """What a batch changes in one task."""

    key: TaskKey
    log: str
    """Id of the log; a change is made only where this log has begun."""
    begins: bool = False
    """Whether its log begins here; what was known of the task before is another log's."""
    urgency: int | None = None
    """Of a summary, which knows no more of the log than its last entry: when on the list SUMMARIES
    it is, ms."""
    replaces: str = ""
    """Agent whose task of this id it replaces, because this log began before that one's."""
    owner: str = ""
    """As a subject token, where the log begins."""
    context: str = ""
    """Where the log begins."""
    is_asked_for: bool = False
    """Whether the log begins with the question of another task."""
    state: str = ""
    """The task's state, or ANSWERED, which takes it off the lists; empty: as it was."""
    time: int = 0
    """Time of the status, microseconds since 1970, by which lists are ordered; with a state."""
    due: int | None = None
    """With a state: when to look at the task, or since when it waits for its user, ms."""
    ended: int | None = None
    """With a state that ends the task: when that was, milliseconds since 1970."""
    fields: Fields = field(default_factory=dict)
    """What each event overwrites, those that change: ``log``, ``agent``, ``owner``, ``context``,
    ``state``, ``status`` (JSON) with its ``status_generation``, ``answer`` (JSON) with its
    ``answer_generation``, ``generation`` and ``sequence`` of the last event; ``summary`` while
    history and artifacts are still to be read from the log; of the newest input
    its generation (``run``), when it was ``submitted`` and must be begun (``start_by``; 0: no
    matter), ms, its ``priority`` and ``traceparent``; ``parent``, ``parent_agent`` and
    ``parent_run`` where another task has asked."""
    history: list[Item] = field(default_factory=list)
    """What comes after the history items that there are (`headrace.model.fold`)."""
    artifacts: list[Item] = field(default_factory=list)
    """The same of artifact items."""


@dataclass(frozen=True, slots=True)
class Departure:
    """A task leaves the projection: a tombstone has taken its log's place."""

    key: TaskKey
    at: int
    """When that was, milliseconds since 1970."""


@dataclass(frozen=True, slots=True)
class StoredTask:
    """A task as the store has it."""

    task: str
    time: str
    """Time of the status by which it was found in a list, if in one; us since 1970."""
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
    """Whether there is a page behind this one."""


@dataclass(frozen=True, slots=True)
class After:
    """Where a page begins: behind this task, which had this time (us since 1970)."""

    time: str = ""
    task: str = ""


class Leases(Protocol):
    """One replica's leases: who may write which range, and who else is there to share them with.

    Every call raises StateUnavailable while the store does not answer.
    """

    async def renew(self, held: Mapping[Range, Lease]) -> Census:
        """Say that this replica lives, renew what it holds, and see what there is.

        A lease that is not renewed lapses after `LEASE_SECONDS`, and so does the replica.
        """

    async def take(self, place: Range) -> Lease | None:
        """Take a range; None: somebody else holds it."""

    async def release(self, leases: Iterable[Lease]) -> None:
        """Give ranges back so that others need not wait until they lapse."""

    async def leave(self) -> None:
        """Say that this replica is gone."""


class Writer(Protocol):
    """Writes one range under one lease.

    Every call that writes raises LeaseLost once the lease is gone, and changes nothing then; every
    call raises StateUnavailable while the store does not answer: it may have written.
    """

    @property
    def lease(self) -> Lease:
        """What it writes under."""

    async def progress(self) -> Progress:
        """Return how far the range has been applied; `Progress()` is the beginning."""

    async def apply(
        self, expected: Progress, then: Progress, changes: Iterable[TaskChange | Departure]
    ) -> list[str]:
        """Make changes in their order and move the range on, in one step; it renews the lease.

        What another agent's log says of a task changes nothing: the names of these are returned,
        ``<tenant>:<task>:<agent>``.

        Raises:
            PositionMoved: the range is not at `expected`, and nothing has changed.
        """

    async def complete(self, name: str, sequence: int, task: TaskChange | None) -> bool:
        """Put all that is in a log in place of the summary of the entry with that `sequence`.

        None: the log makes no task. False: more has been applied, or there is no summary; then
        nothing has changed.
        """

    async def due(self, due_list: DueList, until: int, most: int) -> list[str]:
        """Return names on a list of the range that are due by `until`, ms; the earliest `most`.

        A name is ``<tenant>:<task>``, on the list BURIED ``<tenant>:<task>:<agent>``.
        """

    async def defer(self, due_list: DueList, name: str, due: int | None) -> None:
        """Put off a name that is on the list until `due`, ms; None: take it off."""

    async def fields(self, name: str) -> Fields:
        """Return what of a task each event overwrites; empty: it is not there."""

    async def begin_era(self) -> None:
        """Leave a projection made of logs that are gone for an empty one; every lease ends."""


class Reader(Protocol):
    """Reads the projection, each answer as of one moment.

    Every call raises StateUnavailable while the store does not answer.
    """

    async def task(self, tenant: str, task: str) -> StoredTask | None:
        """Return a task; None: it is not in the projection."""

    async def page(self, query: ListTasks, least: str, after: After, heads: Heads) -> StoredPage:
        """Return a page of a list: newest status first, tasks of equal time by id, backwards.

        Tasks whose status is older than `least` (us since 1970, or ``-inf``) are none of it.

        Raises:
            ProjectionBehind: the projection has not reached `heads` (any more).
        """

    async def hasten(self, place: Range, name: str) -> None:
        """Have the summary of `name` completed before all others."""

    async def positions(self, ranges: Iterable[Range]) -> list[int]:
        """Return up to where each range has been applied."""

    async def are_followed(self, ranges: Iterable[Range]) -> bool:
        """Tell whether every range is being applied by somebody."""


class Store(Protocol):
    """Where the projection of a fleet is kept, shared by all replicas of task state."""

    @property
    def name(self) -> str:
        """What it is and where, for a log."""

    @property
    def reader(self) -> Reader:
        """Reads the projection in use."""

    def leases(self, replica: str) -> Leases:
        """Return the leases of `replica`, whose id is unique."""

    def writer(self, lease: Lease) -> Writer:
        """Return what writes under `lease`."""

    async def check(self) -> None:
        """Return if it answers.

        Raises:
            ConnectionError: it does not.
        """

    async def time(self) -> float:
        """Return the time by its clock, seconds since 1970.

        Raises:
            StateUnavailable: it does not answer.
        """

    async def is_another_kept(self) -> bool:
        """Tell whether live replicas keep a projection of another version.

        Raises:
            StateUnavailable: it does not answer.
        """

    async def delete_unkept(self) -> None:
        """Delete projections of other versions that no replica keeps, again and again."""

    async def close(self) -> None:
        """Hang up."""
