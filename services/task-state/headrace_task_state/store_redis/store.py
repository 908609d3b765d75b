"""The store in Redis or Valkey: leases of ranges, reads, writes and versions of the view."""

import asyncio
import logging
import secrets
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from headrace.model import json_text
from headrace.model.change import Item
from headrace.model.errors import StateUnavailable
from headrace.model.messages import ListTasks
from headrace.model.task import TaskKey
from headrace_task_state.store import (
    LARGEST_NUMBER,
    LEASE_SECONDS,
    LOOK_AFTER_MS,
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
    TaskChange,
    TaskRemoval,
    ThreadOrder,
)
from headrace_task_state.store_redis.connection import (
    ANSWER_TIMEOUT,
    Argument,
    Connection,
)
from headrace_task_state.store_redis.encoding import (
    NewTaskBatch,
    encoded,
    fields_of,
    items_in,
    row_in,
)
from headrace_task_state.store_redis.settings import RedisSettings
from headrace_task_state.thread_rows import StoredThread
from headrace_task_state.usage import KEPT_DAYS, UsageRow

_log = logging.getLogger(__name__)

SHAPE = "12"
"""Version of the stored data's format, a number. A new version's view is built from the log while
replicas of the old version keep the old view and answer from it. It also changes with the versions
of logs that are read, because entries that could not be read are missing in the old view."""

_AHEAD = 10
"""Later versions that a fleet may have been rolled back from."""

_DAY = 24 * 3600

_WRITTEN_SECONDS = 60

LIFE_MS = round(LEASE_SECONDS * 1000)


@dataclass(frozen=True, slots=True)
class Keys:
    """The keys of one fleet; the parts of a view's keys are built in ``lua/listings.lua``."""

    fleet: str
    """Prefix of all keys, of any version."""
    shape: str

    @classmethod
    def of(cls, prefix: str, stream_prefix: str) -> "Keys":
        """Return the keys of the fleet with these prefixes."""
        fleet = f"{prefix}:{stream_prefix}:" if stream_prefix else f"{prefix}:"
        return cls(fleet, SHAPE)

    @property
    def root(self) -> str:
        """Prefix of the keys of this version."""
        return f"{self.fleet}{self.shape}:"

    def others(self) -> "list[Keys]":
        """Return the keys of other versions that may have left data or be in use."""
        shapes = map(str, range(1, int(self.shape) + _AHEAD))
        return [Keys(self.fleet, shape) for shape in shapes if shape != self.shape]

    @property
    def replicas(self) -> str:
        """Sorted set: the live replicas, by when each expires (ms)."""
        return f"{self.root}replicas"

    @property
    def written(self) -> str:
        """Key that is written to see whether Redis accepts writes."""
        return f"{self.root}written"

    @property
    def projection_number(self) -> str:
        """Number of the view in use; one of logs that are lost is replaced by a new one."""
        return f"{self.root}projection"

    @property
    def usage(self) -> str:
        """Prefix of the keys with usage; they belong to no version, see ``lua/usage.lua``."""
        return f"{self.fleet}usage:"

    def usage_of(self, tenant: str, day: str) -> str:
        """Hash: what a tenant used on a day, by owner, agent, root and kind."""
        return f"{self.usage}d:{tenant}:{day}"

    def lease(self, place: Range) -> str:
        """String that expires: the token of the range's writer."""
        return f"{self.leases}{place.name}"

    @property
    def leases(self) -> str:
        """Prefix of the leases' keys."""
        return f"{self.root}lease:"

    def progress(self, place: Range) -> str:
        """Hash: how far the range has been applied."""
        return f"{self.root}progress:{place.name}"

    def view(self, number: int) -> str:
        """Prefix of a view's keys."""
        return f"{self.root}{number}:"


