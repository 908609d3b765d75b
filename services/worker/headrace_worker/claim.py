"""Deciding whether to work on a run, and claiming it: WORKING in the log before the agent runs.

A redelivered run is no proof of death: a consumer's new leader hands out runs whose holders are
well. So whoever gets a run looks at the log, and asks the holder that the log names.
"""

import itertools
import logging
from dataclasses import dataclass
from datetime import datetime

import orjson

from headrace import metrics
from headrace.jetstream.connection import Bus
from headrace.log import LogWriter, last_entry
from headrace.log.tombstone import is_forgotten
from headrace.model import events
from headrace.model.entry import Entry, Stamp
from headrace.model.errors import BusUnavailable, Fenced, LogLost, TaskForgotten
from headrace.model.events import Draft, Json
from headrace.model.messages import Control, Holding
from headrace.model.task import SUBMITTED, WORKING, TaskKey
from headrace.sdk.policy import Policy
from headrace.tasks.holder import ask_holder
from headrace.tasks.rejecting import TOO_LATE, reject_unbegun
from headrace_worker.assignment import Assignment
from headrace_worker.authorship import Authorship
from headrace_worker.give_up import (
    count_survivors,
    deadline_of,
    give_up,
    has_failed,
    is_too_late,
    may_come_back,
    why_given_up,
)
from headrace_worker.predecessors import whose_turn_it_is
from headrace_worker.recovery import Recovered, recover, why_handed_back

_log = logging.getLogger(__name__)

ANSWER = 0.5
"""Seconds that a holder has to answer; one that does not is taken over from."""

_WHO = Control(ask="who")


@dataclass(frozen=True, slots=True)
class Free:
    """The run is nobody's: begin `attempt` behind `last`."""

    last: Entry
    attempt: int


@dataclass(frozen=True, slots=True)
class Held:
    """Another worker is at it: leave the run alone, its heartbeats keep it.

    Or it was, in the last attempt that there may be, and may come back: the run is handed out again
    if it does not.
    """

    by: str


@dataclass(frozen=True, slots=True)
class Void:
    """There is nothing to do: take the run off the queue."""

    reason: str
    lost: bool = False
    """Whether there should have been something, so that the run is kept as a dead letter."""


@dataclass(frozen=True, slots=True)
class Behind:
    """The run is to begin after another task's: look again later."""

    task: str


@dataclass(frozen=True, slots=True)
class Ended:
    """The task has ended, and the run asks to clean up after it."""

    end: Entry


type Decision = Free | Held | Void | Ended


async def decide(bus: Bus, assignment: Assignment) -> Decision:
    """Say what is to become of a run, from its log's last entry.

    Raises:
        BusUnavailable: the log's leader does not answer.
    """
    last = await last_entry(bus, assignment.key)
    if last is None:
        return Void("its log is gone", lost=not await is_forgotten(bus, assignment.key))
    if (over := _over(assignment, last)) is not None:
        return over
    if last.stamp.attempt == 0:
        return Free(last, 1)
    if why_handed_back(orjson.loads(last.lines[-1])) is not None:
        return Free(last, last.stamp.attempt + 1)
    holder = await who_holds(bus, assignment.key)
    if holder is not None and holder.run == assignment.run:
        return Held(holder.worker)
    return Free(last, last.stamp.attempt + 1)


def _over(assignment: Assignment, last: Entry) -> Void | Ended | None:
    if last.stamp.log != assignment.request.log:
        return Void(f"it is for log {assignment.request.log}, which is gone", lost=True)
    if last.stamp.run > assignment.run:
        return Void(f"run {last.stamp.run} superseded it")
    if last.ends_task and last.last_generation == assignment.run:
        return Ended(last)
    if last.ends_run:
        return Void("the run has ended")
    if last.stamp.run < assignment.run:
        return Void(f"the log has no input {assignment.run}", lost=True)
    return None


async def who_holds(bus: Bus, key: TaskKey) -> Holding | None:
    """Ask the task's holder; None: there is none, or it is too slow to be one.

    Raises:
        BusUnavailable: the question could not be asked.
    """
    return await ask_holder(bus, key, _WHO, ANSWER)


