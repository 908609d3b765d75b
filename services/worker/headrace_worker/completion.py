"""Completion of an attempt: from what became of its agent to the last event, or the next try."""

import logging
import secrets
from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import replace
from datetime import datetime

from headrace import clock
from headrace.log import last_entry
from headrace.log_lines import UNLIMITED
from headrace.model import events
from headrace.model.delegation import ASKS_FOR
from headrace.model.errors import Fenced, LogLost
from headrace.model.events import Draft, Json, timestamp
from headrace.model.memory import MemoryFull
from headrace.model.queued_message import QueuedMessage
from headrace.model.task import (
    BARE_MESSAGE,
    COMPLETED,
    FAILED,
    INPUT_REQUIRED,
    SUBMITTED,
    WORKING,
)
from headrace.sdk.errors import DelegationFailed, MalformedOutput, Misused, Retryable, RunOver
from headrace.sdk.runtime import Interrupt
from headrace.tasks.continue_ import submitted
from headrace_worker.appender import GivesWay
from headrace_worker.attempt import Attempt
from headrace_worker.claim import why_overdue
from headrace_worker.delegation.children import Children
from headrace_worker.encoder import End, Fault
from headrace_worker.spans import error_type_of
from headrace_worker.usage import UsageTotals

_log = logging.getLogger(__name__)

_LAST_APPEND = 10.0
"""Timeout in seconds for the last append of an attempt after which another one follows."""

_LONGEST_REASON = 500
"""Maximum characters of the reason that a failed task shows."""

_CONTINUED = frozenset({COMPLETED, INPUT_REQUIRED})
"""End states after which a waiting message starts the next run. After the others it becomes part
of the task that ends."""


_DECISIONS = frozenset(
    {
        events.INTERRUPTS,
        events.PENDING_TOOL_CALLS,
        events.INPUT_SCHEMA,
        events.NEEDS_ANSWER,
    }
)
"""Metadata of a question, or of its message, that needs an answer of its own."""


async def end(attempt: Attempt) -> None:
    """End the attempt after its agent: its run ends too, or is given back for another attempt.

    Raises:
        Fenced, LogLost: another writer has taken over the log; nothing was logged as an error.
    """
    recovered, agent = attempt.claimed.recovered, attempt.agent
    match attempt.interrupted:
        case Interrupt.LOST:
            await _let_go(attempt)
        case Interrupt.HANDED_BACK if (until := attempt.asleep_until) is not None:
            await _fall_asleep(attempt, until)
        case Interrupt.HANDED_BACK:
            await _hand_back(attempt, events.LEAVING, attempt.resources.timing.hand_back)
        case Interrupt.OVERDUE:
            await _complete(attempt, why_overdue(agent.limits, recovered))
        case Interrupt.NONE if (again := attempt.retryable) is not None:
            if attempt.failures < agent.retry.attempts:
                await _try_again(attempt, again)
            else:
                await _complete(attempt, "Given up: the last attempt failed")
        case _:
            await _complete(attempt)


async def _let_go(attempt: Attempt) -> None:
    attempt.note_error("taken_over")
    await attempt.detach_children()
    _log.info("task %s: another worker has taken over", attempt.ctx.task)


async def _try_again(attempt: Attempt, again: Retryable) -> None:
    attempt.note_error(error_type_of(attempt.raised))
    own = attempt.agent.retry.pause(attempt.failures)
    pause = own if again.after is None else again.after
    task, count = attempt.ctx.task, attempt.failures
    _log.warning("task %s: attempt %d failed, next in %g s: %s", task, count, pause, again)
    await _hand_back(attempt, events.TRYING_AGAIN, _LAST_APPEND, pause)


async def _fall_asleep(attempt: Attempt, until: datetime) -> None:
    waits, bus = attempt.used_waits, attempt.resources.bus
    if waits is None:
        await _end_attempt(attempt, _asleep(until), _LAST_APPEND)
        await attempt.assignment.give_back_until(bus, _due(attempt, until))
        return
    sources = waits.asleep_for
    try:
        await _end_attempt(
            attempt, _asleep(until, sources), _LAST_APPEND, gives_way=lambda: waits.is_over
        )
    except GivesWay:
        until = clock.now()
        await _end_attempt(attempt, _asleep(until, sources), _LAST_APPEND)
    await attempt.assignment.give_back_until(bus, _due(attempt, until))
    if await _is_followed(attempt):
        await attempt.assignment.give_back(bus)