class RedisLeases:
    """One replica's leases in Redis. Every call raises StateUnavailable without Redis."""

    def __init__(
        self, redis: Connection, keys: Keys, replica: str, ranges: Iterable[Range]
    ) -> None:
        """Manage the leases of `replica`, whose id is unique."""
        self._redis, self._keys, self._replica = redis, keys, replica
        self._ranges = {place.name: place for place in ranges}

    async def renew(self, held: Mapping[Range, Lease]) -> LeaseSurvey:
        """Register this replica as running, renew its leases, and return the current census."""
        tokens = [word for place, lease in held.items() for word in (place.name, lease.token)]
        replicas, lost, free = await self._redis.run(
            "renew",
            [self._keys.replicas],
            [self._replica, LIFE_MS, self._keys.leases, len(held), *tokens, *self._ranges],
        )
        return LeaseSurvey(
            sorted(replica.decode() for replica in replicas),
            [self._ranges[name.decode()] for name in lost],
            [self._ranges[name.decode()] for name in free],
        )

    async def acquire(self, place: Range) -> Lease | None:
        """Acquire the lease of a range; None: another replica was first."""
        # Not from a counter in Redis: one that was emptied would count from the beginning again.
        token = f"{self._replica}.{secrets.token_hex(8)}"
        keys = [self._keys.lease(place), self._keys.projection_number]
        number = await self._redis.run("take", keys, [token, LIFE_MS])
        return None if number is None else Lease(place, token, int(number))

    async def release(self, leases: Iterable[Lease]) -> None:
        """Release ranges so that other replicas need not wait until the leases lapse."""
        held = list(leases)
        keys = [self._keys.lease(lease.range) for lease in held]
        await self._redis.run("release", keys, [lease.token for lease in held])

    async def leave(self) -> None:
        """Unregister this replica."""
        await self._redis.ask(["ZREM", self._keys.replicas, self._replica])


class RedisReader:
    """Reads the view in use. Every call raises StateUnavailable without Redis."""

    def __init__(self, redis: Connection, keys: Keys) -> None:
        """Read the view of one fleet."""
        self._redis, self._keys = redis, keys

    async def task(
        self, tenant: str, task: str, history_length: int | None = None
    ) -> StoredTask | None:
        """Return a task with its last `history_length` messages; None: it is not in the view."""
        pairs, history, artifacts = await self._redis.run(
            "task",
            [self._keys.projection_number],
            [self._keys.root, f"{tenant}:{task}", _or_all(history_length)],
        )
        return _stored_task(task.encode(), b"0", pairs, history, artifacts) if pairs else None

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
        """Return one page; `least` is the minimum time of a status (us since 1970).

        `openings`: with the first item of each history only, and with the counts by state.
        `sought`: only tasks whose id or opening may contain all of these words.

        Raises:
            ProjectionBehind: the view has not reached `heads` (any more).
        """
        positions, total, more, counts, place, *tasks = await self._redis.run(
            "page",
            [self._keys.projection_number, *self._progress(heads)],
            [
                *(
                    self._keys.root,
                    query.tenant,
                    "" if query.any_owner else query.owner,
                    ",".join(query.agents),
                ),
                *("" if query.context is None else "1", query.context or ""),
                least,
                *(("", "") if after is None else (after.time, after.task)),
                query.page_size,
                *("1" if query.include_artifacts else "", _or_all(query.history_length)),
                *("1" if query.oldest_first else "", "1" if openings else "", sought),
                *query.states,
            ],
        )
        _check_reached(heads, positions)
        found = [_stored_task(*task) for task in tasks]
        if not query.include_artifacts:
            found = [replace(one, artifacts=[]) if one.artifacts else one for one in found]
        pairs = zip(counts[::2], counts[1::2], strict=True)
        by_state = {state.decode(): number for state, number in pairs if number}
        last = After(int(place[0]), place[1].decode()) if place else None
        return StoredPage(found, total, more == b"1", last, by_state)

    async def advance_completion(self, place: Range, name: str) -> None:
        """Move the completion of the summary of `name` to the front."""
        [number] = await self._redis.ask(["GET", self._keys.projection_number])
        key = f"{self._keys.view(int(number or 0))}{DueList.SUMMARIES}:{place.name}"
        await self._redis.ask(["ZADD", key, "XX", "-inf", name])

    async def thread_order(self, tenant: str, owner: str, heads: Heads) -> ThreadOrder:
        """Return which threads an owner has.

        Raises:
            ProjectionBehind: the view has not reached `heads` (any more).
        """
        keys = [self._keys.projection_number, *self._progress(heads)]
        positions, summaries, contexts = await self._redis.run(
            "thread_order", keys, [self._keys.root, tenant, owner]
        )
        _check_reached(heads, positions)
        named = (name.decode().split(":") for name in summaries)
        pairs = zip(contexts[::2], contexts[1::2], strict=True)
        return ThreadOrder(
            [(context.decode(), int(time)) for context, time in pairs],
            [TaskKey(tenant, agent, task) for agent, task in named],
        )

    async def threads(self, tenant: str, owner: str, contexts: Sequence[str]) -> list[StoredThread]:
        """Return the owner's threads with these contexts, without those that do not exist."""
        arguments = [self._keys.root, tenant, owner, *contexts]
        found = await self._redis.run("thread_page", [self._keys.projection_number], arguments)
        named = zip(contexts, found, strict=True)
        return [_stored_thread(context, words) for context, words in named if words]

    async def usage(self, tenant: str, days: Sequence[str]) -> list[UsageRow]:
        """Return what a tenant used on these days."""
        found = await self._redis.ask(*(["HGETALL", self._keys.usage_of(tenant, d)] for d in days))
        return [row for day, fields in zip(days, found, strict=True) for row in _rows(day, fields)]

    async def open_tasks(self, agent: str) -> Counter[str]:
        """Return how many of the agent's tasks are not over, by the version they are pinned to."""
        [number] = await self._redis.ask(["GET", self._keys.projection_number])
        view = self._keys.view(int(number or 0))
        [found] = await self._redis.ask(["SMEMBERS", f"{view}n:{agent}"])
        versions = [version.decode() for version in found]
        sizes = (["ZCARD", f"{view}v:{agent}:{version}"] for version in versions)
        return Counter(dict(zip(versions, await self._redis.ask(*sizes), strict=True)))

    async def positions(self, ranges: Iterable[Range]) -> list[int]:
        """Return the stream sequence up to which each range has been applied."""
        queries = [["HGET", self._keys.progress(place), "position"] for place in ranges]
        return [int(position or 0) for position in await self._redis.ask(*queries)]

    async def progress(self, place: Range) -> Progress:
        """Return how far the range has been applied."""
        return await _progress(self._redis, self._keys.progress(place))

    async def are_followed(self, ranges: Iterable[Range]) -> bool:
        """Return whether every range is being applied by a replica."""
        queries = [
            query
            for place in ranges
            for query in (
                ["EXISTS", self._keys.lease(place)],
                ["HEXISTS", self._keys.progress(place), "origin"],
            )
        ]
        return all(await self._redis.ask(*queries))

    def _progress(self, heads: Heads) -> list[str]:
        return [self._keys.progress(place) for place in heads]


