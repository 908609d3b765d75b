"""In-memory store: for tests, and the reference that the store in Redis is compared with."""

import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import itemgetter

from headrace.model import json_text
from headrace.model.change import Item
from headrace.model.messages import ListTasks
from headrace.model.task import AT_WORK, BARE_MESSAGE, FINISHED, INPUT_REQUIRED, TaskKey
from headrace_task_state.store import (
    LEASE_SECONDS,
    LOOK_AFTER_MS,
    SUMMARY,
    After,
    DueList,
    Fields,
    Heads,
    Ignored,
    Lease,
    LeaseLost,
    LeaseSurvey,
    PositionMoved,
    Progress,
    ProjectionBehind,
    Range,
    StoredPage,
    StoredTask,
    StoreSize,
    TaskChange,
    TaskRemoval,
    ThreadOrder,
    key_of,
    name_of,
)
from headrace_task_state.thread_rows import StoredThread, ThreadRow, output_text
from headrace_task_state.usage import CountedUsage, UsageRow


@dataclass(slots=True)
class _KeptTask:
    """A task; its items are encoded, so that no two tasks share mutable objects."""

    fields: Fields
    history: list[bytes] = field(default_factory=list)
    artifacts: list[bytes] = field(default_factory=list)
    time: int | None = None
    """Time of the status in microseconds; None: the task is on no list."""
    row: ThreadRow | None = None
    """Its row in its thread."""


@dataclass(slots=True)
class _Projection:
    """The contents of one projection. Tasks are keyed by tenant and task id."""

    tasks: dict[tuple[str, str], _KeptTask] = field(default_factory=dict)
    children: dict[tuple[str, str], set[str]] = field(default_factory=lambda: defaultdict(set))
    """Children that a task has requested and that have not ended."""
    due: dict[tuple[Range, DueList], dict[str, int]] = field(
        default_factory=lambda: defaultdict(dict)
    )
    progress: dict[Range, Progress] = field(default_factory=dict)


class MemoryStore:
    """A `Store` in the memory of its process; replicas share the object."""

    name = "memory"

    def __init__(self, ranges: Iterable[Range]) -> None:
        """Create an empty store for `ranges`."""
        self.ranges = list(ranges)
        self.projection = _Projection()
        self.usage = CountedUsage()
        self.projection_number = self.epoch = 0
        self.held: dict[Range, tuple[str, float]] = {}
        """For each lease, its token and when it lapses."""
        self.replicas: dict[str, float] = {}
        self.reader = _MemoryReader(self)

    def leases(self, replica: str) -> "_MemoryLeases":
        """Return the leases of `replica`, whose id is unique."""
        return _MemoryLeases(self, replica)

    def writer(self, lease: Lease) -> "_MemoryWriter":
        """Return the writer for `lease`."""
        return _MemoryWriter(self, lease)

    def holds(self, place: Range, token: str = "") -> bool:
        """Return whether a range is leased, under `token` if one is given."""
        held, until = self.held.get(place, ("", 0.0))
        return until > time.monotonic() and token in ("", held)

    def renew(self, place: Range, token: str) -> None:
        """Extend a lease."""
        self.held[place] = token, time.monotonic() + LEASE_SECONDS

    async def check(self) -> None:
        """Return: this store always answers."""

    async def time(self) -> float:
        """Return the time by this machine's clock, seconds since 1970."""
        return time.time()

    async def memory(self) -> StoreSize:
        """Return nothing: this store has no limit, and its process's memory is measured anyway."""
        return StoreSize(0, 0)

    async def check_writes(self) -> None:
        """Return: writes are always accepted."""

    async def is_other_version_in_use(self) -> bool:
        """Return False: no other version exists."""
        return False

    async def delete_unused_versions(self, interval: float) -> None:
        """Do nothing: no other version exists."""

    async def close(self) -> None:
        """Keep everything, so that the store can be opened again."""


class _MemoryLeases:
    def __init__(self, store: MemoryStore, replica: str) -> None:
        self._store, self._replica = store, replica

    async def renew(self, held: Mapping[Range, Lease]) -> LeaseSurvey:
        store, now = self._store, time.monotonic()
        store.replicas[self._replica] = now + LEASE_SECONDS
        store.replicas = {name: until for name, until in store.replicas.items() if until >= now}
        lost = [place for place, lease in held.items() if not store.holds(place, lease.token)]
        for place, lease in held.items():
            if place not in lost:
                store.renew(place, lease.token)
        free = [place for place in store.ranges if not store.holds(place)]
        return LeaseSurvey(sorted(store.replicas), lost, free)

    async def acquire(self, place: Range) -> Lease | None:
        store = self._store
        if store.holds(place):
            return None
        store.epoch += 1
        token = f"{self._replica}.{store.epoch}"
        store.renew(place, token)
        return Lease(place, token, store.projection_number)

    async def release(self, leases: Iterable[Lease]) -> None:
        for lease in leases:
            if self._store.holds(lease.range, lease.token):
                del self._store.held[lease.range]

    async def leave(self) -> None:
        self._store.replicas.pop(self._replica, None)


