"""One attempt at one run: claim the run, run the agent, end the run, acknowledge the request.

Three things can interrupt the agent: the task is canceled, the worker must hand the run back, or
another writer has taken over the log. In the last case the attempt appends nothing, acknowledges
nothing and answers no requests.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import replace
from datetime import datetime
from functools import partial

from headrace import clock, log_context
from headrace.jetstream.connection import NO_ANSWER
from headrace.log_context import LogContext
from headrace.model import events
from headrace.model.entry import Entry
from headrace.model.errors import BusUnavailable, Fenced, LogLost, LogTooNew
from headrace.model.fold import TaskFold
from headrace.model.messages import HolderReply
from headrace.model.timestamp import timestamp
from headrace.sdk.agent import Agent, EndedTask
from headrace.sdk.drive import drive
from headrace.sdk.errors import Retryable
from headrace.sdk.runtime import Interrupt
from headrace_worker.assignment import Assignment
from headrace_worker.claim import (
    Blocked,
    ClaimedRun,
    CleanUpDue,
    HeldElsewhere,
    Obsolete,
    Sleeping,
    claim,
    pause_before,
)
from headrace_worker.completion import complete
from headrace_worker.concurrency import Permit
from headrace_worker.execution import Execution, WorkerResources
from headrace_worker.heartbeats import Hold, HolderAnswers
from headrace_worker.recovery import events_before
from headrace_worker.run_limits import why_overdue
from headrace_worker.run_metrics import AgentSeries, series_of
from headrace_worker.stamp_base import StampBase

_log = logging.getLogger(__name__)

_LAST_APPEND = 10.0
"""Timeout in seconds for the last append of an attempt whose agent requested another one."""


class Attempt:
    """One attempt, from a pulled run to its acknowledgement."""

    def __init__(
        self, resources: WorkerResources, agent: Agent, assignment: Assignment, permit: Permit
    ) -> None:
        """Prepare to run `agent` on `assignment`, with `permit`."""
        self._resources, self._agent, self._assignment = resources, agent, assignment
        self._permit = permit
        self._hold: Hold | None = None
        self._execution: Execution | None = None
        self.interrupted = Interrupt.NONE
        """Why the agent is being stopped."""
        self._over: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """Done when the agent has ended, or is no longer waited for."""
        self.name = assignment.key.task, assignment.run
        """Its task and run."""

    async def run(self) -> None:
        """Run the attempt. After any failure the run is still queued, or its log has its end."""
        resources, assignment = self._resources, self._assignment
        hold = self._hold = resources.leases.take(assignment.message.reply)
        log_context.begin(self._log_context())
        try:
            taken = await self._claim()
            if isinstance(taken, ClaimedRun):
                await self._execute(hold, taken)
            else:
                await self._leave(taken)
        except (Fenced, LogLost) as loss:
            _log.info("task %s: another worker has taken over: %s", assignment.key.task, loss)
        except (BusUnavailable, LogTooNew, *NO_ANSWER) as error:
            _log.warning("task %s will be retried: %s", assignment.key.task, error)
        finally:
            resources.leases.release(hold)

    async def _claim(
        self,
    ) -> ClaimedRun | HeldElsewhere | Obsolete | Blocked | Sleeping | CleanUpDue:
        resources, assignment = self._resources, self._assignment
        claims = partial(claim, resources.bus, resources.worker, assignment, self._agent)
        # Deliveries of another run's request decide nothing, and its place is wanted meanwhile.
        return await (self._once_readable(claims) if assignment.request.cleans_up else claims())

    def _log_context(self) -> LogContext:
        assigned = self._assignment
        traceparent = assigned.request.traceparent or ""
        return LogContext(
            assigned.key.task, assigned.run, agent=assigned.key.agent, traceparent=traceparent
        )

    def interrupt(self, why: Interrupt) -> None:
        """Stop the agent for the reason `why`, if it still runs."""
        if why <= self.interrupted or self._over.done():
            return
        is_first, self.interrupted = self.interrupted is Interrupt.NONE, why
        execution = self._execution
        if why is Interrupt.LOST:
            if execution is not None:
                execution.appender.abort()
            if self._hold is not None:
                self._resources.leases.release(self._hold)
        if is_first and execution is not None and execution.agent_task is not None:
            self._stop(execution.agent_task)

    async def _leave(
        self, unclaimed: HeldElsewhere | Obsolete | Blocked | Sleeping | CleanUpDue
    ) -> None:
        """Do what is to be done about a run that is not this attempt's."""
        match unclaimed:
            case HeldElsewhere():
                _log.debug("task %s is held by %s", self._assignment.key.task, unclaimed.by)
            case Blocked():
                await self._wait_behind(unclaimed)
            case Sleeping():
                await self._give_back_until(unclaimed.until)
            case CleanUpDue():
                await self._clean_up(unclaimed.end)
            case Obsolete():
                await self._drop(unclaimed)

    async def _wait_behind(self, behind: Blocked) -> None:
        run = self._assignment
        _log.debug("task %s waits for task %s to end", run.key.task, behind.task)
        pause = pause_before(run.message.metadata.timestamp, self._resources.timing.turn_pauses)
        await run.give_back(self._resources.bus, pause)

    async def _give_back_until(self, time: datetime) -> None:
        pause = max((time - clock.now()).total_seconds(), 0.0)
        await self._assignment.give_back(self._resources.bus, pause)

    async def _drop(self, void: Obsolete) -> None:
        task, bus = self._assignment.key.task, self._resources.bus
        if void.lost:
            _log.warning("storing a run of task %s as a dead letter: %s", task, void.reason)
            await self._assignment.give_up(bus, void.reason)
        else:
            _log.debug("dropped a run of task %s: %s", task, void.reason)
            await self._assignment.ack(bus)

    async def _clean_up(self, end: Entry) -> None:
        """Call the agent's clean-up for the task that ended with `end`, then acknowledge the run.

        A failed clean-up is retried, because what it needs may be available then; one that is given
        up is a dead letter, because an operator may correct that, or the request was only delivered
        often.
        """
        assignment, bus, timing = self._assignment, self._resources.bus, self._resources.timing
        task, failures = assignment.key.task, self._resources.failed_clean_ups
        if assignment.message.metadata.num_delivered > timing.cleanup_deliveries:
            _log.error("task %s: its clean-up is given up; it may have killed its workers", task)
            deliveries = timing.cleanup_deliveries
            reason = (
                f"the task's clean-up did not end within {deliveries} deliveries of its request"
            )
            await assignment.give_up(bus, reason, task)
            failures.forget(assignment.key)
            return
        try:
            ended = None if self._agent.clean_up is None else await self._ended(end)
        except LogLost as loss:
            _log.info("task %s is gone: %s", task, loss)
            ended = None
        try:
            if self._agent.clean_up is not None and ended is not None:
                async with asyncio.timeout(timing.cleanup):
                    await self._agent.clean_up(ended)
        except Exception as error:  # noqa: BLE001  # the agent's: `ended` has been read
            # Not the request's deliveries, which also grow when a worker leaves or NATS elects.
            tries = failures.add(assignment.key)
            if tries <= len(timing.cleanup_pauses):
                pause = timing.cleanup_pauses[tries - 1]
                _log.warning(
                    "task %s: clean-up failed; next attempt in %g s: %r", task, pause, error
                )
                await assignment.give_back(bus, pause)
                return
            _log.error("task %s: the agent's last clean-up attempt failed", task, exc_info=error)
            await assignment.give_up(bus, "the last attempt at the task's clean-up failed", task)
            failures.forget(assignment.key)
            return
        failures.forget(assignment.key)
        await assignment.ack(bus)

    async def _ended(self, end: Entry) -> EndedTask:
        """Return the task that ended with `end`, as its clean-up is told.

        Raises:
            LogLost: The log is gone.
            BusUnavailable: It can't be read, and the run must be left.
        """
        key, request, fold = self._assignment.key, self._assignment.request, TaskFold()
        logged = await self._once_readable(
            lambda: events_before(self._resources.bus, key, end.sequence)
        )
        for _, event in logged:
            fold.apply(event)
        return EndedTask(key, request.context, request.owner, fold.task(), logged)

    async def _once_readable[Found](self, read: Callable[[], Awaitable[Found]]) -> Found:
        """Return what `read` returns; wait as long as the log of the ended task can't be read.

        That is no failure of the clean-up, and the request, which the worker holds meanwhile, is
        not delivered once more: too many deliveries have a clean-up given up.

        Raises:
            BusUnavailable: It can't be read, and the run must be left.
        """
        while True:
            try:
                return await read()
            except (BusUnavailable, *NO_ANSWER) as error:
                if self.interrupted is not Interrupt.NONE:
                    raise
                task = self._assignment.key.task
                _log.warning("task %s: its clean-up waits for its log: %s", task, error)
            await asyncio.sleep(self._resources.timing.cleanup_log)

    async def _execute(self, hold: Hold, taken: ClaimedRun) -> None:
        """Run the agent and end the run, noted in logs, metrics and the attempt's span."""
        series = self._note_begin(taken)
        try:
            with taken.span.lasting():
                execution = self._prepare(hold, taken)
                overdue = None if taken.deadline is None else self._interrupt_at(taken.deadline)
                try:
                    self._start_agent(execution)
                    await self._over
                finally:
                    if overdue is not None:
                        overdue.cancel()
                    self._resources.watch.remove(execution.appender)
                await self._end(hold, execution)
        finally:
            series.working -= 1

    def _note_begin(self, taken: ClaimedRun) -> AgentSeries:
        attempt, traceparent = taken.authorship.attempt, taken.span.traceparent or ""
        log_context.begin(replace(self._log_context(), attempt=attempt, traceparent=traceparent))
        series = series_of(self._agent)
        if attempt == 1:
            series.observe_wait(self._assignment)
        series.attempts.inc()
        series.working += 1
        return series

    def _prepare(self, hold: Hold, taken: ClaimedRun) -> Execution:
        """Make the parts of the attempt, and let others reach and interrupt it from now on."""
        resources = self._resources
        execution = self._execution = Execution(
            resources, self._agent, self._assignment, taken, attempt=self, permit=self._permit
        )
        hold.answers = HolderAnswers(
            resources.bus.subjects.control(self._assignment.key),
            partial(self._holder_reply, taken.authorship),
            self.interrupt,
            execution.inputs,
        )
        resources.watch.add(execution.appender)
        if execution.inputs.waiting and execution.inputs.interrupts:
            self.interrupt(Interrupt.SUPERSEDED)
        if taken.recovered.is_canceling:
            self.interrupt(Interrupt.CANCELED)
        return execution

    def _interrupt_at(self, deadline: datetime) -> asyncio.TimerHandle:
        left = (deadline - clock.now()).total_seconds()
        return clock.task_clock().call_later(left, self.interrupt, Interrupt.OVERDUE)

    def _holder_reply(self, by: StampBase) -> HolderReply:
        return HolderReply(
            writer=by.writer,
            worker=self._resources.worker,
            run=by.run,
            attempt=by.attempt,
            ends_within=self._resources.settings.cleanup_seconds
            + self._resources.timing.child_confirmation,
        )

    def _start_agent(self, execution: Execution) -> None:
        """Start the agent, unless it has been interrupted; `_over` is done when it has ended."""
        if self.interrupted is Interrupt.NONE:
            agent_task = asyncio.Task(
                drive(self._agent, execution.context),
                loop=asyncio.get_running_loop(),
                context=clock.task_clock().agents_context(),
                eager_start=True,
            )
            execution.agent_task = agent_task
            if not agent_task.done():
                agent_task.add_done_callback(self._stopped)
                return
        self._over.set_result(None)

    def _stop(self, agent_task: "asyncio.Task[None]") -> None:
        agent_task.cancel()
        resources = self._resources
        timeout = resources.settings.cleanup_seconds
        if self.interrupted is Interrupt.HANDED_BACK and not self._falls_asleep:
            timeout = resources.timing.hand_back
        asyncio.get_running_loop().call_later(timeout, self._stopped, agent_task)

    def _stopped(self, agent_task: "asyncio.Task[None]") -> None:
        if not agent_task.done():
            self._resources.abandoned.add(agent_task)
            agent_task.add_done_callback(self._resources.abandoned.discard)
        elif not agent_task.cancelled():
            # Retrieved, or asyncio would warn about it.
            agent_task.exception()
        if not self._over.done():
            self._over.set_result(None)

    def _end(  # noqa: PLR0911  # one for each
        self, hold: Hold, execution: Execution
    ) -> Coroutine[None, None, None]:
        """Return what is still to be done, as the agent has ended."""
        match self.interrupted:
            case Interrupt.LOST:
                return self._let_go(execution)
            case Interrupt.HANDED_BACK if (until := execution.asleep_until) is not None:
                return self._fall_asleep(hold, execution, until)
            case Interrupt.HANDED_BACK:
                return self._hand_back(hold, execution, None)
            case Interrupt.OVERDUE:
                why = why_overdue(execution.policy, execution.recovered)
                return self._complete(execution, why)
            case Interrupt.NONE if (again := execution.retryable) is not None:
                if execution.has_attempts_left:
                    return self._hand_back(hold, execution, again)
                return self._complete(execution, "Given up: the last attempt failed")
            case _:
                return self._complete(execution)

    async def _let_go(self, execution: Execution) -> None:
        execution.span.note_error("taken_over")
        await execution.detach_children()
        _log.info("task %s: another worker has taken over", self._assignment.key.task)

    async def _hand_back(self, hold: Hold, execution: Execution, again: Retryable | None) -> None:
        await execution.detach_children()
        why, pause, timeout = events.LEAVING, 0.0, self._resources.timing.hand_back
        if again is not None:
            execution.span.note_error(again)
            why, timeout = events.TRYING_AGAIN, _LAST_APPEND
            own = execution.policy.pause(execution.failures)
            pause = own if again.after is None else again.after
            task, count = execution.key.task, execution.failures
            _log.warning("task %s: attempt %d failed, next in %g s: %s", task, count, pause, again)
        await execution.append_handed_back({events.HANDED_BACK: why}, timeout)
        await self._resources.leases.release_and_wait(hold)
        await self._assignment.give_back(self._resources.bus, pause)

    @property
    def _falls_asleep(self) -> bool:
        return self._execution is not None and self._execution.asleep_until is not None

    async def _fall_asleep(self, hold: Hold, execution: Execution, until: datetime) -> None:
        await execution.detach_children()
        why = {events.HANDED_BACK: events.ASLEEP, events.ASLEEP_UNTIL: timestamp(until)}
        await execution.append_handed_back(why, _LAST_APPEND)
        await self._resources.leases.release_and_wait(hold)
        # A run that sleeps past its deadline ends at the deadline.
        await self._give_back_until(min(until, execution.context.deadline or until))

    async def _complete(self, execution: Execution, given_up: str | None = None) -> None:
        """Append the run's end; `given_up` is why the run becomes a dead letter, if it does."""
        bus = self._resources.bus
        if given_up is not None:
            await self._assignment.keep_as_dead_letter(bus, given_up)
        run = await complete(execution, self.interrupted)
        if given_up and self.interrupted is Interrupt.NONE and self._agent.clean_up:
            await self._assignment.ask_for(bus, execution.appender.offered, cleans_up=True)
        elif run is not None:
            await self._assignment.ask_for(bus, run)
        await self._assignment.ack(bus)
