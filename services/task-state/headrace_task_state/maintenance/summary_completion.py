"""Complete the summaries of a new view by what the tasks' logs contain.

Until then, each read of such a task reads its log. Tasks that wait for their user come first, as
each may be another task's child, which its summary does not show; then the newest.
"""

import asyncio
import logging

from headrace.model.task import TaskKey
from headrace_task_state.maintenance.due import DueTasks, Upkeep, repeat
from headrace_task_state.projector.dead_letters import DeadLetters
from headrace_task_state.projector.whole_log import read_whole_log
from headrace_task_state.store import SUMMARY, DueList, Fields, name_of

_log = logging.getLogger(__name__)

REST = 0.01
"""Seconds of pause after each log, so that reads and new events get the processor first."""


class SummaryCompletion:
    """Completes the summaries of one range, under its lease."""

    def __init__(self, upkeep: Upkeep, timeout: float) -> None:
        """Complete by `upkeep`; an input is due for another run request after `timeout` s."""
        self._upkeep, self._timeout = upkeep, timeout
        self._bus, self._writer, self._timing = upkeep.bus, upkeep.writer, upkeep.timing
        stream = self._bus.streams.events(self._writer.lease.range.stream)
        self._letters = DeadLetters(self._bus, stream)
        self._due = DueTasks(upkeep, DueList.SUMMARIES, self._look)

    async def run(self) -> None:
        """Run until the lease is lost."""
        interval = self._timing.summary_interval
        await repeat(self._look_if_due, interval, "completion of summaries")

    async def _look_if_due(self) -> None:
        is_due = await self._upkeep.has_due(DueList.SUMMARIES)
        if is_due and not (await self._writer.progress()).is_summarizing:
            await self.look()

    async def look(self) -> int:
        """Complete all summaries; return how many were processed.

        Raises as `DueTasks.go_through`.
        """
        number = await self._due.go_through(self._upkeep.now())
        if number:
            _log.info("completed %d summaries", number)
        return number

    async def _look(self, key: TaskKey, task: Fields) -> int | None:
        """Complete the task; return when it is due again, ms; None: never."""
        if SUMMARY not in task or await self.complete(key, task):
            await asyncio.sleep(REST)
            return None
        return self._upkeep.now()

    async def complete(self, key: TaskKey, task: Fields) -> bool:
        """Replace the summary with these fields by the content of the task's log.

        Returns:
            False if more has been applied meanwhile.

        Raises as `DueTasks.go_through`.
        """
        sequence = int(task["sequence"])
        whole = await read_whole_log(self._bus, key, sequence, self._timeout, self._timing.silence)
        for letter in whole.letters:
            await self._letters.send(letter)
        return await self._writer.complete(name_of(key), sequence, whole.task)