class _MemoryWriter:
    def __init__(self, store: MemoryStore, lease: Lease) -> None:
        self._store, self.lease = store, lease

    async def confirm(self) -> None:
        self._check()

    async def progress(self) -> Progress:
        return self._store.projection.progress.get(self.lease.range, Progress())

    async def apply(
        self, expected: Progress, then: Progress, changes: Sequence[TaskChange | TaskRemoval]
    ) -> Ignored:
        self._check()
        place = self.lease.range
        if not (await self.progress()).follows(expected):
            raise PositionMoved("another replica has applied the range")
        self._store.renew(place, self.lease.token)
        self._store.projection.progress[place] = then
        ignored = Ignored([], [])
        for at, change in enumerate(changes):
            key = change.key
            kept = self._store.projection.tasks.get((key.tenant, key.task))
            agent = kept.fields["agent"] if kept is not None else key.agent
            replaced = change.replaces if isinstance(change, TaskChange) else ""
            if agent not in (key.agent, replaced):
                ignored.foreign.append(at)
            elif (sequence := _behind_end(change, kept)) is not None:
                ignored.behind.append(at)
                self._due(DueList.CONTINUED)[name_of(key)] = sequence
            elif isinstance(change, TaskRemoval):
                self._forget(key)
                self._due(DueList.CONTINUED).pop(name_of(key), None)
                self._due(DueList.TOMBSTONES)[f"{name_of(key)}:{key.agent}"] = change.at
            else:
                self._change(change)
        return ignored

    async def complete(self, name: str, sequence: int, task: TaskChange | None) -> bool:
        self._check()
        tenant, _, task_id = key_of(name)
        kept = self._store.projection.tasks.get((tenant, task_id))
        if kept is None or SUMMARY not in kept.fields or kept.fields["sequence"] != str(sequence):
            return False
        if task is None:
            self._forget(TaskKey(tenant, kept.fields["agent"], task_id))
        else:
            self._change(task)
            if task.state in FINISHED and int(task.fields["sequence"]) < sequence:
                # The summary was of an entry behind the end.
                names = self._due(DueList.CONTINUED)
                names[name] = max(sequence, names.get(name, 0))
        return True

    async def due(self, due_list: DueList, until: int, most: int) -> list[str]:
        names = sorted((due, name) for name, due in self._due(due_list).items() if due <= until)
        return [name for _, name in names[:most]]

    async def due_lists(self, lists: Iterable[DueList], until: int) -> set[DueList]:
        return {one for one in lists if min(self._due(one).values(), default=until + 1) <= until}

    async def defer(self, due_list: DueList, dues: Mapping[str, int | None]) -> None:
        self._check()
        names = self._due(due_list)
        for name, due in dues.items():
            if due is None:
                names.pop(name, None)
            elif name in names:
                names[name] = due

    async def settle(self, name: str, sequence: int) -> None:
        self._check()
        names = self._due(DueList.CONTINUED)
        if names.get(name, sequence) <= sequence:
            names.pop(name, None)

    async def fields(self, *names: str) -> list[Fields]:
        keys = map(key_of, names)
        found = (self._store.projection.tasks.get((tenant, task)) for tenant, _, task in keys)
        return [{} if kept is None else dict(kept.fields) for kept in found]

    async def begin_projection(self) -> None:
        self._check()
        self._store.projection_number += 1
        self._store.projection = _Projection()
        self._store.held.clear()

    def _check(self) -> None:
        if not self._store.holds(self.lease.range, self.lease.token):
            raise LeaseLost("the lease was lost")

    def _due(self, due_list: DueList) -> dict[str, int]:
        return self._store.projection.due[self.lease.range, due_list]

    def _change(self, change: TaskChange) -> None:
        key, tasks = change.key, self._store.projection.tasks
        if change.begins:
            self._begin(key, change.log)
        kept = tasks.get((key.tenant, key.task))
        if kept is None or not (change.begins or _continues(change, kept)):
            return
        if change.begins or SUMMARY not in kept.fields:
            # What a summary leaves out is counted with the whole log.
            self._store.usage.count(
                key,
                change.owner if change.begins else kept.fields["owner"],
                change.log,
                change.usage,
                root=change.root,
                copied=change.copied,
            )
        kept.fields |= change.fields
        kept.history += map(json_text.encode, change.history)
        kept.artifacts += map(json_text.encode, change.artifacts)
        if change.urgency is not None:
            self._due(DueList.SUMMARIES)[name_of(key)] = change.urgency
        if change.row is not None:
            kept.row = _row_after(change, kept)
        if change.state:
            kept.time = None if change.state == BARE_MESSAGE else change.time
            self._fall_due(change)
            self._note_children(change, kept)

    def _begin(self, key: TaskKey, log: str) -> None:
        """Replace the task by an empty one; the children requested in the same log stay."""
        tasks, children = self._store.projection.tasks, self._store.projection.children
        known = tasks.get((key.tenant, key.task))
        child_tasks = children.get((key.tenant, key.task), set())
        self._forget(key)
        if known is not None and known.fields["log"] == log:
            children[key.tenant, key.task] = child_tasks
        tasks[key.tenant, key.task] = _KeptTask({})

    def _fall_due(self, change: TaskChange) -> None:
        name = name_of(change.key)
        for due_list in (DueList.AT_WORK, DueList.WAITING):
            self._due(due_list).pop(name, None)
        if change.due is not None:
            waits = change.state == INPUT_REQUIRED
            self._due(DueList.WAITING if waits else DueList.AT_WORK)[name] = change.due
        if change.ended is not None:
            self._due(DueList.ENDED)[name] = change.ended

    def _note_children(self, change: TaskChange, kept: _KeptTask) -> None:
        """Register a child with its parent, and make a task's children due when its run ends."""
        key, due = change.key, self._due(DueList.CHILDREN)
        if parent := kept.fields.get("parent"):
            children = self._store.projection.children[key.tenant, parent]
            if change.ended is None:
                children.add(key.task)
                due.setdefault(name_of(key), round(time.time() * 1000) + LOOK_AFTER_MS)
            else:
                children.discard(key.task)
                due.pop(name_of(key), None)
        if change.state not in AT_WORK:
            for child in self._store.projection.children[key.tenant, key.task]:
                name = name_of(key._replace(task=child))
                if name in due:
                    due[name] = 0

    def _forget(self, key: TaskKey) -> None:
        self._store.projection.tasks.pop((key.tenant, key.task), None)
        self._store.projection.children.pop((key.tenant, key.task), None)
        # What stands in the log stays there.
        for due_list in set(DueList) - {DueList.CONTINUED}:
            self._due(due_list).pop(name_of(key), None)


