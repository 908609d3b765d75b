"""Tasks that are to be over, or to wait for somebody, before another is begun.

Whoever makes a task may name them in its metadata, so that the order outlives every process.
"""

from datetime import UTC, datetime

from headrace.jetstream.connection import Bus
from headrace.log import last_entry
from headrace.model.errors import InvalidName
from headrace.model.events import BEHIND
from headrace.model.task import SUBMITTED, WORKING, TaskKey, check_task_id
from headrace_worker.recovery import Recovered

_LEAST_PAUSE, _LONGEST_PAUSE = 0.1, 10.0
_PART = 0.05
"""Of the time that a run has waited: so long it waits on until it is looked at again."""


async def whose_turn_it_is(bus: Bus, key: TaskKey, recovered: Recovered) -> str | None:
    """Return the id of a task that the one at `key` is to wait for; None: of none.

    What its client wrote there is no reason to fail: what names no task is passed over.

    Raises:
        BusUnavailable: a log's leader does not answer.
    """
    named = recovered.metadata.get(BEHIND)
    for task in named if isinstance(named, list) else ():
        if _is_id(task) and await _is_at_work(bus, TaskKey(key.tenant, key.agent, task)):
            return str(task)
    return None


def pause_before(since: datetime) -> float:
    """Return the seconds until a run that waits its turn `since` then is looked at again."""
    waited = (datetime.now(UTC) - since).total_seconds()
    return min(max(_PART * waited, _LEAST_PAUSE), _LONGEST_PAUSE)


def _is_id(task: object) -> bool:
    try:
        check_task_id(task if isinstance(task, str) else "")
    except InvalidName:
        return False
    return True


async def _is_at_work(bus: Bus, key: TaskKey) -> bool:
    last = await last_entry(bus, key)
    return last is not None and last.stamp.state in {SUBMITTED, WORKING}
