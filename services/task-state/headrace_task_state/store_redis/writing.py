"""Writing to the view: only with a lease, only behind what has been applied."""

import logging
from collections.abc import Iterable

from headrace.model.errors import HeadraceError
from headrace_task_state.ranges import Range
from headrace_task_state.store_redis.connection import Argument, Connection
from headrace_task_state.store_redis.keys import Keys
from headrace_task_state.store_redis.leases import LIFE_MS, Lease
from headrace_task_state.store_redis.progress import Progress, read_progress

_log = logging.getLogger(__name__)


class LeaseLost(HeadraceError):
    """Another replica writes the range now, or nobody does; this one may not."""

    code = "lease_lost"


class PositionMoved(HeadraceError):
    """The range is not where this replica left it: it must look again."""

    code = "position_moved"


class Writer:
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
        return read_progress(fields)

    async def apply(self, expected: Progress, then: Progress, tasks: list[Argument]) -> None:
        """Write a batch (as ``lua/apply.lua`` takes it) and move the range on, in one step.

        Raises:
            PositionMoved: the range is not at `expected`.
        """
        place = self.lease.range
        fields = then.fields()
        head = [self._view, place.name, expected.position, len(fields), *fields]
        answer = await self._redis.run(
            "apply",
            [self._keys.lease(place), self._keys.progress(place)],
            [self.lease.token, LIFE_MS, *head, *tasks],
        )
        self._check(answer)
        if answer != b"applied":
            _log.error("written under ids of other agents' tasks, ignored: %s", answer.decode())

    async def defer(self, kind: str, name: str, due: int | None) -> None:
        """Put off looking again at a name until `due`, ms since 1970; None: take it out."""
        place = self.lease.range
        keys = [self._keys.lease(place), f"{self._view}{kind}:{place.name}"]
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

    async def due(self, kind: str, until: int, most: int) -> list[str]:
        """Return names in the range's sorted set of that `kind` that are due by `until`."""
        key = f"{self._view}{kind}:{self.lease.range.name}"
        [names] = await self._redis.ask(["ZRANGE", key, "-inf", until, "BYSCORE", "LIMIT", 0, most])
        return [name.decode() for name in names]

    async def hash_of(self, name: str) -> dict[str, str]:
        """Return what of a task each event overwrites; empty: it is not there."""
        [fields] = await self._redis.ask(["HGETALL", f"{self._view}t:{name}"])
        return {key.decode(): value.decode() for key, value in fields.items()}

    @staticmethod
    def _check(answer: bytes) -> None:
        if answer == b"fenced":
            raise LeaseLost("the lease is gone")
        if answer == b"moved":
            raise PositionMoved("the range was applied from elsewhere")
