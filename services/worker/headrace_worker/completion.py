"""Completion of an attempt: from what became of its agent to the run's last event."""

import logging
import secrets
from contextlib import suppress
from dataclasses import replace
from datetime import datetime

from headrace import clock
from headrace.log_lines import UNLIMITED
from headrace.model import events
from headrace.model.entry import BARE_MESSAGE
from headrace.model.errors import Fenced, LogLost
from headrace.model.events import Draft
from headrace.model.queued_message import QueuedMessage
from headrace.model.task import COMPLETED, INPUT_REQUIRED, WORKING
from headrace.sdk.errors import DelegationFailed, MalformedOutput, Misused, Retryable, RunOver
from headrace.sdk.runtime import Interrupt
from headrace.tasks.continue_ import submitted
from headrace_worker.appender import GivesWay
from headrace_worker.delegation.children import Children
from headrace_worker.encoder import End, Fault
from headrace_worker.execution import Execution
from headrace_worker.run_limits import why_overdue

_log = logging.getLogger(__name__)

_LONGEST_REASON = 500
"""Maximum characters of the reason that a failed task shows."""

_CONTINUED = frozenset({COMPLETED, INPUT_REQUIRED})
"""End states after which a waiting message starts the next run. After the others it becomes part
of the task that ends."""


async def complete(execution: Execution, why: Interrupt) -> int | None:
    """Append the agent's last output and the run's end; return the next run, if one follows.

    Raises:
        Fenced, LogLost: another writer has taken over the log; nothing was logged as an error.
    """
    end = _interrupted_end(execution, why) if why else _end(execution)
    try:
        next_run = await _append(execution, end)
    except (Fenced, LogLost):
        if end.fault is not None:
            _log.info("task %s: its agent raised %r", execution.key.task, end.fault.error)
        raise
    except BaseException:
        _log_fault(execution, end.fault)
        raise
    _log_fault(execution, end.fault)
    if (totals := execution.emitter.usage_totals).is_reported:
        execution.series.count_usage(totals)
    return next_run


def _log_fault(execution: Execution, fault: Fault | None) -> None:
    if fault is not None:
        task = execution.key.task
        _log.error(
            "task %s: error %s: %s",
            task,
            fault.id,
            fault.reason,
            exc_info=fault.error,
            extra=UNLIMITED,  # the task shows the id, which has to be found
        )


async def _append(execution: Execution, end: End) -> int | None:
    if execution.children is not None:
        await _end_children(execution, execution.children, end.state)
    if execution.emitter.usage_totals.is_reported:
        end = _with_usage(execution, end)
    with suppress(RunOver):  # Then `close` raises why.
        for draft in execution.encoder.last_halves():
            execution.appender.offer(draft)
    emitted = execution.encoder.artifacts
    retractions = [
        _retraction(execution, artifact)
        for artifact in execution.recovered.unfinished_artifacts
        if artifact not in emitted
    ]
    inputs, appender = execution.inputs, execution.appender
    if not inputs.waiting:
        with suppress(GivesWay):
            await appender.close(
                [*retractions, end.draft], end.state, gives_way=lambda: bool(inputs.waiting)
            )
            _note_end(execution, end)
            return None
    if end.state not in _CONTINUED:
        await appender.close(retractions, WORKING)
        await _end_unanswered(execution, end)
        _note_end(execution, end)
        return None
    # The run does not end here: append the last message, then the next input.
    last = [execution.working(message=end.message)] if end.message else []
    await appender.close([*retractions, *last], WORKING)
    return await appender.begin_next_run(lambda: _next_input(execution, *inputs.waiting))


async def _end_unanswered(execution: Execution, end: End) -> None:
    """End the task although messages wait: they become part of it, so that none is lost."""
    inputs, appender = execution.inputs, execution.appender
    while True:
        while inputs.waiting:
            await appender.append_closed(inputs.give_up_next())
        with suppress(GivesWay):
            await appender.append_closed(
                end.draft, end.state, gives_way=lambda: bool(inputs.waiting)
            )
            return


def _note_end(execution: Execution, end: End) -> None:
    execution.series.observe_end(execution.appender, execution.recovered.time, end.state)
    execution.span.note_end(end.state, end.fault.error if end.fault else None)


