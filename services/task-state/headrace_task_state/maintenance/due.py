"""Process every due task of a range's lists, whatever fails for one of them."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import batched

from headrace import log_context
from headrace.jetstream.connection import Bus
from headrace.jetstream.server_clock import ServerClock
from headrace.log_context import LogContext
from headrace.model.errors import BusUnavailable, LogLost, LogTooNew, StateUnavailable
from headrace.model.messages import DeadLetter
from headrace.model.task import TaskKey
from headrace.ticks import tick
from headrace_task_state.maintenance.timing import MaintenanceTiming
from headrace_task_state.projector.dead_letters import DeadLetters
from headrace_task_state.store import DueList, Fields, LeaseLost, Writer, key_of

_log = logging.getLogger(__name__)

PAGE = 200
"""Names read from the store at a time."""

AT_ONCE = 16
"""Tasks processed concurrently."""

CHECKED = (DueList.AT_WORK, DueList.CHILDREN, DueList.SUMMARIES)
"""The lists that are looked at every second."""

RETRY_AFTER_MS = 5_000
"""Milliseconds until a task that could not be processed is due again, so that others get their
turn."""

AFTER_ERROR = 3_600_000
"""Milliseconds until a task that became a dead letter is due again."""

type Look = Callable[[TaskKey, Fields], Awaitable[int | None]]
"""Processes a task, given its fields; returns when it is due again, ms; None: never."""

type LeftAlone = Callable[[TaskKey, Fields], int | None]
"""Returns when a task is due again, ms, if it needs no work now; None: process it."""


@dataclass(slots=True)
class Upkeep:
    """What all maintenance of a range works with, while its lease is held."""

    bus: Bus
    writer: Writer
    clock: ServerClock
    timing: MaintenanceTiming
    _asking: asyncio.Task[set[DueList]] | None = field(default=None, init=False)

    def now(self, later: float = 0.0) -> int:
        """Return the time by `clock`, and `later` seconds, in ms since 1970."""
        return round((self.clock.now() + later) * 1000)

    async def has_due(self, due_list: DueList) -> bool:
        """Return whether tasks on one of `CHECKED` are due.

        The store is asked once for all lists that are looked at at the same time: an idle task
        state asks it for little else.

        Raises:
            StateUnavailable: the store does not answer.
        """
        if self._asking is None:
            asking = self.writer.due_lists(CHECKED, self.now())
            self._asking = asyncio.create_task(asking, name="due lists")
            self._asking.add_done_callback(self._asked)
        return due_list in await asyncio.shield(self._asking)

    def _asked(self, asking: asyncio.Task[set[DueList]]) -> None:
        self._asking = None
        if not asking.cancelled():
            asking.exception()  # Retrieved: those who asked may be gone.


class DueTasks:
    """The tasks on one list of a range, processed as they fall due.

    A task that can't be processed because of its log's content becomes a dead letter and is
    deferred, so that it does not stop the others.
    """

    def __init__(self, upkeep: Upkeep, due_list: DueList, look: Look) -> None:
        """Process each task on `due_list` with `look`."""
        self._bus, self._writer = bus, writer = upkeep.bus, upkeep.writer
        self._list, self._look = due_list, look
        self._letters = DeadLetters(bus, bus.streams.events(writer.lease.range.stream))

    async def go_through(self, until: int, left_alone: LeftAlone | None = None) -> int:
        """Process all tasks that are due by `until`, ms since 1970; return how many.

        Those that are `left_alone` are only deferred. To find them, the fields of all are read once
        more: each task is processed with those that it has then, which may be much later.

        Raises:
            LeaseLost: the range is another replica's.
            BusUnavailable: NATS does not answer.
            StateUnavailable: the store does not answer.
        """
        number = 0
        while names := await self._writer.due(self._list, until, PAGE):
            others = await self._defer(names, until, left_alone) if left_alone else names
            for some in batched(others, AT_ONCE):
                looks = (self._look_after(name, until) for name in some)
                outcomes = await asyncio.gather(*looks, return_exceptions=True)
                for outcome in sorted(
                    filter(None, outcomes), key=lambda one: not isinstance(one, LeaseLost)
                ):
                    raise outcome
            number += len(names)
        return number

    async def _defer(self, names: list[str], until: int, left_alone: LeftAlone) -> list[str]:
        """Defer the tasks that are left alone, all at once; return the names of the others."""
        dues, others = dict[str, int | None](), list[str]()
        for name, task in zip(names, await self._writer.fields(*names), strict=True):
            if (due := left_alone(key_of(name, task.get("agent", "")), task)) is None:
                others.append(name)
            else:
                dues[name] = max(due, until + 1)
        if dues:
            await self._writer.defer(self._list, dues)
        return others

    async def _look_after(self, name: str, until: int) -> None:
        """Process a task and defer it, always past `until`, so that a pass ends."""
        key = key_of(name)
        log_context.begin(LogContext(key.task, agent=key.agent))
        # The name of a task that has left the view includes its agent.
        [task] = [{"agent": key.agent}] if key.agent else await self._writer.fields(name)
        due: int | None = None
        try:
            if task:
                key = key_of(name, task["agent"])
                log_context.begin(LogContext(key.task, agent=key.agent))
                due = await self._look(key, task)
        except (LeaseLost, StateUnavailable):
            raise
        except (BusUnavailable, LogLost, LogTooNew) as error:
            await self._writer.defer(self._list, {name: until + RETRY_AFTER_MS})
            if isinstance(error, BusUnavailable):
                raise
            _log.info("maintenance of task %s will be retried: %s", name, error)
        except Exception as error:  # noqa: BLE001 - one log must not stop its range's upkeep
            await self._write_dead_letter(name, task, error)
            await self._writer.defer(self._list, {name: until + AFTER_ERROR})
        else:
            again = None if due is None else max(due, until + 1)
            await self._writer.defer(self._list, {name: again})

    async def _write_dead_letter(self, name: str, task: Fields, error: Exception) -> None:
        _log.error("maintenance of task %s failed", name, exc_info=error)
        key = key_of(name, task.get("agent", "unknown"))
        letter = DeadLetter(
            reason=f"maintenance of this task failed: {type(error).__name__}: {error}"[:1000],
            subject=self._bus.subjects.event(key),
            task=key.task,
            sequence=int(task.get("sequence", 0)),
            at=datetime.now(UTC).isoformat(),
        )
        await self._letters.send(letter, f"{name}.{self._list}")


async def repeat(look: Callable[[], Awaitable[object]], interval: float, what: str) -> None:
    """Make a pass with `look` every `interval` seconds; return when it raises LeaseLost.

    While NATS or the store is unavailable, it is logged once that `what` is delayed.
    """
    delays = Delays(what)
    while True:
        await tick(interval)
        try:
            await look()
            delays.end()
        except LeaseLost:
            return
        except (BusUnavailable, StateUnavailable) as error:
            delays.log(error)


class Delays:
    """Logs that work is delayed, once for NATS and once for the store until a pass succeeds."""

    def __init__(self, what: str) -> None:
        """Name the work `what`."""
        self._what = what
        self._logged = set[type[Exception]]()

    def log(self, error: Exception) -> None:
        """Log what delays the work, unless it is logged already."""
        if type(error) not in self._logged:
            _log.info("%s is delayed: %s", self._what, error)
        self._logged.add(type(error))

    def end(self) -> None:
        """Log the next delay again."""
        self._logged.clear()
