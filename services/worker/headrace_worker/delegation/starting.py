"""Asking task state for a child, for as long as it takes."""

import asyncio
import logging
from dataclasses import replace

from headrace.model.errors import InvalidName, LogFull, StartRefused, StateUnavailable, TaskUnknown
from headrace.model.events import Json
from headrace.model.messages import StartTask, TaskStarted
from headrace.model.task import TaskKey
from headrace.sdk.errors import DelegationRefused, RunOver
from headrace_worker.delegation.parent import Parent
from headrace_worker.delegation.question import Question

_log = logging.getLogger(__name__)

_PAUSES = (0.05, 0.2, 0.5, 1.0)
_BESIDE = 16 * 1024
"""Bytes that stand beside the message in the child's log, at most."""

_RUN_OVER = "run_over"


async def start_child(parent: Parent, key: TaskKey, question: Question, name: str) -> TaskStarted:
    """Have the child started, or find it started; task state's absence is waited out.

    Large files of the message go to the store first, as the parent's: where NATS tells agents'
    workers apart, they write no other agent's files. They are gone with the parent's log.

    Raises:
        DelegationRefused: a rule forbids it.
        RunOver: the parent's run is over, or somebody else's.
    """
    message, links = await _offloaded(parent, question)
    query, tries = _query(parent, key, replace(question, message=message), name), 0
    try:
        _check_size(parent, question.agent, query)
        while (started := await _try(parent, question.agent, query, tries)) is None:
            await asyncio.sleep(_PAUSES[min(tries, len(_PAUSES) - 1)])
            tries += 1
    except (DelegationRefused, RunOver):
        await parent.offload.drop(links)
        raise
    if started.again and not tries:
        # Its log has the files of the attempt that asked first. After an answer that did not come,
        # it may well have these.
        await parent.offload.drop(links)
    return started


async def _offloaded(parent: Parent, question: Question) -> tuple[Json, list[str]]:
    try:
        return await parent.offload.of(question.message)
    except LogFull:
        raise DelegationRefused(question.agent, "busy", "the store of files is full") from None


def _check_size(parent: Parent, agent: str, query: StartTask) -> None:
    size, most = len(query.encode()), parent.bus.max_payload - _BESIDE
    if size > most:
        why = f"the message has {size} bytes, more than {most}: send what is large as files"
        raise DelegationRefused(agent, "bad_request", why)


async def _try(parent: Parent, agent: str, query: StartTask, tries: int) -> TaskStarted | None:
    """Return what was started; None: task state does not answer now."""
    try:
        return await parent.state.start(query)
    except StartRefused as refusal:
        if refusal.why == _RUN_OVER:
            raise RunOver(str(refusal)) from refusal
        raise DelegationRefused(agent, refusal.why, str(refusal)) from refusal
    except (InvalidName, TaskUnknown) as error:
        reason = error.rule if isinstance(error, InvalidName) else str(error)
        raise DelegationRefused(agent, "bad_request", reason) from error
    except StateUnavailable as trouble:
        if not tries:
            _log.warning("task %s: asking %s: %s", parent.key.task, query.agent, trouble)
        return None


def _query(parent: Parent, key: TaskKey, question: Question, name: str) -> StartTask:
    return StartTask(
        tenant=key.tenant,
        agent=key.agent,
        parent=parent.key.task,
        parent_agent=parent.key.agent,
        run=parent.run,
        attempt=parent.attempt,
        name=name,
        message=question.message,
        into=question.into,
        deadline=question.deadline.isoformat() if question.deadline else None,
        budget=question.budget,
        priority=parent.priority,
        traceparent=parent.traceparent,
    )