def _due(attempt: Attempt, until: datetime) -> datetime:
    """Return when a run that sleeps until then is due: one past its deadline ends there."""
    return min(until, attempt.ctx.deadline or until)


def _asleep(until: datetime, sources: Collection[str] = ()) -> Json:
    """Return what an attempt is ended by for a sleep, and for waits for `sources`."""
    why: Json = {events.HANDED_BACK: events.ASLEEP, events.ASLEEP_UNTIL: timestamp(until)}
    return {**why, events.ASLEEP_FOR: sorted(sources)} if sources else why


async def _is_followed(attempt: Attempt) -> bool:
    """Return whether somebody has appended since the attempt ended.

    Who has woken the run may have asked the queue for it before the queue had it back.
    """
    last = await last_entry(attempt.resources.bus, attempt.assignment.key)
    return last is not None and last.sequence > attempt.appender.sequence


async def _hand_back(attempt: Attempt, why: str, timeout: float, pause: float = 0.0) -> None:
    """End the attempt because of `why`, and give the run back for one after `pause` seconds."""
    await _end_attempt(attempt, {events.HANDED_BACK: why}, timeout)
    await attempt.assignment.give_back(attempt.resources.bus, pause)


async def _end_attempt(
    attempt: Attempt, why: Json, timeout: float, gives_way: Callable[[], bool] | None = None
) -> None:
    """End the attempt but not the run: append `why` within `timeout` seconds, release the hold.

    Raises:
        GivesWay: `gives_way` returned True; nothing was done.
    """
    await attempt.detach_children()
    await attempt.appender.append_last(attempt.working(why), timeout, gives_way=gives_way)
    await attempt.resources.leases.release_and_wait(attempt.hold)


async def _complete(attempt: Attempt, given_up: str | None = None) -> None:
    """Append the run's end; `given_up` is why the run becomes a dead letter, if it does."""
    assignment, bus = attempt.assignment, attempt.resources.bus
    is_interrupted = attempt.interrupted is not Interrupt.NONE
    if given_up is not None:
        await assignment.keep_as_dead_letter(bus, given_up)
    last = _interrupted_end(attempt) if is_interrupted else _end(attempt)
    run = await _append_end(attempt, last)
    if given_up and not is_interrupted and attempt.agent.clean_up:
        await assignment.ask_for(bus, attempt.appender.offered, cleans_up=True)
    elif run is not None:
        await assignment.ask_for(bus, run)
    await assignment.ack(bus)


async def _append_end(attempt: Attempt, end: End) -> int | None:
    """Append the agent's last output and the run's end; return the next run, if one follows."""
    try:
        next_run = await _append(attempt, end)
    except (Fenced, LogLost):
        if end.fault is not None:
            _log.info("task %s: its agent raised %r", attempt.ctx.task, end.fault.error)
        raise
    except BaseException:
        _log_fault(attempt, end.fault)
        raise
    _log_fault(attempt, end.fault)
    if (used := attempt.used) is not None:
        attempt.series.count_usage(used)
    return next_run


def _log_fault(attempt: Attempt, fault: Fault | None) -> None:
    if fault is not None:
        task = attempt.ctx.task
        _log.error(
            "task %s: error %s: %s",
            task,
            fault.id,
            fault.reason,
            exc_info=fault.error,
            extra=UNLIMITED,  # the task shows the id, which has to be found
        )


