"""Tasks that agents have asked for and that nobody wants any more are cancelled.

A worker cancels what its run has asked for when the run ends. This is for runs that end otherwise:
over a dead worker's head, or with a child that only a dead attempt knew of.
"""

import asyncio
import logging
import time

from headrace.bus import Bus
from headrace.canceling import cancel_task
from headrace.ending import writer_of
from headrace.entry import Entry
from headrace.errors import BusUnavailable, LogLost, StateUnavailable
from headrace.log import last_entry
from headrace.task import INPUT_REQUIRED, TaskKey
from headrace_task_state.store.writing import LeaseLost, Writer

_log = logging.getLogger(__name__)

EVERY = 1.0
"""Seconds between looks for children whose parents are to be looked at."""

AGAIN = 30.0
"""Seconds after which a child's parent is looked at again."""

_ASKED_FOR = "d"
_MOST = 100


class Orphans:
    """Looks after the delegated tasks of one range, under its lease."""

    def __init__(self, bus: Bus, writer: Writer) -> None:
        """Look through `writer`."""
        self._bus, self._writer = bus, writer
        self._writer_id = writer_of("task-state")
        self._canceling: dict[str, asyncio.Task[None]] = {}

    async def run(self) -> None:
        """Look until the lease is lost."""
        try:
            while True:
                await asyncio.sleep(EVERY)
                try:
                    await self.look()
                except (BusUnavailable, StateUnavailable) as trouble:
                    _log.info("looking for orphans: %s", trouble)
        except LeaseLost:
            return
        finally:
            for task in self._canceling.values():
                task.cancel()

    async def look(self) -> None:
        """Cancel whose parent has no use for it; put off the others.

        Raises:
            LeaseLost: the range is another replica's.
            BusUnavailable: the log does not answer.
            StateUnavailable: Redis does not answer.
        """
        now = round(time.time() * 1000)
        for name in await self._writer.due(_ASKED_FOR, now, _MOST):
            child = await self._writer.hash_of(name)
            if child and name not in self._canceling and await self._is_orphan(name, child):
                self._cancel(name, child)
            await self._writer.defer(_ASKED_FOR, name, now + round(AGAIN * 1000))

    async def _is_orphan(self, name: str, child: dict[str, str]) -> bool:
        tenant = name.partition(":")[0]
        key = TaskKey(tenant, child["parent_agent"], child["parent"])
        parent = await last_entry(self._bus, key)
        if parent is None or parent.ends_task:
            return True
        # One that waits for an answer is asked again by a later leg.
        waits = child.get("state") == INPUT_REQUIRED
        return not waits and _is_over(parent, int(child["parent_leg"]))

    def _cancel(self, name: str, child: dict[str, str]) -> None:
        tenant, _, task = name.partition(":")
        key = TaskKey(tenant, child["agent"], task)
        _log.warning("task %s is canceled: %s has no use for it", task, child["parent"])
        work = asyncio.create_task(self._end(key), name=f"cancel {task}")
        self._canceling[name] = work
        work.add_done_callback(lambda _: self._canceling.pop(name, None))

    async def _end(self, key: TaskKey) -> None:
        try:
            await cancel_task(self._bus, key, self._writer_id)
        except (BusUnavailable, LogLost) as trouble:
            _log.info("canceling %s: %s", key.task, trouble)


def _is_over(parent: Entry, leg: int) -> bool:
    return parent.stamp.leg > leg or (parent.stamp.leg == leg and parent.ends_leg)
