"""Whether a pulled run is for this worker: the log says, or the holder does.

A redelivered run is no proof of death: a consumer's new leader hands out runs whose holders are
well. So whoever gets a run looks at the log, and asks the holder that the log names.
"""

import asyncio
from dataclasses import dataclass

import orjson

from headrace.jetstream.connection import Bus
from headrace.log import last_entry
from headrace.log.tombstone import is_forgotten
from headrace.model.entry import Entry
from headrace.model.messages import Control, Holding
from headrace.model.task import TaskKey
from headrace.tasks.holder import ask_holder
from headrace_worker.assignment import Assignment
from headrace_worker.past import why_handed_back

ANSWER = 0.5
"""Seconds that a holder has to answer; one that does not is taken over from."""

_WHO = Control(ask="who")
_LOOK_AGAIN = 0.2


@dataclass(frozen=True, slots=True)
class Free:
    """The leg is nobody's: begin `attempt` behind `last`."""

    last: Entry
    attempt: int


@dataclass(frozen=True, slots=True)
class Held:
    """Another worker is at it: leave the run alone, its heartbeats keep it."""

    by: str


@dataclass(frozen=True, slots=True)
class Void:
    """There is nothing to do: take the run off the queue."""

    reason: str
    lost: bool = False
    """Whether there should have been something, so that the run is kept as a dead letter."""


@dataclass(frozen=True, slots=True)
class Behind:
    """The leg is to begin after another task's: look again later."""

    task: str


@dataclass(frozen=True, slots=True)
class Ended:
    """The task has ended, and the run asks to clean up after it."""

    end: Entry


type Verdict = Free | Held | Void | Ended


async def judge(bus: Bus, assignment: Assignment) -> Verdict:
    """Say what is to become of a run, from its log's last entry.

    Raises:
        BusUnavailable: the log's leader does not answer.
    """
    last = await _last(bus, assignment.key)
    if last is None:
        return Void("its log is gone", lost=not await is_forgotten(bus, assignment.key))
    if (over := _over(assignment, last)) is not None:
        return over
    if last.stamp.attempt == 0:
        return Free(last, 1)
    if why_handed_back(orjson.loads(last.lines[-1])) is not None:
        return Free(last, last.stamp.attempt + 1)
    holder = await who_holds(bus, assignment.key)
    if holder is not None and holder.leg == assignment.leg:
        return Held(holder.worker)
    return Free(last, last.stamp.attempt + 1)


def _over(assignment: Assignment, last: Entry) -> Void | Ended | None:
    if last.stamp.log != assignment.run.log:
        return Void(f"it is for log {assignment.run.log}, which is gone", lost=True)
    if last.stamp.leg > assignment.leg:
        return Void(f"leg {last.stamp.leg} superseded it")
    if last.ends_task and last.last_generation == assignment.leg:
        return Ended(last)
    if last.ends_leg:
        return Void("the leg has ended")
    if last.stamp.leg < assignment.leg:
        return Void(f"the log has no input {assignment.leg}", lost=True)
    return None


async def _last(bus: Bus, key: TaskKey) -> Entry | None:
    last = await last_entry(bus, key)
    if last is not None:
        return last
    # An answer that would drop an accepted task is worth asking for twice.
    await asyncio.sleep(_LOOK_AGAIN)
    return await last_entry(bus, key)


async def who_holds(bus: Bus, key: TaskKey) -> Holding | None:
    """Ask the task's holder; None: there is none, or it is too slow to be one.

    Raises:
        BusUnavailable: the question could not be asked.
    """
    return await ask_holder(bus, key, _WHO, ANSWER)
