"""The store in Redis or Valkey, put together."""

from collections.abc import Iterable

from headrace_task_state.ranges import Range
from headrace_task_state.store import Lease
from headrace_task_state.store_redis.connection import Connection
from headrace_task_state.store_redis.keys import Keys
from headrace_task_state.store_redis.leases import RedisLeases
from headrace_task_state.store_redis.reading import RedisReader
from headrace_task_state.store_redis.settings import RedisSettings
from headrace_task_state.store_redis.shapes import Shapes
from headrace_task_state.store_redis.writing import RedisWriter


class RedisStore:
    """A `Store` that survives its processes, and that replicas share."""

    def __init__(self, settings: RedisSettings, keys: Keys, ranges: Iterable[Range]) -> None:
        """Keep `ranges` under `keys`; it connects when it is first asked."""
        self.redis, self.keys, self._ranges = Connection(settings), keys, list(ranges)
        self.name = self.redis.name
        self.reader = RedisReader(self.redis, keys)
        self._shapes = Shapes(self.redis, keys, self._ranges)

    def leases(self, replica: str) -> RedisLeases:
        """Return the leases of `replica`, whose id is unique."""
        return RedisLeases(self.redis, self.keys, replica, self._ranges)

    def writer(self, lease: Lease) -> RedisWriter:
        """Return what writes under `lease`."""
        return RedisWriter(self.redis, self.keys, lease, self._ranges)

    async def check(self) -> None:
        """Return if Redis answers.

        Raises:
            ConnectionError: it does not.
        """
        await self.redis.check()

    async def time(self) -> float:
        """Return the time by Redis' clock, seconds since 1970.

        Raises:
            StateUnavailable: Redis does not answer.
        """
        return await self.redis.time()

    async def is_another_kept(self) -> bool:
        """Tell whether live replicas keep a projection of another version.

        Raises:
            StateUnavailable: Redis does not answer.
        """
        return await self._shapes.is_another_kept()

    async def delete_unkept(self) -> None:
        """Delete projections of other versions that no replica keeps, again and again."""
        await self._shapes.delete_unkept()

    async def close(self) -> None:
        """Hang up."""
        await self.redis.close()
