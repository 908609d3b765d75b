"""The sweep: publish the run of an input again that no worker has started, or reject the input.

A gateway may be killed between an append and its run request. The queue refuses a copy of a run
that still waits, and a copy of a run in flight does nothing: the log decides. After its start
deadline an input's run is no longer requested: its task ends, even without any live worker.

A run may also be lost while its task is running: the queue is purged, or restored without it, and
then the worker is killed. So the sweep contacts the holder of a silent task, unless the watch of
workers knows it from its worker's last answer. If there is no holder, the run is published again:
the queue refuses it unless it is gone.
"""

import logging
from contextlib import suppress
from datetime import datetime

from headrace import metrics
from headrace.directory import Directory
from headrace.jetstream.errors import Refused
from headrace.log import last_entry
from headrace.model.entry import Entry
from headrace.model.errors import Fenced, LogFull
from headrace.model.events import ASLEEP, WOKEN, why_handed_back
from headrace.model.messages import Control
from headrace.model.run import Run, RunTerms
from headrace.model.sleep import asleep_until
from headrace.model.subjects import NORMAL
from headrace.model.task import SUBMITTED, TaskKey
from headrace.tasks.delayed_runs import start_of
from headrace.tasks.end import TOO_LATE, is_unstarted, reject_unstarted
from headrace.tasks.forget import delete_unended
from headrace.tasks.holder import ask_holder
from headrace.tasks.runs import RunRequests, release
from headrace_task_state.maintenance.due import DueTasks, Upkeep, repeat
from headrace_task_state.maintenance.held_tasks import HeldTask, HeldTasks
from headrace_task_state.store import DueList, Fields

_log = logging.getLogger(__name__)

_HOLDER = 2.0
"""Seconds to wait for a holder's answer."""

_WHO = Control(ask="who")


