"""Leases: who may write which range, and who else is there to share them with."""

from collections.abc import Iterable, Mapping

from headrace_task_state.ranges import Range
from headrace_task_state.store import LEASE_SECONDS, Census, Lease
from headrace_task_state.store_redis.connection import Connection
from headrace_task_state.store_redis.keys import Keys

LIFE_MS = round(LEASE_SECONDS * 1000)


class RedisLeases:
    """One replica's leases in Redis. Every call raises StateUnavailable without Redis."""

    def __init__(
        self, redis: Connection, keys: Keys, replica: str, ranges: Iterable[Range]
    ) -> None:
        """Speak for `replica`, whose id is unique."""
        self._redis, self._keys, self._replica = redis, keys, replica
        self._ranges = {place.name: place for place in ranges}

    async def renew(self, held: Mapping[Range, Lease]) -> Census:
        """Say that this replica lives, renew what it holds, and see what there is."""
        tokens = [word for place, lease in held.items() for word in (place.name, lease.token)]
        replicas, lost, free = await self._redis.run(
            "renew",
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
