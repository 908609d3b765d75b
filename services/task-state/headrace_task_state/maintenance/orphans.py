"""Cancel child tasks whose parents no longer need them.

A worker cancels the children of its run when the run ends. This module handles runs that end
otherwise: while their worker is dead, or with a child that only a dead attempt knew.
"""

import asyncio
import logging

from headrace.jetstream.connection import Bus
from headrace.log import last_entry, writer_of
from headrace.model.entry import Entry
from headrace.model.errors import BusUnavailable, LogLost
from headrace.model.task import INPUT_REQUIRED, TaskKey
from headrace.tasks.cancel import cancel_task
from headrace_task_state.maintenance.due import DueTasks, Upkeep, repeat
from headrace_task_state.store import DueList, Fields

_log = logging.getLogger(__name__)

AGAIN = 30.0
"""Seconds until a child's parent is checked again."""


class Orphans:
    """Cancels orphans among the child tasks of one range, under its lease."""

    def __init__(self, upkeep: Upkeep) -> None:
        """Find children by `upkeep`."""
        self._upkeep, self._writer_id = upkeep, writer_of("task-state")
        self._bus, self._timing = upkeep.bus, upkeep.timing
        self._due = DueTasks(upkeep, DueList.CHILDREN, self._look_after)
        self._canceling: dict[TaskKey, asyncio.Task[None]] = {}

    async def run(self) -> None:
        """Run until the lease is lost."""
        try:
            await repeat(self._look_if_due, self._timing.orphan_interval, "the search for orphans")
        finally:
            for task in self._canceling.values():
                task.cancel()

    async def _look_if_due(self) -> None:
        if await self._upkeep.has_due(DueList.CHILDREN):
            await self.look()

    async def look(self) -> None:
        """Cancel due children that are orphans; defer the others.

        Raises as `DueTasks.go_through`.
        """
        await self._due.go_through(self._upkeep.now())

    async def _look_after(self, key: TaskKey, child: Fields) -> int:
        """Cancel the child if it is an orphan; return when to check again, ms."""
        if key not in self._canceling and await is_unused(self._bus, key.tenant, child):
            self._cancel(key, child)
        return self._upkeep.now(AGAIN)

    def _cancel(self, key: TaskKey, child: Fields) -> None:
        _log.warning(
            "canceling task %s: its parent %s no longer needs it",
            key.task,
            child["parent"],
        )
        work = asyncio.create_task(self._end(key), name=f"cancel {key.task}")
        self._canceling[key] = work
        work.add_done_callback(lambda _: self._canceling.pop(key, None))

    async def _end(self, key: TaskKey) -> None:
        try:
            await cancel_task(self._bus, key, self._writer_id, timing=self._timing.cancel)
        except (BusUnavailable, LogLost) as error:
            _log.info("task %s will be canceled later: %s", key.task, error)


async def is_unused(bus: Bus, tenant: str, child: Fields) -> bool:
    """Return whether the run that requested a task is over, given the task's fields.

    Raises:
        LogLost, BusUnavailable: the parent's log can't be read.
    """
    asking = TaskKey(tenant, child["parent_agent"], child["parent"])
    parent = await last_entry(bus, asking)
    if parent is None or parent.ends_task:
        return True
    # A child that waits for input is requested again by a later run.
    waits = child.get("state") == INPUT_REQUIRED
    return not waits and _is_over(parent, int(child["parent_run"]))


def _is_over(parent: Entry, run: int) -> bool:
    return parent.stamp.run > run or (parent.stamp.run == run and parent.ends_run)
