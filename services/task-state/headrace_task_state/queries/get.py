"""One task's current state: the view, and the entries that the leader has after it."""

import asyncio
import logging

from headrace.jetstream.connection import Bus
from headrace.log.logged_task import LoggedTask, fold_log, log_of
from headrace.log.read import as_if_empty
from headrace.model.errors import StateUnavailable, TaskUnknown
from headrace.model.events import Json
from headrace.model.fold import TaskFold
from headrace.model.messages import GetTask
from headrace_task_state.store import Reader, StoredTask, standing_of


def read_found(stored: StoredTask) -> LoggedTask:
    """Return the task that the store holds."""
    fields = stored.fields
    standing = standing_of(stored.task, fields)
    return LoggedTask(
        TaskFold.restored(standing, stored.history, stored.artifacts),
        owner=fields["owner"],
        agent=fields["agent"],
        log=fields["log"],
        sequence=int(fields["sequence"]),
    )


_log = logging.getLogger(__name__)

_LOG_TIMEOUT = 2.0
"""Seconds after which the leader is not queried again: callers give up soon."""

STORE_TIMEOUT = 0.5
"""Seconds after which a task is read from its log alone: the view only saves work."""


class Tasks:
    """Answers ``get``; never with a state older than the log at the request's arrival.

    The log suffices: without the store, and while its view is rebuilt, the whole log is read.
    """

    def __init__(self, bus: Bus, reader: Reader) -> None:
        """Read the view and the logs."""
        self._bus, self._reader = bus, reader

    async def get(self, query: GetTask) -> Json:
        """Return a `TaskFound` as JSON.

        Raises:
            TaskUnknown: the task does not exist, or is not the caller's.
            BusUnavailable: NATS does not answer.
        """
        tail = asyncio.ensure_future(log_of(self._bus, query, _LOG_TIMEOUT))
        try:
            seen = await self._seen(query)
            where = await tail
        finally:
            tail.cancel()
        if seen is not None and where is not None and seen.agent != where[0].agent:
            # A hostile worker was the first to write under the id of another agent's child task.
            seen = None
        found = None if where is None else await fold_log(self._bus, *where, seen)
        if found is None or where is None:
            raise TaskUnknown
        if not found.is_for(query):
            await as_if_empty(self._bus, where[0])
            raise TaskUnknown
        return found.found(query.history_length).model_dump()

    async def _seen(self, query: GetTask) -> LoggedTask | None:
        """Return the task in the view; None: the view has not all of it, or does not answer."""
        try:
            async with asyncio.timeout(STORE_TIMEOUT):
                stored = await self._reader.task(query.tenant, query.task, query.history_length)
        except (StateUnavailable, TimeoutError) as error:
            _log.debug("task %s is read from its log: %s", query.task, error)
            return None
        return None if stored is None or stored.is_summary else read_found(stored)
