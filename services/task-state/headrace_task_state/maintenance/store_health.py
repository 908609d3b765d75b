"""Metrics of Redis itself, as read by one replica."""

import asyncio
import logging

from headrace import metrics
from headrace.model.errors import StateUnavailable
from headrace_task_state.store import Store

_log = logging.getLogger(__name__)

EVERY = 10.0
"""Seconds between looks."""


class StoreHealth:
    """Whether the store answers, and how much memory it uses."""

    def __init__(self, store: Store) -> None:
        """Look at `store`."""
        self._store = store

    async def run(self) -> None:
        """Look periodically until cancelled."""
        while True:
            await self.look()
            await asyncio.sleep(EVERY)

    async def look(self) -> None:
        """Look once. While the store does not answer, its memory stays as it was last seen."""
        try:
            memory = await self._store.memory()
        except StateUnavailable as error:
            _log.debug("no metrics of Redis: %s", error)
            metrics.REDIS_CONNECTED.set(0)
            return
        metrics.REDIS_CONNECTED.set(1)
        metrics.REDIS_BYTES.set(memory.used)
        metrics.REDIS_MAX_BYTES.set(memory.limit)
