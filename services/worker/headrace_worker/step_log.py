"""Steps in the task's log: their records, and what shows them meanwhile."""

import asyncio
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from typing import Protocol

from headrace.model.events import Draft, Json
from headrace.model.step import FAILED, STARTED, ShownStep, StepRecord
from headrace.sdk.errors import RunOver
from headrace.sdk.source import is_awaited_by_agent
from headrace_worker.appender import Appender
from headrace_worker.claim import ClaimedRun
from headrace_worker.offload import Offload

_SHOWN_AFTER = 0.1
"""Seconds after which the start of a step is shown; a shorter one takes one message in all."""


class Stepping(Protocol):
    """An attempt, as its steps use it."""

    @property
    def claimed(self) -> ClaimedRun:
        """The run."""

    @property
    def appender(self) -> Appender:
        """The task's log."""

    @property
    def files(self) -> Offload:
        """The task's files."""

    @property
    def agent_task(self) -> asyncio.Task[None] | None:
        """The agent's own task. None: it is being started, and has not paused yet."""

    def working(self, metadata: Json | None = None) -> Draft:
        """Return a WORKING status."""


class AttemptSteps:
    """The steps of one attempt; a `StepLog`."""

    def __init__(self, attempt: Stepping) -> None:
        """Record the steps of `attempt`."""
        self._attempt = attempt

    @property
    def files(self) -> Offload:
        """The task's files."""
        return self._attempt.files

    @property
    def is_alone(self) -> bool:
        """Whether the agent's own asyncio task awaits the caller, without a framework between."""
        own = self._attempt.agent_task
        is_own = own is None or asyncio.current_task() is own
        return is_own and is_awaited_by_agent(sys._getframe())  # noqa: SLF001  # as in `source`

    @contextmanager
    def shown(self, name: str) -> Iterator[None]:
        """Show that a step runs during the block: in its span, and in the log if it is slow."""
        started = False

        def start() -> None:
            nonlocal started
            started = self._offer(ShownStep(name, STARTED))

        span = self._attempt.claimed.span
        timer = asyncio.get_running_loop().call_later(_SHOWN_AFTER, start)
        try:
            with nullcontext() if span is None else span.step(name):
                yield
        except BaseException:
            if started:
                self._offer(ShownStep(name, FAILED))
            raise
        finally:
            timer.cancel()

    async def record(self, record: StepRecord, shown: Json | None) -> None:
        """Store a record with `shown` as its event's metadata, and return when it is stored.

        Raises:
            RunOver: The run has ended.
        """
        appender, encoded = self._attempt.appender, record.encode()
        await appender.deliver(self._attempt.working(shown), step=encoded)

    def _offer(self, shown: ShownStep) -> bool:
        with suppress(RunOver):
            self._attempt.appender.offer(self._attempt.working(shown.metadata()))
            return True
        return False
