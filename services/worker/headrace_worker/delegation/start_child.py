"""Starting a child task, through task state."""

import asyncio
import logging
from dataclasses import replace

from headrace.model.errors import (
    InvalidName,
    LogFull,
    StartRefused,
    StateUnavailable,
    TaskUnknown,
)
from headrace.model.events import Json
from headrace.model.messages import StartTask, TaskStarted
from headrace.model.task import TaskKey
from headrace.sdk.errors import DelegationRefused, RunOver
from headrace.state_client import StateClient
from headrace_worker.delegation.child_request import ChildRequest
from headrace_worker.delegation.parent import Parent

_log = logging.getLogger(__name__)

_PAUSES = (0.05, 0.2, 0.5, 1.0)

_ENTRY_OVERHEAD = 16 * 1024
"""Maximum bytes of the child's first entry in addition to the message."""

_RUN_OVER = "run_over"


async def start_child(
    parent: Parent, key: TaskKey, request: ChildRequest, name: str
) -> TaskStarted:
    """Start the child, or find it started; waits while task state is unavailable.

    Large files of the message are first stored as the parent's: where NATS permissions are per
    agent, workers can't write another agent's files. The files are deleted with the parent's log.

    Raises:
        DelegationRefused: a rule forbids it.
        RunOver: the parent's run is over, or another worker has taken it over.
    """
    message, links = await _offloaded(parent, request)
    query, tries = _query(parent, key, replace(request, message=message), name), 0
    try:
        _check_size(parent, request.agent, query)
        while (started := await _try(parent, request.agent, query, tries)) is None:
            await asyncio.sleep(_PAUSES[min(tries, len(_PAUSES) - 1)])
            tries += 1
    except (DelegationRefused, RunOver):
        await parent.files.drop(links)
        raise
    if started.again and not tries:
        # The child's log refers to the files of the attempt that started it. After a retry, these
        # files may be the ones in the log.
        await parent.files.drop(links)
    return started


async def _offloaded(parent: Parent, request: ChildRequest) -> tuple[Json, list[str]]:
    try:
        return await parent.files.of(request.message)
    except LogFull:
        raise DelegationRefused(request.agent, "busy", "the file store is full") from None


def _check_size(parent: Parent, agent: str, query: StartTask) -> None:
    size, most = len(query.encode()), parent.resources.bus.max_payload - _ENTRY_OVERHEAD
    if size > most:
        why = f"the message has {size} bytes, the limit is {most}; send large content as files"
        raise DelegationRefused(agent, "bad_request", why)


async def _try(parent: Parent, agent: str, query: StartTask, tries: int) -> TaskStarted | None:
    """Return the started task, or None if task state does not answer now."""
    try:
        return await StateClient(parent.resources.bus).start(query)
    except StartRefused as refusal:
        if refusal.why == _RUN_OVER:
            raise RunOver(str(refusal)) from refusal
        raise DelegationRefused(agent, refusal.why, str(refusal)) from refusal
    except (InvalidName, TaskUnknown) as error:
        reason = error.rule if isinstance(error, InvalidName) else str(error)
        raise DelegationRefused(agent, "bad_request", reason) from error
    except StateUnavailable as error:
        if not tries:
            _log.warning("task %s: delegation to %s: %s", parent.ctx.key.task, query.agent, error)
        return None


def _query(parent: Parent, key: TaskKey, request: ChildRequest, name: str) -> StartTask:
    return StartTask(
        tenant=key.tenant,
        agent=key.agent,
        parent=parent.ctx.key.task,
        parent_agent=parent.ctx.key.agent,
        run=parent.ctx.run,
        attempt=parent.ctx.attempt,
        name=name,
        message=request.message,
        into=request.into,
        deadline=request.deadline.isoformat() if request.deadline else None,
        budget=request.budget,
        priority=parent.assignment.run.terms.priority,
        traceparent=parent.ctx.traceparent,
    )
