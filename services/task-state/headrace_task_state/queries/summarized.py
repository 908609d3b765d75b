"""Tasks of which the view has a summary only: their logs have the rest."""

import asyncio

from headrace.jetstream.connection import Bus
from headrace.log.logged_task import LoggedTask, fold_log
from headrace.model.subjects import stream_of_shard
from headrace.model.task import TaskKey
from headrace_task_state.store import Range, Reader, StoredTask, name_of

_READS = 16
"""Logs read concurrently for all pages of one kind of list."""


class SummarizedTasks:
    """Reads such tasks, and has the view complete them first."""

    def __init__(self, bus: Bus, reader: Reader) -> None:
        """Read logs over `bus`; `reader` is the view's."""
        self._bus, self._reader = bus, reader
        self._reads = asyncio.Semaphore(_READS)

    async def read(self, tenant: str, stored: StoredTask) -> LoggedTask | None:
        """Return the task as its log has it up to the summary's entry. None: it is gone.

        Raises:
            BusUnavailable: no replica of the log answers.
        """
        async with self._reads:
            return await fold_log(self._bus, _key(tenant, stored), int(stored.fields["sequence"]))

    async def complete_soon(self, tenant: str, stored: StoredTask) -> None:
        """Have the summary completed before others.

        Raises:
            StateUnavailable: the store does not answer.
        """
        key = _key(tenant, stored)
        await self._reader.advance_completion(Range(stream_of_shard(key.shard)), name_of(key))


def _key(tenant: str, stored: StoredTask) -> TaskKey:
    return TaskKey(tenant, stored.fields["agent"], stored.task)