class _MemoryReader:
    def __init__(self, store: MemoryStore) -> None:
        self._store = store

    async def task(
        self,
        tenant: str,
        task: str,
        history_length: int | None = None,  # noqa: ARG002 - it always returns all
    ) -> StoredTask | None:
        kept = self._store.projection.tasks.get((tenant, task))
        return None if kept is None else _stored(task, kept)

    async def page(
        self,
        query: ListTasks,
        least: int,
        after: After | None,
        heads: Heads,
        *,
        openings: bool = False,
        sought: str = "",  # noqa: ARG002 - it returns others, too
    ) -> StoredPage:
        await self._check_reached(heads)
        every = [
            (kept.time, task, kept)
            for (tenant, task), kept in self._store.projection.tasks.items()
            if kept.time is not None and kept.time >= least
            if tenant == query.tenant and _matches(kept.fields, query)
        ]
        counts = Counter(kept.fields["state"] for *_, kept in every) if openings else {}
        found = [one for one in every if not query.states or one[2].fields["state"] in query.states]
        found.sort(key=itemgetter(0, 1), reverse=not query.oldest_first)
        rest = [one for one in found if after is None or _follows(one[:2], after, query)]
        tasks = [replace(_stored(task, kept), time=at) for at, task, kept in rest]
        if not query.include_artifacts:
            tasks = [replace(task, artifacts=[]) for task in tasks]
        page = tasks[: query.page_size]
        last = After(page[-1].time, page[-1].task) if page else None
        return StoredPage(page, len(found), len(tasks) > len(page), last, counts)

    async def thread_order(self, tenant: str, owner: str, heads: Heads) -> ThreadOrder:
        await self._check_reached(heads)
        mine = [
            (TaskKey(tenant, kept.fields["agent"], task), kept)
            for (of_tenant, task), kept in self._store.projection.tasks.items()
            if (of_tenant, kept.fields["owner"]) == (tenant, owner)
        ]
        contexts = dict[str, int]()
        for _, kept in mine:
            if kept.row is not None and kept.time is not None:
                context = kept.fields["context"]
                contexts[context] = max(contexts.get(context, 0), kept.row.changed)
        ordered = sorted(contexts.items(), key=lambda one: (one[1], one[0].encode()))
        return ThreadOrder(ordered, [key for key, kept in mine if SUMMARY in kept.fields])

    async def threads(self, tenant: str, owner: str, contexts: Sequence[str]) -> list[StoredThread]:
        found = [self._thread(tenant, owner, context) for context in contexts]
        return [one for one in found if one is not None]

    def _thread(self, tenant: str, owner: str, context: str) -> StoredThread | None:
        rows, states = dict[str, ThreadRow](), dict[str, str]()
        for (of_tenant, task), kept in self._store.projection.tasks.items():
            place = of_tenant, kept.fields["owner"], kept.fields["context"]
            if kept.row is not None and kept.time is not None and place == (tenant, owner, context):
                rows[task], states[task] = kept.row, kept.fields["state"]
        return StoredThread.of(context, rows, states) if rows else None

    async def usage(self, tenant: str, days: Sequence[str]) -> list[UsageRow]:
        return self._store.usage.rows(tenant, days)

    async def open_tasks(self, agent: str) -> Counter[str]:
        projection = self._store.projection
        names = {
            name
            for (_, due_list), due in projection.due.items()
            if due_list in (DueList.AT_WORK, DueList.WAITING)
            for name in due
        }
        tasks = (projection.tasks.get((tenant, task)) for tenant, _, task in map(key_of, names))
        return Counter(
            kept.fields.get("version", "")
            for kept in tasks
            if kept is not None and kept.fields["agent"] == agent
        )

    async def advance_completion(self, place: Range, name: str) -> None:
        urgent = self._store.projection.due[place, DueList.SUMMARIES]
        if name in urgent:
            urgent[name] = min(urgent.values()) - 1

    async def _check_reached(self, heads: Heads) -> None:
        at = await self.positions(heads)
        if any(one < head for one, head in zip(at, heads.values(), strict=True)):
            raise ProjectionBehind("the view is being rebuilt; try again")

    async def positions(self, ranges: Iterable[Range]) -> list[int]:
        progress = self._store.projection.progress
        return [progress.get(place, Progress()).position for place in ranges]

    async def progress(self, place: Range) -> Progress:
        return self._store.projection.progress.get(place, Progress())

    async def are_followed(self, ranges: Iterable[Range]) -> bool:
        progress = self._store.projection.progress
        return all(self._store.holds(place) and place in progress for place in ranges)


