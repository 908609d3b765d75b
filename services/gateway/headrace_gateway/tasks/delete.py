"""Deleting a task on its owner's request; completes even if the client disconnects."""

import asyncio

from headrace.jetstream.connection import Bus
from headrace.log.read import last_stored
from headrace.model.errors import StateUnavailable, TaskUnknown
from headrace.model.task import TaskKey
from headrace.state_client import StateClient
from headrace.tasks.forget import is_erased, mark_deleted
from headrace.wait_for import ELECTION
from headrace_gateway.background_work import BackgroundWork
from headrace_gateway.server.auth.caller import Caller
from headrace_gateway.tasks.ids import query_of

_TIMEOUT = 2 * ELECTION
"""Seconds that task state has to erase a deleted task. Task state can follow the log once the log
has a leader, and then has to catch up."""

_PAUSE = 0.05


class TaskDeleter:
    """Deletes tasks, each once for any number of concurrent requests."""

    def __init__(self, bus: Bus, state: StateClient, background: BackgroundWork) -> None:
        """Use these services."""
        self._bus, self._state, self._background = bus, state, background
        self._under_way: dict[TaskKey, asyncio.Task[None]] = {}

    async def delete(self, caller: Caller, key: TaskKey) -> None:
        """Return once the task is erased; a task that has not ended is canceled first.

        Deleting a deleted task succeeds as long as its tombstone exists. Task state erases the
        task, because a gateway may not remove anything from a log.

        Raises:
            TaskUnknown: no such task of this caller and agent.
            BusUnavailable, StateUnavailable: try again.
        """
        await self._check(caller, key)
        work = self._under_way.get(key)
        if work is None:
            work = self._under_way[key] = self._background.start(self._delete(key))
            work.add_done_callback(lambda _: self._under_way.pop(key))
        await asyncio.shield(work)

    async def _delete(self, key: TaskKey) -> None:
        await mark_deleted(self._bus, key)
        loop = asyncio.get_running_loop()
        deadline = loop.time() + _TIMEOUT
        while not await is_erased(self._bus, key):
            if loop.time() > deadline:
                raise StateUnavailable(f"task {key.task} is deleted, but not erased yet; try again")
            await asyncio.sleep(_PAUSE)

    async def _check(self, caller: Caller, key: TaskKey) -> None:
        try:
            await self._state.get(query_of(caller, key, history_length=0))
        except TaskUnknown:
            last = await last_stored(self._bus, key)
            if last is None or last.tombstone is None or last.tombstone.owner != caller.owner:
                raise