async def _append(attempt: Attempt, end: End) -> int | None:
    if attempt.started_children is not None:
        await _end_children(attempt, attempt.started_children, end.state)
    if (used := attempt.used) is not None or attempt.used_memory is not None:
        end = _with_report(attempt, end, used)
    with suppress(RunOver):  # Then `close` raises why.
        for draft in attempt.encoder.last_halves():
            attempt.appender.offer(draft)
    emitted = attempt.encoder.artifacts
    retractions = [
        _retraction(attempt, artifact)
        for artifact in attempt.claimed.recovered.unfinished_artifacts
        if artifact not in emitted
    ]
    appender = attempt.appender
    if not attempt.waiting:
        with suppress(GivesWay):
            await appender.close(
                [*retractions, end.draft], end.state, gives_way=lambda: bool(attempt.waiting)
            )
            _note_end(attempt, end)
            return None
    if end.state not in _CONTINUED:
        await appender.close(retractions, WORKING)
        await _end_unanswered(attempt, end)
        _note_end(attempt, end)
        return None
    if _needs_its_own_answer(end):
        await appender.close(retractions, WORKING)
        await _ask_before_those_who_wait(attempt, end)
        _note_end(attempt, end)
        return None
    # The run does not end here: append the last message, then the next input.
    # It answers the question of a child that the run has passed on (`RunContext.reply`).
    whose = {ASKS_FOR: end.metadata[ASKS_FOR]} if ASKS_FOR in end.metadata else None
    last = [attempt.working(whose, end.message)] if whose or end.message else []
    await appender.close([*retractions, *last], WORKING)
    return await _begin_next_run(attempt)


async def _begin_next_run(attempt: Attempt) -> int:
    """Append the next run's input, which names all messages that wait, and return that run."""
    named = list[QueuedMessage]()
    while True:
        named[:] = attempt.waiting
        with suppress(GivesWay):
            await attempt.appender.close(
                [_next_input(attempt, *named)],
                SUBMITTED,
                gives_way=lambda: attempt.waiting != named,
            )
            return attempt.appender.offered


async def _end_unanswered(attempt: Attempt, end: End) -> None:
    """End the task although messages wait: they become part of it, so that none is lost."""
    inputs, appender = attempt.inputs, attempt.appender
    while True:
        while inputs.waiting:
            await appender.close([inputs.give_up_next()], WORKING)
        with suppress(GivesWay):
            await appender.close([end.draft], end.state, gives_way=lambda: bool(inputs.waiting))
            return


def _needs_its_own_answer(end: End) -> bool:
    """Return whether a message that was sent before the question must not answer it.

    So it is with decisions. A prompt without any of this goes on with the conversation.
    """
    asked, said = end.metadata, (end.message or {}).get("metadata") or {}
    if not _DECISIONS.isdisjoint(asked) or not _DECISIONS.isdisjoint(said):
        return True
    return "needsAnswer" in asked.get(ASKS_FOR, {})


async def _ask_before_those_who_wait(attempt: Attempt, end: End) -> None:
    """End the run with its question; the messages wait until the run that answers it has ended."""
    named = list[QueuedMessage]()
    while True:
        named[:] = attempt.waiting
        asked = attempt.endings.asking_before(end, [each.generation for each in named])
        with suppress(GivesWay):
            await attempt.appender.close(
                [asked], end.state, gives_way=lambda: attempt.waiting != named
            )
            return


def _note_end(attempt: Attempt, end: End) -> None:
    attempt.series.observe_end(attempt.appender, attempt.claimed.recovered.time, end.state)
    if end.state == FAILED:
        attempt.note_error(error_type_of(end.fault.error if end.fault else None))
    if (span := attempt.claimed.span) is not None:
        span.note_end(end.state)


async def _end_children(attempt: Attempt, children: Children, state: str) -> None:
    # The append shows whether the children are still this attempt's to cancel. If another attempt
    # has taken over, it needs them.
    if children.are_at_work:
        try:
            await attempt.appender.deliver(attempt.working({events.ENDING: state}))
        except RunOver:
            await children.detach()
            return
    await children.end(state)


def _with_report(attempt: Attempt, end: End, used: UsageTotals | None) -> End:
    """Return `end` with what the run has used, and the writes to memory that no event shows."""
    report, ctx = attempt.unshown_writes(), attempt.ctx
    if used is not None:
        report |= used.metadata(attempt.loop.time() - attempt.appender.began)
    if not report or end.state == BARE_MESSAGE:
        return end
    # Usage in the agent's own metadata (a remote agent's) takes precedence.
    metadata = {**report, **end.metadata}
    draft = events.status_update(ctx.task, ctx.context, end.state, end.message, metadata)
    return replace(end, draft=draft, metadata=metadata)


