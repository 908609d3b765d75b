"""How an attempt ends: from what became of its agent to the run's last event."""

import logging
import secrets
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime

from headrace import metrics
from headrace.model import events
from headrace.model.entry import ANSWERED
from headrace.model.errors import Fenced, LogLost
from headrace.model.events import Draft
from headrace.model.task import COMPLETED, INPUT_REQUIRED, WORKING
from headrace.sdk.errors import DelegationFailed, MalformedOutput, Retryable
from headrace.sdk.interrupt import Interrupt
from headrace.tasks.continue_ import submitted
from headrace_worker.appender import GivesWay, Queued
from headrace_worker.claim import why_overdue
from headrace_worker.encoder import End, Fault
from headrace_worker.execution import Execution

_log = logging.getLogger(__name__)

BARE_WITHIN = 1.5
"""Seconds after its input was stored within which an answer can be a bare Message: the gateway
shows the Task after 2 s."""

LONGEST_REASON = 500
"""Characters of a reason that a failed task shows."""


_GOES_ON = frozenset({COMPLETED, INPUT_REQUIRED})
"""Ends that give way to the next run where a message waits."""


async def complete(execution: Execution, why: Interrupt) -> int | None:
    """Append what the agent said last, and how its run ends; return the next run, if one follows.

    Raises:
        Fenced, LogLost: the log is somebody else's; it does not say so.
    """
    end = _interrupted(execution, why) if why else _end(execution)
    try:
        following = await _append(execution, end)
    except (Fenced, LogLost):
        if end.fault is not None:
            _log.info("task %s: its agent raised %r", execution.key.task, end.fault.error)
        raise
    except BaseException:
        _tell(execution, end.fault)
        raise
    _tell(execution, end.fault)
    return following


def _tell(execution: Execution, fault: Fault | None) -> None:
    """Log what went wrong, which is nobody's fault where the log is somebody else's."""
    if fault is not None:
        said = (execution.key.task, fault.id, fault.reason)
        _log.error("task %s: error %s: %s", *said, exc_info=fault.error)


async def _append(execution: Execution, end: End) -> int | None:
    await _end_children(execution, end.state)
    end = _with_usage(execution, end)
    made = execution.encoder.artifacts
    unfinished_artifacts = [
        artifact for artifact in execution.recovered.unfinished_artifacts if artifact not in made
    ]
    retractions = [_retraction(execution, artifact) for artifact in unfinished_artifacts]
    inputs, appender = execution.inputs, execution.appender

    def gives_way() -> bool:
        return end.state in _GOES_ON and bool(inputs.waiting)

    if not gives_way():
        with suppress(GivesWay):
            await appender.close([*retractions, end.draft], end.state, gives_way=gives_way)
            metrics.RUNS_ENDED.labels(execution.key.agent, end.state).inc()
            return None
    # Not the end after all: what was said last is said, and the next message has its turn.
    last = [execution.says(end.message)] if end.message else []
    await appender.close([*retractions, *last], WORKING)
    return await appender.go_on(lambda: _next_input(execution, *inputs.waiting))


async def _end_children(execution: Execution, state: str) -> None:
    children = execution.children
    # The log decides whether they are still ours to cancel: an attempt that takes over wants them.
    if children.are_at_work and not await execution.say_ending(state):
        await children.let_go()
    else:
        await children.end(state)


def _with_usage(execution: Execution, end: End) -> End:
    told, ctx = execution.emitter.usage_totals.metadata(), execution.context
    if not told or end.state == ANSWERED:
        return end
    # What the agent itself says of it, as one elsewhere does, it knows better.
    metadata = {**told, **end.metadata}
    draft = events.status_update(ctx.task, ctx.context, end.state, end.message, metadata)
    return replace(end, draft=draft, metadata=metadata)


def _next_input(execution: Execution, following: Queued, *others: Queued) -> Draft:
    metadata = {**following.metadata, events.WAITING: [other.generation for other in others]}
    ctx = execution.context
    return submitted(ctx.task, ctx.context, following.message, metadata)


def _interrupted(execution: Execution, why: Interrupt) -> End:
    acting = execution.acting
    if acting is not None and not acting.done():
        _log.error("task %s: the agent did not stop after it was canceled", execution.key.task)
    elif acting is not None and not acting.cancelled() and (error := acting.exception()):
        _log.error("task %s: the agent's clean-up failed", execution.key.task, exc_info=error)
    if why is Interrupt.OVERDUE:
        return execution.endings.failed(why_overdue(execution.policy, execution.recovered))
    if why is Interrupt.SUPERSEDED:
        return execution.endings.completed()
    return execution.endings.canceled()


def _end(execution: Execution) -> End:
    acting = execution.acting
    if acting is None or acting.cancelled():
        return _failed(execution, "The agent was cancelled from within", None)
    match acting.exception():
        case None:
            return _asked_for(execution)
        case Retryable() as error:
            reason = f"Given up after {execution.failures} attempts: {error}"
            return execution.endings.failed(reason[:LONGEST_REASON])
        case error if (malformed := _malformed(error)) is not None:
            return _failed(execution, f"The agent's output is malformed: {malformed}", error)
        case error:
            return _failed(execution, _shown(error), error)


def _malformed(error: BaseException | None) -> MalformedOutput | None:
    """Return what was wrong with the agent's output, also where a framework wraps the error."""
    while error is not None and not isinstance(error, MalformedOutput):
        error = error.__cause__ or error.__context__
    return error


def _shown(error: BaseException) -> str:
    """Return what a client may know of it: what became of others that were asked, say."""
    if isinstance(error, DelegationFailed):
        return str(error)
    if isinstance(error, BaseExceptionGroup) and (found := error.subgroup(DelegationFailed)):
        first: BaseException = found
        while isinstance(first, BaseExceptionGroup):
            first = first.exceptions[0]
        return str(first)
    return "The agent failed"


def _failed(execution: Execution, reason: str, error: BaseException | None) -> End:
    """Return a failure that shows nothing of `error` but an id; our log has the rest under it."""
    fault = Fault(secrets.token_hex(4), reason[:LONGEST_REASON], error)
    failed = execution.endings.failed(f"{fault.reason} (error {fault.id})")
    return replace(failed, fault=fault)


def _asked_for(execution: Execution) -> End:
    emitter, endings = execution.emitter, execution.endings
    if emitter.answer is not None and _is_shown(execution):
        return endings.completed_with(emitter.answer)
    return emitter.end or endings.completed()


def _is_shown(execution: Execution) -> bool:
    """Tell whether the Task has been shown to its client, so that it must end as a task."""
    recovered, ctx = execution.recovered, execution.context
    if ctx.run > 1 or ctx.attempt > 1 or recovered.metadata.get(events.SHOWN) is True:
        return True
    age = datetime.now(UTC) - datetime.fromisoformat(recovered.time)
    return age.total_seconds() > BARE_WITHIN


def _retraction(execution: Execution, artifact: str) -> Draft:
    """Return the event that empties an artifact which only a dead attempt made."""
    return events.artifact_update(
        execution.key.task,
        execution.context.context,
        {"artifactId": artifact, "parts": [{"text": ""}]},
        last_chunk=True,
        metadata={events.RETRACTED: True},
    )
