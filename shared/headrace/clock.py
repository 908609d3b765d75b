"""The time that agents and tasks' deadlines see: the machine's, NATS' on workers, or a test's own.

Leases, heartbeats and requests to NATS measure the machine's time and do not use this module.
"""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import Context, ContextVar, copy_context
from datetime import UTC, datetime
from typing import Any


class TaskClock:
    """The machine's time."""

    def now(self) -> datetime:
        """Return the time of day, in UTC."""
        return datetime.now(UTC)

    def call_later(
        self,
        seconds: float,
        callback: Callable[..., object],
        *args: Any,  # noqa: ANN401 - the callback's
    ) -> asyncio.TimerHandle:
        """Call `callback` on the running loop after `seconds`."""
        return asyncio.get_running_loop().call_later(seconds, callback, *args)

    def agents_context(self) -> Context:
        """Return a context to run an agent in, a copy of the current one."""
        return copy_context()


_current: ContextVar[TaskClock] = ContextVar("task_clock", default=TaskClock())  # noqa: B039 - it has no state


def task_clock() -> TaskClock:
    """Return the clock of the current context."""
    return _current.get()


@contextmanager
def use_task_clock(clock: TaskClock) -> Iterator[None]:
    """Use `clock` in the block, and in the asyncio tasks that are created in it."""
    before = _current.set(clock)
    try:
        yield
    finally:
        _current.reset(before)


def now() -> datetime:
    """Return the time of day in UTC, as tasks of the current context see it."""
    return _current.get().now()