class Sweep:
    """Handles the waiting inputs and silent tasks of one range, under its lease."""

    def __init__(
        self, upkeep: Upkeep, directory: Directory, start_within: float, held: HeldTasks
    ) -> None:
        """Find tasks by `upkeep`; reject inputs not started within `start_within` seconds.

        `directory` contains which versions continue the tasks of others, `held` which tasks have a
        holder that need not be asked.
        """
        self._held = held
        self._directory = directory
        self._upkeep, self._bus, self._timing = upkeep, upkeep.bus, upkeep.timing
        self._start_within = round(start_within * 1000)
        self._runs, self._clock = RunRequests(self._bus), upkeep.clock
        self._due = DueTasks(upkeep, DueList.AT_WORK, self._look)

    async def run(self) -> None:
        """Run until the lease is lost."""
        await repeat(self._sweep_if_due, self._timing.sweep_interval, "the sweep")

    async def _sweep_if_due(self) -> None:
        if await self._upkeep.has_due(DueList.AT_WORK):
            await self.sweep()

    async def sweep(self) -> int:
        """Process every input and running task that is due; return how many there were.

        Raises as `DueTasks.go_through`.
        """
        left_alone = None if self._held.is_empty else self._next_if_held
        return await self._due.go_through(self._upkeep.now(), left_alone)

    def known_holder(self, key: TaskKey) -> HeldTask | None:
        """Return the task if its worker has just said that it holds it."""
        return self._held.find(self._bus.subjects.control(key))

    async def recover(self, key: TaskKey, task: Fields) -> None:
        """Have a worker get the run of a task without a holder: from the queue, or requested again.

        Raises:
            BusUnavailable: the log or the queue does not answer.
        """
        run, last = int(task["run"]), await last_entry(self._bus, key)
        if last is None or last.ends_run or last.stamp.run != run or last.stamp.attempt == 0:
            return
        # A run that was handed back is in the queue, until its next attempt is due.
        if why_handed_back(last.events[-1]) is not None:
            return
        if not await self._publish(key, task, task.get("priority", NORMAL)):
            await release(self._bus, key)

    async def _look(self, key: TaskKey, task: Fields) -> int:
        """Process a task; return when it is due again, ms."""
        # The view may lag: while it is rebuilt after a loss, all past inputs appear to be waiting.
        last = await last_entry(self._bus, key)
        if last is None or last.ends_task:
            # The view takes a task off the list when it applies the end. It may never do: the log
            # may be restored from before its end, and then the task is working again.
            return self._upkeep.now(self._timing.max_request_interval)
        run = int(task["run"])
        if is_unstarted(last, run):
            return await self._ask_again(key, task, last)
        until = asleep_until(last.events[-1])
        if until is not None and until.timestamp() > self._clock.now():
            return round((until.timestamp() + self._timing.silence) * 1000)
        if last.stamp.run == run and not last.ends_run:
            return await self._ask_holder(key, task, last)
        return self._upkeep.now(self._timing.silence)

    def _next_if_held(self, key: TaskKey, task: Fields) -> int | None:
        """Return when a running task is due again, ms, if its worker says that it holds it."""
        held = self.known_holder(key)
        if held is None or task.get("state") == SUBMITTED:
            return None
        timing = self._timing
        pause = held.next_pause(task.get("sequence", ""), timing.silence, timing.max_silence)
        return self._upkeep.now(pause)

    async def _ask_holder(self, key: TaskKey, task: Fields, last: Entry) -> int:
        """Publish the run of a silent task without a holder; return when it is due again, ms."""
        now, last_output = self._clock.now(), datetime.fromisoformat(last.time).timestamp()
        silence = now - last_output
        if silence < self._timing.silence:
            return round((last_output + self._timing.silence) * 1000)
        if await ask_holder(self._bus, key, _WHO, _HOLDER) is None:
            is_new = await self._publish(key, task, task.get("priority", NORMAL))
            if not is_new and why_handed_back(last.events[-1]) in {ASLEEP, WOKEN}:
                # Its sleep is over, but who has ended it was killed before the queue knew of it.
                await release(self._bus, key)
        pause = min(silence, self._timing.max_silence)
        return round((now + pause) * 1000)

    async def _ask_again(self, key: TaskKey, task: Fields, last: Entry) -> int:
        """Request a worker, or reject the input if it is late; return when it is due again, ms.

        The time of a delayed input counts from its start.
        """
        now = self._upkeep.now()
        submitted = int(task.get("submitted", now))
        if (start := start_of(last)) is not None:
            submitted = max(submitted, round(start.timestamp() * 1000))
            requested = submitted + round(self._timing.after_start * 1000)
            if now < requested:
                return requested
        start_by = submitted + self._start_within
        if own := int(task.get("start_by") or 0):
            start_by = min(start_by, own)
        if start_by > now:
            await self._publish(key, task, task.get("priority", NORMAL))
        else:
            await self._reject(key, task, last)
        due = now + min(now - submitted, round(self._timing.max_request_interval * 1000))
        return min(due, start_by) if start_by > now else due

    async def _reject(self, key: TaskKey, task: Fields, last: Entry) -> None:
        try:
            is_rejected = await reject_unstarted(self._bus, key, int(task["run"]), TOO_LATE)
        except LogFull as full:
            with suppress(Fenced):  # A worker has just started it.
                await delete_unended(self._bus, key, last, full)
            return
        if is_rejected:
            _log.warning("task %s is rejected: no worker started the task in time", key.task)

    async def _publish(self, key: TaskKey, task: Fields, priority: str) -> bool:
        """Request the task's run again; return whether the queue did not have it."""
        terms = RunTerms(priority, self._version(key, task), traceparent=task.get("traceparent"))
        named = task["log"], task["context"], task["owner"]
        try:
            is_new = await self._runs.publish(Run(key, int(task["run"]), *named, terms))
        except Refused as refused:
            if not refused.is_full:
                raise
            return False
        if is_new:
            metrics.RUNS_REQUESTED_AGAIN.inc()
            _log.warning(
                "task %s: no worker holds run %s; requested it again", key.task, task["run"]
            )
        return is_new

    def _version(self, key: TaskKey, task: Fields) -> str | None:
        return self._directory.route(key.agent).continues(task.get("version"))
