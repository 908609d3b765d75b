"""Decision whether to work on a run, and the claim: WORKING is appended before the agent runs.

A redelivered run does not prove that its holder died: a consumer's new leader redelivers runs of
live holders. A worker that receives a run therefore reads the log and queries the holder named
there.

A task's metadata may name tasks that must first end or wait for input. It is stored in the log, so
the order survives every process.
"""

import itertools
import logging
from dataclasses import dataclass
from datetime import datetime, timedelta

from headrace import clock, tracing
from headrace.directory import renewed, silent_for
from headrace.jetstream.connection import Bus
from headrace.log import LogWriter, last_entry
from headrace.log.tombstone import is_forgotten
from headrace.model import events, json_text, parts
from headrace.model.delegation import earliest
from headrace.model.entry import Entry
from headrace.model.errors import BusUnavailable, Fenced, InvalidName, LogLost, TaskForgotten
from headrace.model.events import START_BY, WAIT_FOR, Draft, Json, read_time
from headrace.model.messages import Control, HolderReply
from headrace.model.subjects import is_token
from headrace.model.task import FAILED, SUBMITTED, WORKING, TaskKey, check_task_id
from headrace.sdk.agent import Agent
from headrace.sdk.policy import Limits, Retry
from headrace.tasks.clean_up import request_clean_up
from headrace.tasks.end import TOO_LATE, reject_unstarted
from headrace.tasks.fork import end_unfinished, unfinished_fork
from headrace.tasks.holder import ask_holder
from headrace.tasks.unanswered import append_end
from headrace_worker.appender import StampBase
from headrace_worker.assignment import Assignment
from headrace_worker.blocks import RunIds
from headrace_worker.recovery import RecoveredRun, recover
from headrace_worker.run_metrics import series_of
from headrace_worker.spans import AttemptSpan

_log = logging.getLogger(__name__)

ANSWER = 0.5
"""Timeout in seconds for a holder's answer; a holder that misses it is replaced."""

_ROUNDS = 5
"""Attempts to claim a run whose log changes meanwhile."""

_TIMEOUT = 10.0
"""Timeout in seconds for an append."""

_WHO = Control(ask="who")

_attempts = itertools.count(1)

_PART = 0.05
"""Pause before the next check, as a fraction of the time that the run has waited."""


MOST_ATTEMPTS = 1000
"""Attempts after which a run is given up, even if most were handed back. Deliveries do not count:
every check of a run that waits its turn, or that another worker holds, is one. An input that no
worker starts ends by its start deadline."""

MOST_SURVIVED = 10
"""Attempts, in multiples of an agent's `Retry.attempts`, after which a run is given up even if the
workers survived: an agent may hang its worker for a while, each time."""

_RENEWED = 2.0
"""Seconds within which a live worker has usually renewed its directory entry: it does so every 3 s.
The run of a silent worker is redelivered after at least 2.7 s."""


def deadline_of(limits: Limits, recovered: RecoveredRun) -> datetime | None:
    """Return the run's deadline, or None."""
    lineage = recovered.lineage
    inherited = read_time(lineage.deadline) if lineage is not None else None
    if limits.timeout is None:
        return inherited
    began = datetime.fromisoformat(recovered.began) if recovered.began else clock.now()
    return earliest(inherited, began + timedelta(seconds=limits.timeout))


def why_overdue(limits: Limits, recovered: RecoveredRun) -> str:
    """Return the failure reason of a run whose deadline has passed."""
    if limits.timeout is None or recovered.lineage is not None:
        return "The run did not end before its deadline"
    return f"The run did not end within {limits.timeout:g} s"


def is_too_late(recovered: RecoveredRun) -> bool:
    """Return whether the run's start deadline has passed."""
    try:
        return clock.now() >= datetime.fromisoformat(recovered.metadata[START_BY])
    except (LookupError, TypeError, ValueError):
        return False


