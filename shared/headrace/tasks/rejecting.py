"""Ending what no worker has begun: REJECTED in the log, never a task that just vanishes."""

from headrace.jetstream.connection import Bus
from headrace.log import last_entry
from headrace.model.entry import Entry
from headrace.model.errors import Fenced
from headrace.model.task import REJECTED, SUBMITTED, TaskKey
from headrace.tasks.end import end_behind, writer_of

QUEUE_FULL = "Rejected: no more runs can wait now; try again later"
TOO_LATE = "Rejected: no worker started it in time"


def is_unbegun(last: Entry, run: int) -> bool:
    """Tell whether no worker has begun `run` of the task whose log ends with `last`."""
    stamp = last.stamp
    return stamp.run == run and stamp.state == SUBMITTED and stamp.attempt == 0


async def reject_unbegun(bus: Bus, key: TaskKey, run: int, reason: str) -> bool:
    """End the task if no worker has begun `run`; return whether it was ended here.

    Raises:
        BusUnavailable: the log does not answer.
        LogLost: it is gone.
    """
    last = await last_entry(bus, key)
    if last is None or not is_unbegun(last, run):
        return False
    try:
        await end_behind(bus, key, last, REJECTED, writer_of("rejection"), reason)
    except Fenced:
        # A worker has begun it in the moment.
        return False
    return True