async def _progress(redis: Connection, key: str) -> Progress:
    [fields] = await redis.ask(["HGETALL", key])
    return Progress(
        position=int(fields.get(b"position", 0)),
        last=int(fields.get(b"last", 0)),
        time=int(fields.get(b"time", 0)),
        origin=fields.get(b"origin", b"").decode(),
        began=int(fields.get(b"began", 0)),
        summarized=int(fields.get(b"summarized", 0)),
        summaries=int(fields.get(b"summaries", 0)),
    )


def _or_all(length: int | None) -> Argument:
    return "" if length is None else min(length, LARGEST_NUMBER)


def _check_reached(heads: Heads, positions: Iterable[bytes | None]) -> None:
    if any(int(at or 0) < head for at, head in zip(positions, heads.values(), strict=True)):
        raise ProjectionBehind("the view is being rebuilt; try again")


def _stored_task(
    task: bytes,
    time: bytes,
    found: bytes | list[bytes],
    history: list[bytes],
    artifacts: list[bytes],
) -> StoredTask:
    if isinstance(found, bytes):
        history, artifacts = items_in(found)
    return StoredTask(
        task.decode(), int(time), fields_of(found), _items(history), _items(artifacts)
    )


def _stored_thread(context: str, words: Sequence[Any]) -> StoredThread:
    shared, first, last, tasks, state = words
    *_, answered, agents = json_text.decode(shared)
    return StoredThread(
        context,
        row_in(first),
        row_in(last),
        state.decode(),
        tasks,
        int(answered),
        tuple(sorted(agents)),
    )


def _rows(day: str, fields: Mapping[bytes, bytes]) -> Iterator[UsageRow]:
    counts = defaultdict[str, Counter[str]](Counter)
    for name, count in fields.items():
        row, _, kind = name.decode().rpartition(":")
        counts[row][kind] = int(count)
    for row, found in counts.items():
        owner, agent, root = row.split(":")
        yield UsageRow(day, owner, agent, root, found)


