"""The way of an attempt: claim the run, run the agent, end the run, acknowledge the request."""

import logging
import time
from contextlib import nullcontext
from dataclasses import replace
from functools import partial

from headrace import clock, log_context
from headrace.jetstream.connection import NO_ANSWER
from headrace.log_context import LogContext
from headrace.model.errors import BusUnavailable, Fenced, LogLost, LogTooNew
from headrace.sdk.runtime import Interrupt
from headrace_worker.attempt import Attempt
from headrace_worker.claim import (
    Blocked,
    ClaimedRun,
    CleanUpDue,
    HeldElsewhere,
    Obsolete,
    Sleeping,
    Unclaimed,
    claim,
    pause_before,
)
from headrace_worker.clean_up import clean_up, once_readable
from headrace_worker.completion import end
from headrace_worker.run_metrics import observe_attempt

_log = logging.getLogger(__name__)


async def run_attempt(attempt: Attempt) -> None:
    """Run the attempt. After any failure the run is still queued, or its log has its end."""
    resources, assignment = attempt.resources, attempt.assignment
    task = assignment.key.task
    run, traceparent = assignment.run, assignment.run.terms.traceparent or ""
    about = LogContext(task, run.generation, agent=run.key.agent, traceparent=traceparent)
    log_context.begin(about)
    claims = partial(claim, resources.bus, resources.worker, assignment, attempt.agent)
    try:
        # Deliveries of another run's request decide nothing, and its place is wanted meanwhile.
        claimed = await (once_readable(attempt, claims) if run.cleans_up else claims())
        if isinstance(claimed, ClaimedRun):
            by, traceparent = claimed.authorship, claimed.traceparent or ""
            log_context.begin(replace(about, attempt=by.attempt, traceparent=traceparent))
            await _execute(attempt, claimed)
        else:
            await _leave(attempt, claimed)
    except (Fenced, LogLost) as loss:
        _log.info("task %s: another worker has taken over: %s", task, loss)
    except (BusUnavailable, LogTooNew, *NO_ANSWER) as error:
        _log.warning("task %s will be retried: %s", task, error)
    finally:
        resources.leases.release(attempt.hold)


async def _execute(attempt: Attempt, claimed: ClaimedRun) -> None:
    """Run the agent and end the run, noted in metrics and in the attempt's span."""
    series = attempt.series
    if claimed.authorship.attempt == 1:
        series.observe_wait(attempt.assignment)
    series.attempts.inc()
    series.working += 1
    began = time.perf_counter()
    try:
        span = claimed.span
        with nullcontext() if span is None else span.lasting(lambda: attempt.used):
            attempt.begin(claimed)
            overdue = None
            if claimed.deadline is not None:
                left = (claimed.deadline - clock.now()).total_seconds()
                overdue = clock.task_clock().call_later(left, attempt.interrupt, Interrupt.OVERDUE)
            try:
                attempt.start_agent()
                await attempt.over
            finally:
                if overdue is not None:
                    overdue.cancel()
            await end(attempt)
    finally:
        series.working -= 1
        observe_attempt(attempt.agent, time.perf_counter() - began, attempt.error_type)


async def _leave(attempt: Attempt, unclaimed: Unclaimed) -> None:
    """Do what is to be done about a run that is not this attempt's."""
    assignment, bus = attempt.assignment, attempt.resources.bus
    task = assignment.key.task
    match unclaimed:
        case HeldElsewhere():
            _log.debug("task %s is held by %s", task, unclaimed.by)
        case Blocked():
            _log.debug("task %s waits for task %s to end", task, unclaimed.task)
            since = assignment.message.metadata.timestamp
            pause = pause_before(since, attempt.resources.timing.turn_pauses)
            await assignment.give_back(bus, pause)
        case Sleeping():
            await assignment.give_back_until(bus, unclaimed.until)
        case CleanUpDue():
            await clean_up(attempt, unclaimed.end)
        case Obsolete(lost=True):
            _log.warning("storing a run of task %s as a dead letter: %s", task, unclaimed.reason)
            await assignment.give_up(bus, unclaimed.reason)
        case Obsolete():
            _log.debug("dropped a run of task %s: %s", task, unclaimed.reason)
            await assignment.ack(bus)
