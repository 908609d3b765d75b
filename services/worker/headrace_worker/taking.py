"""Taking a leg: WORKING in the log, before the agent is called."""

import itertools
from dataclasses import dataclass
from datetime import datetime

from headrace import metrics
from headrace.jetstream.connection import Bus
from headrace.log import LogWriter
from headrace.model import events
from headrace.model.errors import BusUnavailable, Fenced, LogLost, TaskForgotten
from headrace.model.events import Draft, Json
from headrace.model.task import WORKING
from headrace.tasks.rejecting import TOO_LATE, reject_unbegun
from headrace_worker.assignment import Assignment
from headrace_worker.authorship import Authorship
from headrace_worker.carried import carried_input
from headrace_worker.giving_up import deadline_of, give_up, is_too_late, why_hopeless
from headrace_worker.holding import Behind, Ended, Free, Held, Void, judge
from headrace_worker.past import Past, read_past
from headrace_worker.policy import Policy
from headrace_worker.turn_taking import whose_turn_it_is

_attempts = itertools.count(1)
_ROUNDS = 5
_PATIENCE = 10.0


@dataclass(frozen=True, slots=True)
class Taken:
    """A leg that this worker holds."""

    past: Past
    authorship: Authorship
    writer: LogWriter
    deadline: datetime | None = None
    """When the leg is to be over."""


async def take(
    bus: Bus, worker: str, assignment: Assignment, policy: Policy
) -> Taken | Held | Void | Behind | Ended:
    """Take the leg if it is to be taken; give it up if it was tried often enough.

    Raises:
        BusUnavailable: the log does not answer, or others keep appending to it.
    """
    for tried in range(_ROUNDS):
        # What the run carries is believed once: if the log has gone on, the append is refused.
        carried = None if tried else carried_input(assignment)
        verdict = Free(carried, 1) if carried else await judge(bus, assignment)
        if not isinstance(verdict, Free):
            return verdict
        try:
            return await _begin(bus, worker, assignment, policy, verdict)
        except Fenced:
            # Somebody was quicker: what it appended decides anew.
            continue
        except LogLost as loss:
            return Void(str(loss), lost=not isinstance(loss, TaskForgotten))
    raise BusUnavailable(f"others keep appending to {assignment.key.task}")


async def _begin(
    bus: Bus, worker: str, assignment: Assignment, policy: Policy, free: Free
) -> Taken | Void | Behind:
    past = await read_past(bus, assignment.key, assignment.leg, free.last)
    if free.attempt == 1 and is_too_late(past):
        if not await reject_unbegun(bus, assignment.key, assignment.leg, TOO_LATE):
            raise Fenced(f"{assignment.key.task} has been begun")
        return Void(TOO_LATE)
    if free.attempt == 1 and (task := await whose_turn_it_is(bus, assignment.key, past)):
        return Behind(task)
    writer_id = f"{worker}-{next(_attempts)}"
    authorship = Authorship(assignment.run.log, writer_id, assignment.leg, free.attempt)
    if (reason := why_hopeless(policy, past, free.attempt)) is not None:
        await give_up(bus, assignment, authorship, free.last, reason)
        return Void(reason)
    writer = LogWriter.behind(bus, assignment.key, free.last)
    stamp = authorship.stamp(writer.generation + 1)
    await writer.append([_working(worker, assignment, free, past)], stamp, _PATIENCE)
    metrics.RUNS_TAKEN.labels(assignment.key.agent).inc()
    if free.attempt > 1:
        metrics.RUNS_TAKEN_OVER.labels(assignment.key.agent).inc()
    return Taken(past, authorship, writer, deadline_of(policy, past))


def _working(worker: str, assignment: Assignment, free: Free, past: Past) -> Draft:
    metadata: Json = {events.ATTEMPT: free.attempt, events.WORKER: worker}
    if free.attempt > 1:
        metadata[events.DISCARDED_AFTER] = past.kept
    return events.status_update(
        assignment.key.task, assignment.run.context, WORKING, metadata=metadata
    )
