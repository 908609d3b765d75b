"""Ending a run that nobody is to try again: too many attempts died, or its time has passed."""

import logging
from datetime import UTC, datetime, timedelta

from headrace import metrics
from headrace.directory import renewed, silent_for
from headrace.jetstream.connection import Bus
from headrace.log import LogWriter
from headrace.model import events, parts
from headrace.model.delegation import Lineage, earliest, read_time
from headrace.model.entry import Entry
from headrace.model.events import START_BY
from headrace.model.names import is_token
from headrace.model.task import FAILED
from headrace.sdk.policy import Policy
from headrace.tasks.clean_up import have_cleaned_up
from headrace_worker.assignment import Assignment
from headrace_worker.authorship import Authorship
from headrace_worker.ids import RunIds
from headrace_worker.recovery import Recovered

_log = logging.getLogger(__name__)

MOST_ATTEMPTS = 1000
"""Attempts after which a run is given up though most were handed back. Deliveries do not count:
each look at a run that waits its turn, or that somebody else holds, is one. An input that nobody
comes so far as to begin ends by its start deadline."""

MOST_SURVIVED = 10
"""Attempts, in multiples of an agent's `max_attempts`, after which a run is given up although their
workers live on: an agent may hang its worker for a while, each time."""

_RENEWED = 2.0
"""Seconds within which a worker that lives has mostly renewed its place: it does so every 3. The
run of one that fell silent is handed out again after 2.7 or more."""

_TIMEOUT = 10.0


def deadline_of(policy: Policy, recovered: Recovered) -> datetime | None:
    """Return when the run is to be over; None: it has all the time."""
    lineage = Lineage.of(recovered.metadata)
    inherited = read_time(lineage.deadline) if lineage is not None else None
    if policy.timeout is None:
        return inherited
    began = datetime.fromisoformat(recovered.began) if recovered.began else datetime.now(UTC)
    return earliest(inherited, began + timedelta(seconds=policy.timeout))


def why_overdue(policy: Policy, recovered: Recovered) -> str:
    """Return what is said of a run whose deadline has passed."""
    if policy.timeout is None or Lineage.of(recovered.metadata) is not None:
        return "It did not end before its deadline"
    return f"It did not end within {policy.timeout:g} s"


def is_too_late(recovered: Recovered) -> bool:
    """Tell whether the run had to be begun before now."""
    try:
        return datetime.now(UTC) >= datetime.fromisoformat(recovered.metadata[START_BY])
    except (LookupError, TypeError, ValueError):
        return False


async def count_survivors(bus: Bus, agent: str, recovered: Recovered) -> None:
    """Have `recovered` know how many of its silent attempts have a worker that lives on.

    A worker that was frozen, or cut off, is replaced like a dead one, and shows later that it lives
    by renewing its place in the directory. Of the attempt that is replaced now nobody can tell.

    Raises:
        BusUnavailable: the directory does not answer.
    """
    recovered.survived = 0
    for worker, replaced in recovered.replaced:
        seen = await renewed(bus, agent, worker) if is_token(worker) else None
        recovered.survived += seen is not None and seen > datetime.fromisoformat(replaced)


def has_failed(policy: Policy, recovered: Recovered, attempt: int) -> bool:
    """Tell whether the agent has failed as often as it may, as far as is known before `attempt`."""
    return attempt - 1 - recovered.excused >= policy.max_attempts


async def may_come_back(bus: Bus, agent: str, recovered: Recovered) -> bool:
    """Tell whether the worker of the last attempt may be frozen or cut off, and hold it still.

    Such a worker keeps its place in the directory for some seconds, and does not renew it; once the
    place has expired it counts as dead. One that renews it lives, and would say that it is at work.

    Raises:
        BusUnavailable: the directory does not answer.
    """
    if not is_token(recovered.holder):
        return False
    silent = await silent_for(bus, agent, recovered.holder)
    return silent is not None and silent > _RENEWED


def why_given_up(policy: Policy, recovered: Recovered, attempt: int) -> str | None:
    """Return why `attempt` is not to begin; None: it is."""
    tried = attempt - 1 - recovered.handed_back
    is_spent = has_failed(policy, recovered, attempt)
    if is_spent or tried >= MOST_SURVIVED * policy.max_attempts:
        return f"Given up after {tried} attempts"
    if attempt > MOST_ATTEMPTS:
        return f"Given up: it was begun {MOST_ATTEMPTS} times"
    deadline = deadline_of(policy, recovered)
    if deadline is not None and datetime.now(UTC) >= deadline:
        return why_overdue(policy, recovered)
    return None


async def give_up(
    bus: Bus, assignment: Assignment, by: Authorship, last: Entry, reason: str
) -> None:
    """Keep the run as a dead letter and append FAILED behind `last`.

    Raises:
        Fenced, LogLost: somebody else has decided.
        BusUnavailable: it is not done, or not for certain; the run stays.
    """
    key = assignment.key
    _log.error("task %s: %s", key.task, reason)
    await assignment.keep_as_dead_letter(bus, reason)
    message = {
        "messageId": RunIds(key.task, by.run).mint("failure"),
        "role": "ROLE_AGENT",
        "parts": [parts.notice_part(reason, parts.ERROR)],
    }
    draft = events.status_update(key.task, assignment.request.context, FAILED, message)
    writer = LogWriter.behind(bus, key, last)
    await writer.append([draft], by.stamp(writer.generation + 1, FAILED), _TIMEOUT)
    metrics.RUNS_ENDED.labels(key.agent, FAILED).inc()
    request = assignment.request
    await have_cleaned_up(bus, key, last, request.context, request.owner or "")