def _next_input(attempt: Attempt, following: QueuedMessage, *others: QueuedMessage) -> Draft:
    metadata = {**following.metadata, events.WAITING: [other.generation for other in others]}
    ctx = attempt.ctx
    return submitted(ctx.task, ctx.context, following.message, metadata)


def _retraction(attempt: Attempt, artifact: str) -> Draft:
    """Return the event that empties an artifact which only earlier attempts emitted."""
    return events.artifact_update(
        attempt.ctx.task,
        attempt.ctx.context,
        {"artifactId": artifact, "parts": [{"text": ""}]},
        last_chunk=True,
        metadata={events.RETRACTED: True},
    )


def _interrupted_end(attempt: Attempt) -> End:
    agent_task = attempt.agent_task
    if agent_task is not None and not agent_task.done():
        _log.error("task %s: the agent did not stop after it was canceled", attempt.ctx.task)
    elif (error := attempt.raised) is not None:
        _log.error("task %s: the agent's clean-up failed", attempt.ctx.task, exc_info=error)
    if attempt.interrupted is Interrupt.OVERDUE:
        return attempt.endings.failed(why_overdue(attempt.agent.limits, attempt.claimed.recovered))
    if attempt.interrupted is Interrupt.SUPERSEDED:
        return attempt.endings.completed()
    return attempt.endings.canceled()


def _end(attempt: Attempt) -> End:
    agent_task = attempt.agent_task
    if agent_task is None or agent_task.cancelled():
        return _failed(attempt, "The agent cancelled itself", None)
    if (raised := attempt.raised) is None:
        return _emitted_end(attempt)
    # What an error of `Retry.on` says is for operators: its last attempt fails as any other.
    match raised if attempt.agent.retry.names(raised) else attempt.retryable or raised:
        case Retryable() as error:
            reason = f"Given up after {attempt.failures} attempts: {error}"
            return attempt.endings.failed(reason[:_LONGEST_REASON])
        case error if (malformed := _malformed(error)) is not None:
            return _failed(attempt, f"The agent's output is malformed: {malformed}", error)
        case error:
            return _failed(attempt, _public_reason(error), error)


def _emitted_end(attempt: Attempt) -> End:
    output, endings = attempt.output, attempt.endings
    if output.answer is not None and _is_task_shown(attempt):
        return endings.completed_with(output.answer)
    return output.end or endings.completed()


def _is_task_shown(attempt: Attempt) -> bool:
    """Return whether the client has been sent the Task, so that the run must end as a task."""
    recovered, ctx = attempt.claimed.recovered, attempt.ctx
    if ctx.run > 1 or ctx.attempt > 1 or recovered.metadata.get(events.TASK_ALREADY_SENT) is True:
        return True
    # The record of a step is an event of a task.
    if attempt.waiting or attempt.output.steps is not None or attempt.used_waits is not None:
        return True
    age = clock.now() - datetime.fromisoformat(recovered.time)
    return age.total_seconds() > attempt.resources.timing.bare_message


def _failed(attempt: Attempt, reason: str, error: BaseException | None) -> End:
    """Return a failure that shows only an id; the log has the details under the same id."""
    fault = Fault(secrets.token_hex(4), reason[:_LONGEST_REASON], error)
    failed = attempt.endings.failed(f"{fault.reason} (error {fault.id})")
    return replace(failed, fault=fault)


def _malformed(error: BaseException | None) -> MalformedOutput | None:
    """Return the malformed-output error, also if a framework has wrapped it."""
    while error is not None and not isinstance(error, MalformedOutput):
        error = error.__cause__ or error.__context__
    return error


_PUBLIC = (DelegationFailed, MemoryFull, Misused)
"""Errors whose messages clients may see."""


def _public_reason(error: BaseException) -> str:
    """Return the failure reason that clients may see: for example that a delegated task failed."""
    if isinstance(error, _PUBLIC):
        return str(error)
    if isinstance(error, BaseExceptionGroup) and (found := error.subgroup(_PUBLIC)):
        first: BaseException = found
        while isinstance(first, BaseExceptionGroup):
            first = first.exceptions[0]
        return str(first)
    return "The agent failed"
