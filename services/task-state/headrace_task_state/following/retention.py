"""Retention: ended tasks leave after their time, all but their log's last message."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable

import orjson

from headrace import metrics
from headrace.bus import Bus
from headrace.errors import BusUnavailable, StateUnavailable
from headrace.files import FileStore
from headrace.task import TaskKey
from headrace_task_state.store.writing import LeaseLost, Writer

_log = logging.getLogger(__name__)

_ENDED = "e"
_MOST = 200
_TIMEOUT = 5.0
_SELDOM, _OFTEN = 60.0, 0.5

type Forget = Callable[[TaskKey], Awaitable[None]]
"""Deletes what is kept of a task elsewhere; raises BusUnavailable where that is not sure."""


class Retention:
    """Purges the ended tasks of one range, under its lease."""

    def __init__(self, bus: Bus, writer: Writer, keep: float, forget: Forget) -> None:
        """Keep an ended task for `keep` seconds; have what belongs to it forgotten then."""
        self._bus, self._writer, self._keep = bus, writer, keep
        self._files = FileStore(bus)
        self._forget = forget

    async def run(self) -> None:
        """Purge until the lease is lost."""
        while True:
            await asyncio.sleep(min(max(self._keep / 10, _OFTEN), _SELDOM))
            try:
                while await self.purge() == _MOST:
                    pass
            except LeaseLost:
                return
            except (BusUnavailable, StateUnavailable) as trouble:
                _log.info("retention waits: %s", trouble)

    async def purge(self) -> int:
        """Purge tasks whose time is over; returns how many.

        Raises:
            LeaseLost: the range is another replica's.
            BusUnavailable: the stream does not answer.
            StateUnavailable: Redis does not answer.
        """
        until = round((time.time() - self._keep) * 1000)
        names = await self._writer.due(_ENDED, until, _MOST)
        for name in names:
            await self._purge_task(name)
        return len(names)

    async def _purge_task(self, name: str) -> None:
        task = await self._writer.hash_of(name)
        if task:
            tenant, _, task_id = name.partition(":")
            key = TaskKey(tenant, task["agent"], task_id)
            await self._forget(key)
            await self._purge_log(key)
            await self._files.drop(key)
        await self._writer.remove(name)
        metrics.TASKS_PURGED.inc()

    async def _purge_log(self, key: TaskKey) -> None:
        # The last message stays: an emptied subject would take a zombie's first append.
        subject = f"$JS.API.STREAM.PURGE.{self._bus.streams.of_shard(key.shard)}"
        query = {"filter": self._bus.subjects.event(key), "keep": 1}
        msg = await self._bus.request(subject, orjson.dumps(query), _TIMEOUT)
        if error := orjson.loads(msg.data).get("error"):
            raise BusUnavailable(f"{subject}: {error.get('description')}")
