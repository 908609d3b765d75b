"""Metrics of Redis itself, as read by one replica."""

import asyncio
import logging

from prometheus_client import Gauge

from headrace.model.errors import StateUnavailable
from headrace_task_state.store import Store

_log = logging.getLogger(__name__)

EVERY = 10.0
"""Seconds between looks."""

# Here, because a gauge without labels is exported, as 0, by each process that imports it.
CONNECTED = Gauge("headrace_redis_connected", "1 while Redis answers this replica.")
BYTES = Gauge("headrace_redis_bytes", "Bytes of memory that Redis uses.")
WRITABLE = Gauge("headrace_redis_writable", "1 while Redis accepts this replica's writes.")
MAX_BYTES = Gauge("headrace_redis_max_bytes", "Redis's maxmemory in bytes; 0: unlimited.")


class StoreHealth:
    """Whether the store answers, and how much memory it uses."""

    def __init__(self, store: Store) -> None:
        """Look at `store`."""
        self._store = store
        self.refusal = ""
        """Why the store accepts no writes; empty while it does."""

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
            CONNECTED.set(0)
            WRITABLE.set(0)
            self.refusal = str(error)
            return
        CONNECTED.set(1)
        await self._check_writes()
        BYTES.set(memory.used)
        MAX_BYTES.set(memory.limit)

    async def _check_writes(self) -> None:
        try:
            await self._store.check_writes()
        except StateUnavailable as error:
            WRITABLE.set(0)
            self.refusal = str(error)
        else:
            WRITABLE.set(1)
            self.refusal = ""
