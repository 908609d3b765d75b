"""How an attempt ends: from what became of its agent to the leg's last event."""

import logging
import secrets
from contextlib import suppress
from datetime import UTC, datetime

from headrace import metrics
from headrace.model import events
from headrace.model.entry import ANSWERED
from headrace.model.events import Draft
from headrace.model.task import COMPLETED, INPUT_REQUIRED, SUBMITTED, WORKING
from headrace_worker.delegation.errors import DelegationFailed
from headrace_worker.endings import End
from headrace_worker.errors import MalformedOutput, Retryable
from headrace_worker.giving_up import why_overdue
from headrace_worker.interrupt import Interrupt
from headrace_worker.outbox import GivesWay
from headrace_worker.performance import Performance
from headrace_worker.queued import Queued

_log = logging.getLogger(__name__)

BARE_WITHIN = 1.5
"""Seconds after its input was stored within which an answer can be a bare Message: the gateway
shows the Task after 2 s."""

LONGEST_REASON = 500
"""Characters of a reason that a failed task shows."""


_GOES_ON = frozenset({COMPLETED, INPUT_REQUIRED})
"""Ends that give way to the next leg where a message waits."""


async def conclude(performance: Performance, why: Interrupt) -> int | None:
    """Append what the agent said last, and how its leg ends; return the next leg, if one follows.

    Raises:
        Fenced, LogLost: the log is somebody else's; it does not say so.
    """
    end = _interrupted(performance, why) if why else _end(performance)
    await _end_children(performance, end.state)
    end = _with_expense(performance, end)
    made = performance.rendering.artifacts
    orphans = [artifact for artifact in performance.past.orphans if artifact not in made]
    retractions = [_retraction(performance, artifact) for artifact in orphans]
    inputs, outbox = performance.inputs, performance.outbox

    def gives_way() -> bool:
        return end.state in _GOES_ON and bool(inputs.waiting)

    if not gives_way():
        with suppress(GivesWay):
            await outbox.close([*retractions, end.draft], end.state, gives_way=gives_way)
            metrics.RUNS_ENDED.labels(performance.key.agent, end.state).inc()
            return None
    # Not the end after all: what was said last is said, and the next message has its turn.
    last = [performance.says(end.message)] if end.message else []
    await outbox.close([*retractions, *last], WORKING)
    return await outbox.go_on(lambda: _next_input(performance, *inputs.waiting))


async def _end_children(performance: Performance, state: str) -> None:
    children = performance.children
    # The log decides whether they are still ours to cancel: an attempt that takes over wants them.
    if children.are_at_work and not await performance.say_ending(state):
        await children.let_go()
    else:
        await children.end(state)


def _with_expense(performance: Performance, end: End) -> End:
    told, ctx = performance.voice.expense.metadata(), performance.context
    if not told or end.state == ANSWERED:
        return end
    metadata = {**end.metadata, **told}
    draft = events.status_update(ctx.task, ctx.context, end.state, end.message, metadata)
    return End(draft, end.state, end.message, metadata)


def _next_input(performance: Performance, following: Queued, *others: Queued) -> Draft:
    metadata = {**following.metadata, events.WAITING: [other.generation for other in others]}
    ctx = performance.context
    return events.status_update(ctx.task, ctx.context, SUBMITTED, following.message, metadata)


def _interrupted(performance: Performance, why: Interrupt) -> End:
    acting = performance.acting
    if acting is not None and not acting.done():
        _log.error("task %s: the agent ignores that it is cancelled", performance.key.task)
    elif acting is not None and not acting.cancelled() and (error := acting.exception()):
        _log.error("task %s: in the agent's clean-up", performance.key.task, exc_info=error)
    if why is Interrupt.OVERDUE:
        return performance.endings.failed(why_overdue(performance.policy, performance.past))
    if why is Interrupt.SUPERSEDED:
        return performance.endings.completed()
    return performance.endings.canceled()


def _end(performance: Performance) -> End:
    acting = performance.acting
    if acting is None or acting.cancelled():
        return _failed(performance, "The agent was cancelled from within", None)
    match acting.exception():
        case None:
            return _asked_for(performance)
        case MalformedOutput() as error:
            return _failed(performance, f"The agent's output is malformed: {error}", error)
        case Retryable() as error:
            reason = f"Given up after {performance.failures} attempts: {error}"
            return performance.endings.failed(reason[:LONGEST_REASON])
        case error:
            return _failed(performance, _shown(error), error)


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


def _failed(performance: Performance, reason: str, error: BaseException | None) -> End:
    """Return a failure that shows nothing of `error` but an id; the log has the rest under it."""
    error_id, reason = secrets.token_hex(4), reason[:LONGEST_REASON]
    _log.error("task %s: error %s: %s", performance.key.task, error_id, reason, exc_info=error)
    return performance.endings.failed(f"{reason} (error {error_id})")


def _asked_for(performance: Performance) -> End:
    voice, endings = performance.voice, performance.endings
    if voice.answer is not None and _is_shown(performance):
        return endings.completed_with(voice.answer)
    return voice.end or endings.completed()


def _is_shown(performance: Performance) -> bool:
    """Tell whether the Task has been shown to its client, so that it must end as a task."""
    past, ctx = performance.past, performance.context
    if ctx.leg > 1 or ctx.attempt > 1 or past.metadata.get(events.SHOWN) is True:
        return True
    age = datetime.now(UTC) - datetime.fromisoformat(past.time)
    return age.total_seconds() > BARE_WITHIN


def _retraction(performance: Performance, artifact: str) -> Draft:
    """Return the event that empties an artifact which only a dead attempt made."""
    return events.artifact_update(
        performance.key.task,
        performance.context.context,
        {"artifactId": artifact, "parts": [{"text": ""}]},
        last_chunk=True,
        metadata={events.RETRACTED: True},
    )