def carried_input(assignment: Assignment) -> Entry | None:
    """Return the input as its log's last entry; None: the log must be read.

    A run that was delivered before has probably been worked on, and reading is cheaper than
    being refused.
    """
    request, message = assignment.request, assignment.message
    if request.input is None or request.sequence is None or message.metadata.num_delivered != 1:
        return None
    stamp = Stamp(request.log, assignment.run, "", SUBMITTED, assignment.run, owner=request.owner)
    # The run was stored a moment after its input.
    time = message.metadata.timestamp.isoformat()
    return Entry(stamp, [request.input.encode()], request.sequence, time)


_attempts = itertools.count(1)
_ROUNDS = 5
_TIMEOUT = 10.0


@dataclass(frozen=True, slots=True)
class Taken:
    """A run that this worker holds."""

    recovered: Recovered
    authorship: Authorship
    writer: LogWriter
    deadline: datetime | None = None
    """When the run is to be over."""


async def claim(
    bus: Bus, worker: str, assignment: Assignment, policy: Policy
) -> Taken | Held | Void | Behind | Ended:
    """Take the run if it is to be taken; give it up if it was tried often enough.

    Raises:
        BusUnavailable: the log does not answer, or others keep appending to it.
    """
    for tried in range(_ROUNDS):
        # What the run carries is believed once: if the log has gone on, the append is refused.
        carried = None if tried else carried_input(assignment)
        decision = Free(carried, 1) if carried else await decide(bus, assignment)
        if not isinstance(decision, Free):
            return decision
        try:
            return await _begin(bus, worker, assignment, policy, decision)
        except Fenced:
            # Somebody was quicker: what it appended decides anew.
            continue
        except LogLost as loss:
            return Void(str(loss), lost=not isinstance(loss, TaskForgotten))
    raise BusUnavailable(f"others keep appending to {assignment.key.task}")


async def _begin(
    bus: Bus, worker: str, assignment: Assignment, policy: Policy, free: Free
) -> Taken | Held | Void | Behind:
    recovered = await recover(bus, assignment.key, assignment.run, free.last)
    if free.attempt == 1 and is_too_late(recovered):
        if not await reject_unbegun(bus, assignment.key, assignment.run, TOO_LATE):
            raise Fenced(f"{assignment.key.task} has been begun")
        _log.warning("task %s is rejected: no worker started it in time", assignment.key.task)
        return Void(TOO_LATE)
    if free.attempt == 1 and (task := await whose_turn_it_is(bus, assignment.key, recovered)):
        return Behind(task)
    writer_id = f"{worker}-{next(_attempts)}"
    if recovered.replaced:
        await count_survivors(bus, assignment.key.agent, recovered)
    if has_failed(policy, recovered, free.attempt) and await may_come_back(
        bus, assignment.key.agent, recovered
    ):
        return Held(recovered.holder)
    asked = assignment.request
    authorship = Authorship(asked.log, writer_id, assignment.run, free.attempt, asked.owner or None)
    if (reason := why_given_up(policy, recovered, free.attempt)) is not None:
        await give_up(bus, assignment, authorship, free.last, reason)
        return Void(reason)
    writer = LogWriter.behind(bus, assignment.key, free.last)
    stamp = authorship.stamp(writer.generation + 1)
    await writer.append([_working(worker, assignment, free, recovered)], stamp, _TIMEOUT)
    metrics.RUNS_TAKEN.labels(assignment.key.agent).inc()
    if free.attempt > 1:
        metrics.RUNS_TAKEN_OVER.labels(assignment.key.agent).inc()
    return Taken(recovered, authorship, writer, deadline_of(policy, recovered))


def _working(worker: str, assignment: Assignment, free: Free, recovered: Recovered) -> Draft:
    metadata: Json = {events.ATTEMPT: free.attempt, events.WORKER: worker}
    if free.attempt > 1:
        metadata[events.DISCARDED_AFTER] = recovered.kept
    return events.status_update(
        assignment.key.task, assignment.request.context, WORKING, metadata=metadata
    )