async def _end_children(execution: Execution, children: Children, state: str) -> None:
    # The append shows whether the children are still this attempt's to cancel. If another attempt
    # has taken over, it needs them.
    if children.are_at_work and not await execution.append_ending(state):
        await children.detach()
    else:
        await children.end(state)


def _with_usage(execution: Execution, end: End) -> End:
    usage, ctx = execution.emitter.usage_totals.metadata(), execution.context
    if end.state == BARE_MESSAGE:
        return end
    # Usage in the agent's own metadata (a remote agent's) takes precedence.
    metadata = {**usage, **end.metadata}
    draft = events.status_update(ctx.task, ctx.context, end.state, end.message, metadata)
    return replace(end, draft=draft, metadata=metadata)


def _next_input(execution: Execution, following: QueuedMessage, *others: QueuedMessage) -> Draft:
    metadata = {**following.metadata, events.WAITING: [other.generation for other in others]}
    ctx = execution.context
    return submitted(ctx.task, ctx.context, following.message, metadata)


def _retraction(execution: Execution, artifact: str) -> Draft:
    """Return the event that empties an artifact which only earlier attempts emitted."""
    return events.artifact_update(
        execution.key.task,
        execution.context.context,
        {"artifactId": artifact, "parts": [{"text": ""}]},
        last_chunk=True,
        metadata={events.RETRACTED: True},
    )


def _interrupted_end(execution: Execution, why: Interrupt) -> End:
    agent_task = execution.agent_task
    if agent_task is not None and not agent_task.done():
        _log.error("task %s: the agent did not stop after it was canceled", execution.key.task)
    elif agent_task and not agent_task.cancelled() and (error := agent_task.exception()):
        _log.error("task %s: the agent's clean-up failed", execution.key.task, exc_info=error)
    if why is Interrupt.OVERDUE:
        return execution.endings.failed(why_overdue(execution.policy, execution.recovered))
    if why is Interrupt.SUPERSEDED:
        return execution.endings.completed()
    return execution.endings.canceled()


def _end(execution: Execution) -> End:
    agent_task = execution.agent_task
    if agent_task is None or agent_task.cancelled():
        return _failed(execution, "The agent cancelled itself", None)
    match execution.retryable or agent_task.exception():
        case None:
            return _emitted_end(execution)
        case Retryable() as error:
            reason = f"Given up after {execution.failures} attempts: {error}"
            return execution.endings.failed(reason[:_LONGEST_REASON])
        case error if (malformed := _malformed(error)) is not None:
            return _failed(execution, f"The agent's output is malformed: {malformed}", error)
        case error:
            return _failed(execution, _public_reason(error), error)


def _emitted_end(execution: Execution) -> End:
    emitter, endings = execution.emitter, execution.endings
    if emitter.answer is not None and _is_task_shown(execution):
        return endings.completed_with(emitter.answer)
    return emitter.end or endings.completed()


def _is_task_shown(execution: Execution) -> bool:
    """Return whether the client has been sent the Task, so that the run must end as a task."""
    recovered, ctx = execution.recovered, execution.context
    if ctx.run > 1 or ctx.attempt > 1 or recovered.metadata.get(events.TASK_ALREADY_SENT) is True:
        return True
    if execution.inputs.waiting:
        return True
    age = clock.now() - datetime.fromisoformat(recovered.time)
    return age.total_seconds() > execution.timing.bare_message


def _failed(execution: Execution, reason: str, error: BaseException | None) -> End:
    """Return a failure that shows only an id; the log has the details under the same id."""
    fault = Fault(secrets.token_hex(4), reason[:_LONGEST_REASON], error)
    failed = execution.endings.failed(f"{fault.reason} (error {fault.id})")
    return replace(failed, fault=fault)


def _malformed(error: BaseException | None) -> MalformedOutput | None:
    """Return the malformed-output error, also if a framework has wrapped it."""
    while error is not None and not isinstance(error, MalformedOutput):
        error = error.__cause__ or error.__context__
    return error


def _public_reason(error: BaseException) -> str:
    """Return the failure reason that clients may see: for example that a delegated task failed."""
    if isinstance(error, DelegationFailed | Misused):
        return str(error)
    if isinstance(error, BaseExceptionGroup) and (found := error.subgroup(DelegationFailed)):
        first: BaseException = found
        while isinstance(first, BaseExceptionGroup):
            first = first.exceptions[0]
        return str(first)
    return "The agent failed"
