"""Leases: who may write which range, and who else is there to share them with."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from headrace_task_state.ranges import Range
from headrace_task_state.store_redis.connection import Connection
from headrace_task_state.store_redis.keys import Keys

LIFE_MS = 3000
"""How long a lease holds without being renewed, milliseconds: a dead replica is missed so long."""


@dataclass(frozen=True, slots=True)
class Lease:
    """The right to write one range, until it lapses."""

    range: Range
    token: str
    """Unique to this taking of the lease: only who knows it can write."""
    era: int
    """Number of the view to write to."""


@dataclass(frozen=True, slots=True)
class Census:
    """Who lives and what is held, as of one moment."""

    replicas: list[str]
    """Ids of the live replicas, sorted."""
    lost: list[Range]
    """What the asking replica does not hold any more."""
    free: list[Range]
    """What nobody holds."""


class Leases:
    """One replica's leases in Redis. Every call raises StateUnavailable without Redis."""

    def __init__(
        self, redis: Connection, keys: Keys, replica: str, ranges: Iterable[Range]
    ) -> None:
        """Speak for `replica`, whose id is unique."""
        self._redis, self._keys, self._replica = redis, keys, replica
        self._ranges = {place.name: place for place in ranges}

    async def tend(self, held: Mapping[Range, Lease]) -> Census:
        """Say that this replica lives, renew what it holds, and see what there is."""
        tokens = [word for place, lease in held.items() for word in (place.name, lease.token)]
        replicas, lost, free = await self._redis.run(
            "tend",
            [self._keys.replicas],
            [self._replica, LIFE_MS, self._keys.leases, len(held), *tokens, *self._ranges],
        )
        return Census(
            sorted(replica.decode() for replica in replicas),
            [self._ranges[name.decode()] for name in lost],
            [self._ranges[name.decode()] for name in free],
        )

    async def take(self, place: Range) -> Lease | None:
        """Take a range; None: somebody else was first."""
        keys = [self._keys.lease(place), self._keys.epoch(place), self._keys.era]
        answer = await self._redis.run("take", keys, [self._replica, LIFE_MS])
        return None if answer is None else Lease(place, answer[0].decode(), int(answer[1]))

    async def release(self, leases: Iterable[Lease]) -> None:
        """Give ranges back so that others need not wait until they lapse."""
        held = list(leases)
        keys = [self._keys.lease(lease.range) for lease in held]
        await self._redis.run("release", keys, [lease.token for lease in held])

    async def leave(self) -> None:
        """Say that this replica is gone."""
        await self._redis.ask(["ZREM", self._keys.replicas, self._replica])