def _row_after(change: TaskChange, kept: _KeptTask) -> ThreadRow | None:
    """Return the task's row after a change that has been applied. None: it has none."""
    row = change.row
    if row is None or "parent" in kept.fields:
        return None
    output = ""
    if row.shows_output:
        output = output_text(_items(kept.artifacts), int(kept.fields.get("run", 0)))
    return row.applied(kept.row, change.key.agent, output)


def _matches(fields: Fields, query: ListTasks) -> bool:
    return (
        (query.any_owner or fields["owner"] == query.owner)
        and (not query.agents or fields["agent"] in query.agents)
        and query.context in (None, fields["context"])
    )


def _follows(place: tuple[int, str], after: After, query: ListTasks) -> bool:
    behind = (after.time, after.task)
    return place > behind if query.oldest_first else place < behind


def _stored(task: str, kept: _KeptTask) -> StoredTask:
    history, artifacts = _items(kept.history), _items(kept.artifacts)
    return StoredTask(task, 0, dict(kept.fields), history, artifacts)


def _items(encoded: Iterable[bytes]) -> list[Item]:
    return [json_text.decode(item) for item in encoded]


def _continues(change: TaskChange, kept: _KeptTask) -> bool:
    """Return whether the task has to be changed.

    A log whose beginning is gone, or that is not the known one, makes no task, and one that has
    ended has these entries.
    """
    return kept.fields["log"] == change.log and kept.fields.get("state") not in FINISHED


def _behind_end(change: TaskChange | TaskRemoval, kept: _KeptTask | None) -> int | None:
    """Return the stream sequence of `change` if that is behind the end of the task's log."""
    if kept is None or isinstance(change, TaskRemoval) or change.key.agent != kept.fields["agent"]:
        return None
    sequence = int(change.fields["sequence"])
    follows = kept.fields.get("state") in FINISHED and sequence > int(kept.fields["sequence"])
    return sequence if follows else None
