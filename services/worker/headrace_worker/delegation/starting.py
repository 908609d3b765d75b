"""Asking task state for a child, for as long as it takes."""

import asyncio
import logging

from headrace.errors import InvalidName, StartRefused, StateUnavailable, TaskUnknown
from headrace.messages import StartTask, TaskStarted
from headrace.task import TaskKey
from headrace_worker.delegation.errors import DelegationRefused
from headrace_worker.delegation.parent import Parent
from headrace_worker.delegation.question import Question
from headrace_worker.errors import LegOver

_log = logging.getLogger(__name__)

_PAUSES = (0.05, 0.2, 0.5, 1.0)
_LEG_OVER = "leg_over"


async def start_child(parent: Parent, key: TaskKey, question: Question, name: str) -> TaskStarted:
    """Have the child started, or find it started; task state's absence is waited out.

    Raises:
        DelegationRefused: a rule forbids it.
        LegOver: the parent's leg is over, or somebody else's.
    """
    query, tries = _query(parent, key, question, name), 0
    while True:
        try:
            return await parent.state.start(query)
        except StartRefused as refusal:
            if refusal.why == _LEG_OVER:
                raise LegOver(str(refusal)) from refusal
            raise DelegationRefused(question.agent, refusal.why, str(refusal)) from refusal
        except (InvalidName, TaskUnknown) as error:
            reason = error.rule if isinstance(error, InvalidName) else str(error)
            raise DelegationRefused(question.agent, "bad_request", reason) from error
        except StateUnavailable as trouble:
            if not tries:
                _log.warning("task %s: asking %s: %s", parent.key.task, key.agent, trouble)
        await asyncio.sleep(_PAUSES[min(tries, len(_PAUSES) - 1)])
        tries += 1


def _query(parent: Parent, key: TaskKey, question: Question, name: str) -> StartTask:
    return StartTask(
        tenant=key.tenant,
        agent=key.agent,
        parent=parent.key.task,
        parent_agent=parent.key.agent,
        leg=parent.leg,
        attempt=parent.attempt,
        name=name,
        message=question.message,
        into=question.into,
        deadline=question.deadline.isoformat() if question.deadline else None,
        budget=question.budget,
        priority=parent.priority,
        traceparent=parent.traceparent,
    )
