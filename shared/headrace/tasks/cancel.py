"""Cancelling a task: confirmed by CANCELED in its log, whichever process appends it.

The worker that holds the task has task state cancel the children of its run
(`headrace_worker.delegation.children`, `headrace_task_state.commands.for_workers`) before it
appends CANCELED. Task state also cancels the children of a task that no worker holds
(`headrace_task_state.maintenance.orphans`).
"""

import asyncio
from dataclasses import dataclass
from typing import Protocol

from headrace.jetstream.connection import Bus
from headrace.log import last_entry
from headrace.model.errors import BusUnavailable
from headrace.model.messages import Control, HolderReply
from headrace.model.task import CANCELED, TaskKey
from headrace.tasks.end import end_task
from headrace.tasks.holder import ask_holder
from headrace.wait_for import ELECTION, RECONNECT


@dataclass(frozen=True, slots=True)
class CancelTiming:
    """Both in seconds."""

    holder_timeout: float = 0.5
    """That a holder has to answer. After two timeouts it counts as gone."""
    cleanup: float = 8.0
    """Minimum that a holder has to end the run before it is fenced. Its answer can extend it."""


TIMING = CancelTiming()

_MARGIN = 3.0
"""Seconds added to those that a holder requests."""

_CANCEL = Control(ask="cancel")
_ATTEMPTS = 2
_LOOK_EVERY = 0.1


class CanceledLog(Protocol):
    """A task's log, as a cancel watches it."""

    async def is_over(self) -> bool:
        """Return whether the task is over, or has no log."""

    async def run_ends(self) -> bool:
        """Wait until the task is over or another run has begun, whose holder must be asked too.

        False: the task waits for its user and has no holder.
        """


async def cancel_task(
    bus: Bus,
    key: TaskKey,
    writer: str,
    log: CanceledLog | None = None,
    timing: CancelTiming = TIMING,
) -> None:
    """End the task through its holder, or as `writer` if it has no live holder.

    The task may end otherwise in the meantime. If its log does not exist, nothing happens. `log` is
    watched; without it the log is polled.

    Raises:
        TaskUnknown, LogLost: The log was lost meanwhile.
        BusUnavailable: NATS does not answer.
    """
    log = log or _Read(bus, key)
    while not await log.is_over():
        holding = await _ask(bus, key, timing)
        if holding is None or not holding.accepted or not await _ends(log, holding, timing):
            await end_task(bus, key, CANCELED, writer)
            return


async def _ask(bus: Bus, key: TaskKey, timing: CancelTiming) -> HolderReply | None:
    """Return the holder's answer. None: the task has no holder.

    A timeout does not count while this process, and most likely the holder too, reconnects.
    """
    loop, requests = asyncio.get_running_loop(), 0
    deadline = loop.time() + ELECTION
    while requests < _ATTEMPTS:
        holding = await ask_holder(bus, key, _CANCEL, timing.holder_timeout)
        if holding is not None:
            return holding
        if bus.answers and loop.time() > bus.back_since + RECONNECT:
            requests += 1
        elif loop.time() > deadline:
            raise BusUnavailable("NATS does not answer")
    return None


async def _ends(log: CanceledLog, holding: HolderReply, timing: CancelTiming) -> bool:
    needed = 0.0 if holding.ends_within is None else holding.ends_within + _MARGIN
    try:
        async with asyncio.timeout(max(timing.cleanup, needed)):
            return await log.run_ends()
    except TimeoutError:
        return False


class _Read:
    """Polls the log's last entry."""

    def __init__(self, bus: Bus, key: TaskKey) -> None:
        self._bus, self._key = bus, key
        self._run = 0

    async def is_over(self) -> bool:
        last = await last_entry(self._bus, self._key)
        if last is None:
            return True
        self._run = last.stamp.run
        return last.ends_task

    async def run_ends(self) -> bool:
        while (last := await last_entry(self._bus, self._key)) is not None:
            if last.ends_task or last.stamp.run != self._run:
                return True
            if last.ends_run:
                return False
            await asyncio.sleep(_LOOK_EVERY)
        return True