def _items(encoded: Iterable[bytes]) -> list[Item]:
    items: list[Item] = json_text.decode(b"[%b]" % b",".join(encoded))
    return items


class RedisWriter:
    """Writes one range under one lease.

    Every call raises LeaseLost once the lease is gone, and StateUnavailable without Redis.
    """

    def __init__(
        self,
        redis: Connection,
        keys: Keys,
        lease: Lease,
        ranges: Iterable[Range],
        usage_days: int,
    ) -> None:
        """Write under `lease`; `ranges` are all ranges of the fleet."""
        self._redis, self._keys, self.lease = redis, keys, lease
        self._ranges = list(ranges)
        self._view = keys.view(lease.projection_number)
        self._usage = keys.usage, usage_days * _DAY

    async def confirm(self) -> None:
        """Raise LeaseLost if the lease is gone."""
        [token] = await self._redis.ask(["GET", self._keys.lease(self.lease.range)])
        self._check(b"fenced" if token != self.lease.token.encode() else token)

    async def progress(self) -> Progress:
        """Return how far the range has been applied."""
        return await _progress(self._redis, self._keys.progress(self.lease.range))

    async def apply(
        self, expected: Progress, then: Progress, changes: Sequence[TaskChange | TaskRemoval]
    ) -> Ignored:
        """Write a batch and advance the range atomically; return which changes were ignored.

        Raises:
            PositionMoved: the range is not at `expected`.
        """
        place = self.lease.range
        fields = [str(word) for pair in asdict(then).items() for word in pair]
        at = [expected.position, expected.summaries]
        head: list[Argument] = [
            self._view,
            place.name,
            LOOK_AFTER_MS,
            *self._usage,
            *at,
            len(fields),
            *fields,
        ]
        together = NewTaskBatch.of(changes, self._view, place.name)
        answer, others = await self._apply(head, together, changes)
        if answer == b"occupied":
            none = NewTaskBatch(self._view, place.name, together.texts)
            answer, others = await self._apply(head, none, changes)
        self._check(answer)
        foreign, behind = answer
        return Ignored([others[at] for at in foreign], [others[at] for at in behind])

    async def _apply(
        self,
        head: Sequence[Argument],
        together: NewTaskBatch,
        changes: Sequence[TaskChange | TaskRemoval],
    ) -> tuple[Any, list[int]]:
        """Send a batch.

        Returns:
            The answer, and the positions of the changes that were not added together.
        """
        keys = [self._keys.lease(self.lease.range), self._keys.progress(self.lease.range)]
        others = [at for at in range(len(changes)) if at not in together.places]
        words = [word for at in others for word in encoded(changes[at], together.texts.get(at))]
        arguments = [self.lease.token, LIFE_MS, *head, *together.script_args(), *words]
        return await self._redis.run("apply", keys, arguments), others

    async def complete(self, name: str, sequence: int, task: TaskChange | None) -> bool:
        """Replace the summary of the entry at `sequence` by the content of the whole log."""
        place = self.lease.range
        answer = await self._redis.run(
            "complete",
            [self._keys.lease(place)],
            [
                *(self.lease.token, self._view, place.name, LOOK_AFTER_MS, *self._usage),
                *(name, sequence),
                *(() if task is None else encoded(task)),
            ],
        )
        self._check(answer)
        return bool(answer)

    async def defer(self, due_list: DueList, dues: Mapping[str, int | None]) -> None:
        """Defer names that are on the list, each until its time, ms; None: remove it."""
        place = self.lease.range
        keys = [self._keys.lease(place), f"{self._view}{due_list}:{place.name}"]
        pairs = (word for name, due in dues.items() for word in (name, "" if due is None else due))
        self._check(await self._redis.run("defer", keys, [self.lease.token, *pairs]))

    async def settle(self, name: str, sequence: int) -> None:
        """Remove a task from the list CONTINUED, unless its log goes on behind `sequence`."""
        place = self.lease.range
        keys = [self._keys.lease(place), f"{self._view}{DueList.CONTINUED}:{place.name}"]
        self._check(await self._redis.run("settle", keys, [self.lease.token, name, sequence]))

    async def begin_projection(self) -> None:
        """Abandon a view made of logs that are gone; the lease ends with it."""
        places = [self._keys.progress(place) for place in self._ranges]
        leases = [self._keys.lease(place) for place in self._ranges]
        keys = [self._keys.lease(self.lease.range), self._keys.projection_number, *places, *leases]
        left = await self._redis.run("begin_projection", keys, [self.lease.token])
        if left is not None:
            await self._redis.unlink_all(self._keys.view(int(left)))

    async def due(self, due_list: DueList, until: int, most: int) -> list[str]:
        """Return the names on a list of the range that are due by `until`."""
        key = self._due_key(due_list)
        [names] = await self._redis.ask(["ZRANGE", key, "-inf", until, "BYSCORE", "LIMIT", 0, most])
        return [name.decode() for name in names]

    async def due_lists(self, lists: Iterable[DueList], until: int) -> set[DueList]:
        """Return those of `lists` on which a name is due by `until`, ms."""
        asked = list(lists)
        found = await self._redis.run("due", list(map(self._due_key, asked)), [until])
        return {asked[number - 1] for number in found}

    def _due_key(self, due_list: DueList) -> str:
        return f"{self._view}{due_list}:{self.lease.range.name}"

    async def fields(self, *names: str) -> list[Fields]:
        """Return each task's fields that events overwrite; empty if the task does not exist."""
        keys = [f"{self._view}t:{name}" for name in names]
        return list(map(fields_of, await self._redis.run("fields", keys, [])))

    @staticmethod
    def _check(answer: object) -> None:
        if answer == b"fenced":
            raise LeaseLost("the lease was lost")
        if answer == b"moved":
            raise PositionMoved("another replica has applied the range")