async def count_survivors(bus: Bus, agent: str, recovered: RecoveredRun) -> None:
    """Set `recovered.survived` to the number of replaced attempts whose workers are alive.

    A worker that was frozen or cut off is replaced like a dead one. It later renews its directory
    entry, which shows that it survived. For the attempt that is being replaced now, this is not
    known yet.

    Raises:
        BusUnavailable: the directory does not answer.
    """
    recovered.survived = 0
    for worker, replaced in recovered.replaced:
        seen = await renewed(bus, agent, worker) if is_token(worker) else None
        recovered.survived += seen is not None and seen > datetime.fromisoformat(replaced)


def has_failed(retry: Retry, recovered: RecoveredRun, attempt: int) -> bool:
    """Return whether the agent has used up its attempts, as far as is known before `attempt`."""
    return attempt - 1 - recovered.not_counted >= retry.attempts


async def may_be_retried(bus: Bus, agent: str, recovered: RecoveredRun) -> bool:
    """Return whether the last attempt's worker may be frozen or cut off, and still hold the run.

    Such a worker keeps its directory entry for some seconds without renewing it; once the entry has
    expired, the worker counts as stopped. A worker that renews its entry is running, and would have
    answered the holder query.

    Raises:
        BusUnavailable: the directory does not answer.
    """
    if not is_token(recovered.holder):
        return False
    silent = await silent_for(bus, agent, recovered.holder)
    return silent is not None and silent > _RENEWED


def why_given_up(
    agent: Agent, recovered: RecoveredRun, attempt: int, deadline: datetime | None
) -> str | None:
    """Return why `attempt` at a run with that deadline must not start, or None if it may."""
    tried = attempt - 1 - recovered.handed_back
    is_spent = has_failed(agent.retry, recovered, attempt)
    if is_spent or tried >= MOST_SURVIVED * agent.retry.attempts:
        return f"Given up after {tried} attempts"
    if attempt - recovered.slept > MOST_ATTEMPTS:
        return f"Given up after {MOST_ATTEMPTS} attempts, including those handed back"
    if deadline is not None and clock.now() >= deadline:
        return why_overdue(agent.limits, recovered)
    return None


async def whose_turn_it_is(bus: Bus, key: TaskKey, recovered: RecoveredRun) -> str | None:
    """Return the id of a task that the one at `key` must wait for, or None.

    The names come from clients: one that is not a valid task id is ignored.

    Raises:
        BusUnavailable: a log's leader does not answer.
    """
    named = recovered.metadata.get(WAIT_FOR)
    for task in named if isinstance(named, list) else ():
        if _is_id(task) and await _is_at_work(bus, TaskKey(key.tenant, key.agent, task)):
            return str(task)
    return None


def pause_before(since: datetime, limits: tuple[float, float]) -> float:
    """Return the seconds until the next check of a run that has waited since `since`."""
    waited = (clock.now() - since).total_seconds()
    least, greatest = limits
    return min(max(_PART * waited, least), greatest)


def _is_id(task: object) -> bool:
    try:
        check_task_id(task if isinstance(task, str) else "")
    except InvalidName:
        return False
    return True


async def _is_at_work(bus: Bus, key: TaskKey) -> bool:
    last = await last_entry(bus, key)
    return last is not None and last.stamp.state in {SUBMITTED, WORKING}


@dataclass(frozen=True, slots=True)
class Claimable:
    """No worker holds the run: start `attempt` after `last`."""

    last: Entry
    attempt: int


@dataclass(frozen=True, slots=True)
class HeldElsewhere:
    """Another worker holds the run and renews its lease: leave it alone.

    Or that worker's attempt was the last one allowed, and it may come back; otherwise the run is
    redelivered.
    """

    by: str


@dataclass(frozen=True, slots=True)
class Obsolete:
    """There is nothing to do: remove the run from the queue."""

    reason: str
    lost: bool = False
    """Whether the log should have had the run's input; if so, the run is kept as a dead letter."""


@dataclass(frozen=True, slots=True)
class Blocked:
    """The run must wait for another task: check again later."""

    task: str


@dataclass(frozen=True, slots=True)
class CleanUpDue:
    """The task has ended, and the run requests its clean-up."""

    end: Entry


