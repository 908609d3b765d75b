"""Retention: delete ended tasks, and cancel tasks that wait too long for their user.

An ended task is deleted in two steps, both recorded in the log. First a tombstone replaces the log,
and every replica's view drops the task when it applies the tombstone. Then what lies before the
tombstone and elsewhere is purged. A replica that is killed in between, or loses the store, finds
the tombstone again.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Protocol

from headrace import metrics
from headrace.log import last_entry, writer_of
from headrace.log.tombstone import put_tombstone
from headrace.model.entry import Entry
from headrace.model.errors import BusUnavailable, Fenced, LogFull, StateUnavailable
from headrace.model.task import CANCELED, INPUT_REQUIRED, TaskKey
from headrace.tasks.end import end_after
from headrace.tasks.forget import clear_away, delete_unended
from headrace_task_state.maintenance.due import Delays, DueTasks, Upkeep
from headrace_task_state.maintenance.orphans import is_unused
from headrace_task_state.store import SUMMARY, DueList, Fields, LeaseLost, name_of

_log = logging.getLogger(__name__)

EXPIRED = "Canceled: no user input arrived in time"

_SELDOM, _OFTEN = 60.0, 0.5
_SOON = 0.1
"""Seconds until the next pass while there is work: the view needs a moment to follow."""

_AGAIN = 60.0
"""Seconds until a task that the view has not followed yet is due again."""

type Complete = Callable[[TaskKey, Fields], Awaitable[object]]
"""Reads the rest of a task that has only a summary."""


class TaskWebhooks(Protocol):
    """The webhooks of tasks. Both calls raise BusUnavailable if the outcome is unknown."""

    async def has_unsent(self, key: TaskKey) -> bool:
        """Return whether webhooks of an ended task wait for its events."""

    async def forget(self, key: TaskKey) -> None:
        """Delete the webhooks of a task."""


@dataclass(frozen=True, slots=True)
class Times:
    """Retention times in seconds."""

    ended: float
    """For a task that has ended."""
    waiting: float
    """For a task that waits for its user, until it is canceled."""
    tombstone: float
    """For the tombstone of an ended task."""
    late: float = 600.0
    """After a deletion, until what was stored of the task since is deleted too: a worker or a
    webhook's sender may have read the log before, and stores a dead letter or a file then."""


class Retention:
    """Deletes the tasks of one range, under its lease."""

    def __init__(
        self,
        upkeep: Upkeep,
        times: Times,
        webhooks: TaskWebhooks,
        complete: Complete,
    ) -> None:
        """Keep tasks for their `times`, then delete them and their `webhooks`.

        A task is kept until its webhooks have been sent all its events, or are given up.

        For a summary, `complete` finds out whose child the task is.
        """
        self._complete, self._webhooks = complete, webhooks
        self._upkeep, self._bus, self._times = upkeep, upkeep.bus, times
        self._awake = asyncio.Event()
        self._waiting = DueTasks(upkeep, DueList.WAITING, self._expire)
        self._ended = DueTasks(upkeep, DueList.ENDED, self._drop)
        self._tombstones = DueTasks(upkeep, DueList.TOMBSTONES, self._clear)
        self._again: dict[TaskKey, int] = {}
        """When deleted tasks are cleared again, ms since 1970. A replica that takes the range
        over does not know it, and starts anew."""

    def wake(self) -> None:
        """Trigger a pass soon: tombstones have been applied."""
        self._awake.set()

    async def run(self) -> None:
        """Run until the lease is lost."""
        seldom = min(max(min(self._times.ended, self._times.waiting) / 10, _OFTEN), _SELDOM)
        pause = seldom
        delays = Delays("retention")
        while True:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._awake.wait(), pause)
            self._awake.clear()
            try:
                pause = _SOON if await self.look() else seldom
                delays.end()
            except LeaseLost:
                return
            except (BusUnavailable, StateUnavailable) as error:
                delays.log(error)
                pause = _OFTEN

    async def look(self) -> int:
        """Delete what is due; return how many tasks were processed.

        Raises as `DueTasks.go_through`.
        """
        now = self._upkeep.now
        # Tombstones first: they make room in a full stream.
        return (
            await self._tombstones.go_through(now())
            + await self._ended.go_through(now(-self._times.ended))
            + await self._waiting.go_through(now(-self._times.waiting))
        )

    async def _expire(self, key: TaskKey, task: Fields) -> int:  # noqa: ARG002 - the log decides
        last = await last_entry(self._bus, key)
        if last is not None and last.stamp.state == INPUT_REQUIRED and last.ends_run:
            try:
                await self._cancel(key, last)
            except Fenced:
                _log.info("task %s has just received user input", key.task)
            else:
                metrics.TASKS_EXPIRED.inc()
        return self._upkeep.now(_AGAIN - self._times.waiting)

    async def _cancel(self, key: TaskKey, last: Entry) -> None:
        """End a task that waits; in a full stream, which refuses the end, delete it instead."""
        try:
            await end_after(self._bus, key, last, CANCELED, writer_of("retention"), EXPIRED)
        except LogFull as full:
            await delete_unended(self._bus, key, last, full)

    async def _drop(self, key: TaskKey, task: Fields) -> int:
        if SUMMARY in task:
            # At once, not in the next pass, which begins when all summaries are completed.
            await self._complete(key, task)
            [task] = await self._upkeep.writer.fields(name_of(key))
            if not task or SUMMARY in task:
                return self._upkeep.now(-self._times.ended)
        is_child = "parent" in task
        is_wanted = is_child and not await is_unused(self._bus, key.tenant, task)
        # A later attempt of the parent requests it again, or a receiver waits for its end.
        if is_wanted or await self._webhooks.has_unsent(key):
            return self._upkeep.now(min(_AGAIN - self._times.ended, 0.0))
        owner, behind = task.get("owner", ""), int(task.get("sequence", 0))
        try:
            await put_tombstone(self._bus, key, owner, "retention", self._times.tombstone, behind)
        except Fenced as fenced:
            _log.info("the view is behind: %s", fenced)
        return self._upkeep.now(_AGAIN - self._times.ended)

    async def _clear(self, key: TaskKey, task: Fields) -> int | None:  # noqa: ARG002 - it has left
        if (why := await clear_away(self._bus, key)) is None:
            # What is stored under this key is another task's.
            self._again.pop(key, None)
            return None
        # Last: when the tombstone expires, a log that was not purged is back. So may be, after
        # ``kill -9``, an earlier record of a webhook (see `Bucket.delete`), and send it again.
        await self._webhooks.forget(key)
        if key not in self._again:
            metrics.TASKS_PURGED.inc()
        now = self._upkeep.now()
        late = self._upkeep.now(self._times.late)
        again = self._again.setdefault(key, late) if why == "deleted" else now
        if now < again:
            return again
        self._again.pop(key, None)
        return None