class RedisStore:
    """A `Store` that outlives its processes and is shared by replicas.

    A query raises StateUnavailable if Redis does not answer.
    """

    def __init__(
        self,
        settings: RedisSettings,
        keys: Keys,
        ranges: Iterable[Range],
        usage_days: int = KEPT_DAYS,
        answer_timeout: float = ANSWER_TIMEOUT,
    ) -> None:
        """Keep `ranges` under `keys`; connect on first use. A day's usage expires after a while."""
        self.redis = Connection(settings, answer_timeout)
        self.keys, self._ranges = keys, list(ranges)
        self.name, self._usage_days = self.redis.name, usage_days
        self.reader = RedisReader(self.redis, keys)
        self.check, self.close = self.redis.check, self.redis.close
        self.time, self.memory = self.redis.time, self.redis.memory

    def leases(self, replica: str) -> RedisLeases:
        """Return the leases of `replica`, whose id is unique."""
        return RedisLeases(self.redis, self.keys, replica, self._ranges)

    def writer(self, lease: Lease) -> RedisWriter:
        """Return the writer for `lease`."""
        return RedisWriter(self.redis, self.keys, lease, self._ranges, self._usage_days)

    async def check_writes(self) -> None:
        """Return if Redis accepts writes."""
        await self.redis.ask(["SET", self.keys.written, "1", "EX", _WRITTEN_SECONDS])

    async def is_other_version_in_use(self) -> bool:
        """Return whether live replicas keep a projection of another version."""
        return await self._is_any_in_use(self.keys.others())

    async def _is_any_in_use(self, versions: Iterable[Keys]) -> bool:
        now = await self.redis.time()
        reading = [("ZRANGE", each.replicas, 0, -1, "WITHSCORES") for each in versions]
        leases = await self.redis.ask(*reading)
        return any(float(when) >= now * 1000 for until in leases for when in until[1::2])

    async def delete_unused_versions(self, interval: float) -> None:
        """Delete views of other versions that no replica keeps, every `interval` seconds."""
        while True:
            try:
                for other in self.keys.others():
                    await self._delete_if_unused(other)
            except StateUnavailable as error:
                _log.info("views of other versions will be deleted later: %s", error)
            await asyncio.sleep(interval)

    async def _delete_if_unused(self, keys: Keys) -> None:
        # These keys are deleted last, so that an interrupted deletion is detected and continued.
        marks = [keys.progress(place) for place in self._ranges]
        [there] = await self.redis.ask(["EXISTS", *marks])
        if not there or await self._is_any_in_use([keys]):
            return
        _log.warning("deleting the view of version %s: no service uses it", keys.shape)
        await self.redis.unlink_all(keys.root, but=marks)
        await self.redis.ask(["DEL", *marks])
