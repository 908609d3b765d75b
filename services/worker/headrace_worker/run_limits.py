"""Limits of a run: its deadlines and its number of attempts."""

from datetime import datetime, timedelta

from headrace import clock
from headrace.directory import renewed, silent_for
from headrace.jetstream.connection import Bus
from headrace.model.delegation import Lineage, earliest
from headrace.model.events import START_BY
from headrace.model.subjects import is_token
from headrace.model.timestamp import read_time
from headrace.sdk.agent import Policy
from headrace_worker.recovery import RecoveredRun

MOST_ATTEMPTS = 1000
"""Attempts after which a run is given up, even if most were handed back. Deliveries do not count:
every check of a run that waits its turn, or that another worker holds, is one. An input that no
worker starts ends by its start deadline."""

MOST_SURVIVED = 10
"""Attempts, in multiples of an agent's `max_attempts`, after which a run is given up even if the
workers survived: an agent may hang its worker for a while, each time."""

_RENEWED = 2.0
"""Seconds within which a live worker has usually renewed its directory entry: it does so every 3 s.
The run of a silent worker is redelivered after at least 2.7 s."""


def deadline_of(policy: Policy, recovered: RecoveredRun) -> datetime | None:
    """Return the run's deadline, or None."""
    lineage = Lineage.of(recovered.metadata)
    inherited = read_time(lineage.deadline) if lineage is not None else None
    if policy.timeout is None:
        return inherited
    began = datetime.fromisoformat(recovered.began) if recovered.began else clock.now()
    return earliest(inherited, began + timedelta(seconds=policy.timeout))


def why_overdue(policy: Policy, recovered: RecoveredRun) -> str:
    """Return the failure reason of a run whose deadline has passed."""
    if policy.timeout is None or Lineage.of(recovered.metadata) is not None:
        return "The run did not end before its deadline"
    return f"The run did not end within {policy.timeout:g} s"


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


def has_failed(policy: Policy, recovered: RecoveredRun, attempt: int) -> bool:
    """Return whether the agent has used up its attempts, as far as is known before `attempt`."""
    return attempt - 1 - recovered.not_counted >= policy.max_attempts


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
    policy: Policy, recovered: RecoveredRun, attempt: int, deadline: datetime | None
) -> str | None:
    """Return why `attempt` at a run with that deadline must not start, or None if it may."""
    tried = attempt - 1 - recovered.handed_back
    is_spent = has_failed(policy, recovered, attempt)
    if is_spent or tried >= MOST_SURVIVED * policy.max_attempts:
        return f"Given up after {tried} attempts"
    if attempt - recovered.slept > MOST_ATTEMPTS:
        return f"Given up after {MOST_ATTEMPTS} attempts, including those handed back"
    if deadline is not None and clock.now() >= deadline:
        return why_overdue(policy, recovered)
    return None
