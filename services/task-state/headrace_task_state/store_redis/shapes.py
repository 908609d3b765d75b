"""Views of other versions: one that is still kept is left to answer, one that nobody keeps goes."""

import asyncio
import logging
from collections.abc import Iterable

from headrace.model.errors import StateUnavailable
from headrace_task_state.ranges import Range
from headrace_task_state.store_redis.connection import Connection
from headrace_task_state.store_redis.keys import Keys

_log = logging.getLogger(__name__)

EVERY = 30.0
"""Seconds between looks for views that nobody keeps any more."""


class Shapes:
    """What there is in Redis beside the view that this version keeps."""

    def __init__(self, redis: Connection, keys: Keys, ranges: Iterable[Range]) -> None:
        """Look beside the view with these `keys`."""
        self._redis, self._keys, self._ranges = redis, keys, list(ranges)

    async def is_another_kept(self) -> bool:
        """Tell whether replicas of another version live.

        Raises:
            StateUnavailable: Redis does not answer.
        """
        return any([await self._is_kept(other) for other in self._keys.others()])

    async def _is_kept(self, keys: Keys) -> bool:
        now = await self._redis.time()
        [until] = await self._redis.ask(["ZRANGE", keys.replicas, 0, -1, "WITHSCORES"])
        return any(float(when) >= now * 1000 for when in until[1::2])

    async def delete_unkept(self) -> None:
        """Delete, again and again, views of other versions that no replica keeps."""
        while True:
            try:
                for other in self._keys.others():
                    await self._delete_unkept(other)
            except StateUnavailable as trouble:
                _log.info("views of other versions will be deleted later: %s", trouble)
            await asyncio.sleep(EVERY)

    async def _delete_unkept(self, keys: Keys) -> None:
        # They stand longest, so that a deletion which was broken off is seen and goes on.
        marks = [keys.progress(place) for place in self._ranges]
        [there] = await self._redis.ask(["EXISTS", *marks])
        if not there or await self._is_kept(keys):
            return
        _log.warning("deleting the view of version %s: no service uses it", keys.shape)
        await self._redis.unlink_all(keys.root, but=marks)
        await self._redis.ask(["DEL", *marks])
