"""The agent's clean-up for a task that ended without its agent."""

import asyncio
import logging
from collections.abc import Awaitable, Callable

from headrace.jetstream.connection import NO_ANSWER
from headrace.model.entry import Entry
from headrace.model.errors import BusUnavailable, LogLost
from headrace.model.fold import TaskFold
from headrace.sdk.agent import EndedTask
from headrace.sdk.runtime import Interrupt
from headrace_worker.attempt import Attempt
from headrace_worker.earlier import TaskPast

_log = logging.getLogger(__name__)


async def clean_up(attempt: Attempt, end: Entry) -> None:
    """Call the agent's clean-up for the task that ended with `end`, then acknowledge the run.

    A failed clean-up is retried, because what it needs may be available then; one that is given
    up is a dead letter, because an operator may correct that, or the request was only delivered
    often.
    """
    assignment, resources = attempt.assignment, attempt.resources
    task, timing = assignment.key.task, resources.timing
    if assignment.message.metadata.num_delivered > timing.cleanup_deliveries:
        _log.error("task %s: its clean-up is given up; it may have killed its workers", task)
        deliveries = timing.cleanup_deliveries
        why = f"the task's clean-up did not end within {deliveries} deliveries of its request"
        await _give_up(attempt, why)
        return
    call = attempt.agent.clean_up
    ended = None if call is None else await _ended(attempt, end)
    try:
        if call is not None and ended is not None:
            async with asyncio.timeout(timing.cleanup):
                await call(ended)
    except Exception as error:  # noqa: BLE001  # the agent's: `ended` has been read
        await _after_failure(attempt, error)
        return
    resources.failed_clean_ups.forget(assignment.key)
    await assignment.ack(resources.bus)


async def _after_failure(attempt: Attempt, error: Exception) -> None:
    assignment, resources = attempt.assignment, attempt.resources
    task, pauses = assignment.key.task, resources.timing.cleanup_pauses
    # Not the request's deliveries, which also grow when a worker leaves or NATS elects.
    tries = resources.failed_clean_ups.add(assignment.key)
    if tries <= len(pauses):
        pause = pauses[tries - 1]
        _log.warning("task %s: clean-up failed; next attempt in %g s: %r", task, pause, error)
        await assignment.give_back(resources.bus, pause)
        return
    _log.error("task %s: the agent's last clean-up attempt failed", task, exc_info=error)
    await _give_up(attempt, "the last attempt at the task's clean-up failed")


async def _give_up(attempt: Attempt, reason: str) -> None:
    key = attempt.assignment.key
    await attempt.assignment.give_up(attempt.resources.bus, reason, key.task)
    attempt.resources.failed_clean_ups.forget(key)


async def _ended(attempt: Attempt, end: Entry) -> EndedTask | None:
    """Return the task that ended with `end`, as its clean-up is told; None: its log is gone.

    Raises:
        BusUnavailable: It can't be read, and the run must be left.
    """
    run, fold = attempt.assignment.run, TaskFold()
    past = TaskPast(attempt.resources.bus, run.key, run.owner, run.context, end.sequence)
    try:
        logged = await once_readable(attempt, past.events)
    except LogLost as loss:
        _log.info("task %s is gone: %s", run.key.task, loss)
        return None
    for _, event in logged:
        fold.apply(event)
    return EndedTask(run.key, run.context, run.owner, fold.task(), logged)


async def once_readable[Found](attempt: Attempt, read: Callable[[], Awaitable[Found]]) -> Found:
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
            if attempt.interrupted is not Interrupt.NONE:
                raise
            task = attempt.assignment.key.task
            _log.warning("task %s: its clean-up waits for its log: %s", task, error)
        await asyncio.sleep(attempt.resources.timing.cleanup_log)
