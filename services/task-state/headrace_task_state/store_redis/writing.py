"""Writing to the view: only with a lease, only behind what has been applied."""

from collections.abc import Iterable
from dataclasses import asdict

import orjson

from headrace_task_state.ranges import Range
from headrace_task_state.store import (
    LOOK_AFTER_MS,
    Departure,
    DueList,
    Fields,
    Lease,
    LeaseLost,
    PositionMoved,
    Progress,
    TaskChange,
)
from headrace_task_state.store_redis.connection import Connection
from headrace_task_state.store_redis.keys import Keys
from headrace_task_state.store_redis.leases import LIFE_MS


class RedisWriter:
    """Writes one range under one lease.

    Every call raises LeaseLost once the lease is gone, and StateUnavailable without Redis.
    """

    def __init__(
        self, redis: Connection, keys: Keys, lease: Lease, ranges: Iterable[Range]
    ) -> None:
        """Write under `lease`; `ranges` are those of the whole fleet."""
        self._redis, self._keys, self.lease = redis, keys, lease
        self._ranges = list(ranges)
        self._view = keys.view(lease.era)

    async def progress(self) -> Progress:
        """Return how far the range has been applied."""
        [fields] = await self._redis.ask(["HGETALL", self._keys.progress(self.lease.range)])
        return Progress(
            position=int(fields.get(b"position", 0)),
            last=int(fields.get(b"last", 0)),
            time=int(fields.get(b"time", 0)),
            origin=fields.get(b"origin", b"").decode(),
            summarized=int(fields.get(b"summarized", 0)),
        )

    async def apply(
        self, expected: Progress, then: Progress, changes: Iterable[TaskChange | Departure]
    ) -> list[str]:
        """Write a batch and move the range on, in one step; return what is of other agents.

        Raises:
            PositionMoved: the range is not at `expected`.
        """
        place = self.lease.range
        fields = [word for pair in asdict(then).items() for word in pair]
        head = [self._view, place.name, LOOK_AFTER_MS, expected.position, len(fields), *fields]
        answer = await self._redis.run(
            "apply",
            [self._keys.lease(place), self._keys.progress(place)],
            [self.lease.token, LIFE_MS, *head, *map(_encoded, changes)],
        )
        self._check(answer)
        return [name.decode() for name in answer]

    async def complete(self, name: str, sequence: int, task: TaskChange | None) -> bool:
        """Put all that is in a log in place of the summary of the entry with that `sequence`."""
        place = self.lease.range
        encoded = b"" if task is None else _encoded(task)
        answer = await self._redis.run(
            "complete",
            [self._keys.lease(place)],
            [self.lease.token, self._view, place.name, LOOK_AFTER_MS, name, sequence, encoded],
        )
        self._check(answer)
        return bool(answer)

    async def defer(self, due_list: DueList, name: str, due: int | None) -> None:
        """Put off looking again at a name until `due`, ms since 1970; None: take it out."""
        place = self.lease.range
        keys = [self._keys.lease(place), f"{self._view}{due_list}:{place.name}"]
        score = "" if due is None else due
        self._check(await self._redis.run("defer", keys, [self.lease.token, name, score]))

    async def begin_era(self) -> None:
        """Leave a view made of logs that are gone; the lease ends with it."""
        places = [self._keys.progress(place) for place in self._ranges]
        leases = [self._keys.lease(place) for place in self._ranges]
        keys = [self._keys.lease(self.lease.range), self._keys.era, *places, *leases]
        left = await self._redis.run("begin_era", keys, [self.lease.token])
        if left is not None:
            await self._redis.unlink_all(self._keys.view(int(left)))

    async def due(self, due_list: DueList, until: int, most: int) -> list[str]:
        """Return names in the range's sorted set of that `kind` that are due by `until`."""
        key = f"{self._view}{due_list}:{self.lease.range.name}"
        [names] = await self._redis.ask(["ZRANGE", key, "-inf", until, "BYSCORE", "LIMIT", 0, most])
        return [name.decode() for name in names]

    async def fields(self, name: str) -> Fields:
        """Return what of a task each event overwrites; empty: it is not there."""
        [fields] = await self._redis.ask(["HGETALL", f"{self._view}t:{name}"])
        return {key.decode(): value.decode() for key, value in fields.items()}

    @staticmethod
    def _check(answer: object) -> None:
        if answer == b"fenced":
            raise LeaseLost("the lease is gone")
        if answer == b"moved":
            raise PositionMoved("the range was applied from elsewhere")


def _encoded(change: TaskChange | Departure) -> bytes:
    """Return a change as ``apply.lua`` takes it: one argument, for the client packs each."""
    key = change.key
    if isinstance(change, Departure):
        when, rest = str(change.at), ["", "", "", key.agent, "", "", [], [], []]
        return orjson.dumps([key.tenant, key.task, "", "gone", "", when, *rest, "", ""])
    return orjson.dumps(
        [
            key.tenant,
            key.task,
            change.log,
            "1" if change.begins else "",
            change.state,
            str(change.time),
            "" if change.due is None else str(change.due),
            "" if change.ended is None else str(change.ended),
            change.owner,
            key.agent,
            change.context,
            "1" if change.is_asked_for else "",
            [word for pair in change.fields.items() for word in pair],
            [orjson.dumps(item).decode() for item in change.history],
            [orjson.dumps(item).decode() for item in change.artifacts],
            change.replaces,
            "" if change.urgency is None else str(change.urgency),
        ]
    )