@dataclass(frozen=True, slots=True)
class Sleeping:
    """The run sleeps: begin its next attempt later."""

    until: datetime


type Unclaimed = HeldElsewhere | Obsolete | Blocked | Sleeping | CleanUpDue
"""Why a run is not claimed."""

type Decision = Claimable | HeldElsewhere | Obsolete | CleanUpDue


async def decide(bus: Bus, assignment: Assignment) -> Decision:
    """Decide what to do with a run, from its log's last entry.

    Raises:
        BusUnavailable: the log's leader does not answer.
    """
    last = await last_entry(bus, assignment.key)
    if last is None:
        return Obsolete("its log is gone", lost=not await is_forgotten(bus, assignment.key))
    if over := _over(assignment, last) or await _unfinished(bus, assignment.key, last):
        return over
    if last.stamp.attempt == 0:
        return Claimable(last, 1)
    if events.why_handed_back(json_text.decode(last.lines[-1])) is not None:
        return Claimable(last, last.stamp.attempt + 1)
    holder = await who_holds(bus, assignment.key)
    if holder is not None and holder.run == assignment.run.generation:
        return HeldElsewhere(holder.worker)
    return Claimable(last, last.stamp.attempt + 1)


async def _unfinished(bus: Bus, key: TaskKey, last: Entry) -> Obsolete | None:
    if await unfinished_fork(bus, key, last) is None:
        return None
    await end_unfinished(bus, key, last)
    return Obsolete("the copy of its past is unfinished")


def _over(assignment: Assignment, last: Entry) -> Obsolete | CleanUpDue | None:
    run = assignment.run
    if last.stamp.log != run.log:
        return Obsolete(f"its log {run.log} is gone", lost=True)
    if last.stamp.run > run.generation:
        return Obsolete(f"run {last.stamp.run} has superseded it")
    if last.ends_task and last.last_generation == run.generation:
        return CleanUpDue(last)
    if last.ends_run:
        return Obsolete("the run has ended")
    if last.stamp.run < run.generation:
        return Obsolete(f"the log has no input {run.generation}", lost=True)
    return None


async def who_holds(bus: Bus, key: TaskKey) -> HolderReply | None:
    """Return the task's holder, or None if no worker answers within `ANSWER` seconds.

    Raises:
        BusUnavailable: the request could not be sent.
    """
    return await ask_holder(bus, key, _WHO, ANSWER)


@dataclass(frozen=True, slots=True)
class ClaimedRun:
    """A run that this worker holds."""

    recovered: RecoveredRun
    authorship: StampBase
    writer: LogWriter
    traceparent: str | None
    """W3C trace context for what the agent does: the span's, or else the request's."""
    span: AttemptSpan | None
    """None: traces are not exported."""
    deadline: datetime | None = None
    """Deadline of the run."""


async def claim(
    bus: Bus, worker: str, assignment: Assignment, agent: Agent
) -> ClaimedRun | Unclaimed:
    """Claim the run if that is allowed; fail it if its attempts are used up.

    Raises:
        BusUnavailable: the log does not answer, or other writers keep appending to it.
    """
    for _ in range(_ROUNDS):
        # If the log has changed since, the append is refused.
        carried = assignment.pop_input()
        decision = Claimable(carried, 1) if carried else await decide(bus, assignment)
        if not isinstance(decision, Claimable):
            return decision
        try:
            return await _begin(bus, worker, assignment, agent, decision)
        except Fenced:
            # Another writer was faster: decide again from its entry.
            continue
        except LogLost as loss:
            return Obsolete(str(loss), lost=not isinstance(loss, TaskForgotten))
    raise BusUnavailable(f"other writers keep appending to {assignment.key.task}")


async def _begin(
    bus: Bus, worker: str, assignment: Assignment, agent: Agent, free: Claimable
) -> ClaimedRun | HeldElsewhere | Obsolete | Blocked | Sleeping:
    recovered = await recover(bus, assignment.key, assignment.run.generation, free.last)
    if free.attempt == 1 and (left := await _left_unstarted(bus, assignment, recovered)):
        return left
    deadline = deadline_of(agent.limits, recovered)
    if recovered.asleep_until is not None and not recovered.is_woken:
        wakes = earliest(recovered.asleep_until, deadline)
        if wakes is not None and wakes > clock.now():
            return Sleeping(wakes)
    writer_id = f"{worker}-{next(_attempts)}"
    if recovered.replaced:
        await count_survivors(bus, assignment.key.agent, recovered)
    run = assignment.run
    authorship = StampBase(run.log, writer_id, run.generation, free.attempt, run.owner or None)
    if (reason := why_given_up(agent, recovered, free.attempt, deadline)) is not None:
        if has_failed(agent.retry, recovered, free.attempt) and await may_be_retried(
            bus, assignment.key.agent, recovered
        ):
            return HeldElsewhere(recovered.holder)
        await _give_up(bus, agent, assignment, authorship, free.last, reason=reason)
        return Obsolete(reason)
    writer = LogWriter.after(bus, assignment.key, free.last)
    stamp = authorship.stamp(writer.generation + 1)
    traceparent = recovered.metadata.get(events.TRACEPARENT) or run.terms.traceparent
    span = None
    if tracing.is_enabled():
        span = AttemptSpan.start(run, free.attempt, recovered, traceparent)
    working = _working(worker, assignment, free, recovered, span)
    await writer.append([working], stamp, _TIMEOUT)
    # A run that was handed back, to be retried or to sleep, has no holder.
    if recovered.holder not in {"", worker}:
        series_of(agent).taken_over.inc()
    traceparent = span.traceparent if span else traceparent
    return ClaimedRun(recovered, authorship, writer, traceparent, span, deadline)


async def _give_up(
    bus: Bus, agent: Agent, assignment: Assignment, by: StampBase, last: Entry, *, reason: str
) -> None:
    """Store the run as a dead letter, append FAILED after `last`, and request the clean-up.

    Raises:
        Fenced, LogLost: another writer has appended to the log, or the log is gone.
        BusUnavailable: it may not have happened; the run stays queued.
    """
    key, context = assignment.key, assignment.run.context
    _log.error("task %s: %s", key.task, reason)
    await assignment.keep_as_dead_letter(bus, reason)
    message = {
        "messageId": RunIds(key.task, by.run).mint("failure"),
        "role": "ROLE_AGENT",
        "parts": [parts.notice_part(reason, parts.ERROR)],
    }
    draft = events.status_update(key.task, context, FAILED, message)
    stamp = by.stamp(last.last_generation + 1, FAILED)
    await append_end(bus, key, last, context, draft, stamp, _TIMEOUT)
    series_of(agent).ended[FAILED].inc()
    await request_clean_up(bus, key, last, context, assignment.run.owner)


async def _left_unstarted(
    bus: Bus, assignment: Assignment, recovered: RecoveredRun
) -> Obsolete | Blocked | None:
    """Return why a run that has had no attempt does not begin now; None: it begins.

    Raises:
        Fenced: another worker has begun it.
    """
    key = assignment.key
    if is_too_late(recovered):
        if not await reject_unstarted(bus, key, assignment.run.generation, TOO_LATE):
            raise Fenced(f"task {key.task} has been started")
        _log.warning("task %s is rejected: no worker started the task in time", key.task)
        return Obsolete(TOO_LATE)
    if WAIT_FOR not in recovered.metadata:
        return None
    task = await whose_turn_it_is(bus, key, recovered)
    return Blocked(task) if task else None


def _working(
    worker: str,
    assignment: Assignment,
    free: Claimable,
    recovered: RecoveredRun,
    span: AttemptSpan | None,
) -> Draft:
    metadata: Json = {events.ATTEMPT: free.attempt, events.WORKER: worker}
    if span is not None:
        metadata[events.ATTEMPT_TRACEPARENT] = span.traceparent
    if free.attempt > 1:
        metadata[events.DISCARDED_AFTER] = recovered.kept
    return events.status_update(
        assignment.key.task, assignment.run.context, WORKING, metadata=metadata
    )
