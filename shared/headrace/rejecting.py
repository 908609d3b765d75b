"""Ending what no worker has begun: REJECTED in the log, never a task that just vanishes."""

import secrets

from headrace import events, parts
from headrace.bus import Bus
from headrace.cleaning_up import have_cleaned_up
from headrace.entry import Entry, Stamp
from headrace.errors import Fenced
from headrace.log import LogWriter, last_entry
from headrace.subjects import NORMAL
from headrace.task import REJECTED, SUBMITTED, TaskKey
from headrace.withdrawing import withdraw

QUEUE_FULL = "Rejected: no more runs can wait now; try again later"
TOO_LATE = "Rejected: no worker began it in time"

_PATIENCE = 5.0


def is_unbegun(last: Entry, leg: int) -> bool:
    """Tell whether no worker has begun `leg` of the task whose log ends with `last`."""
    stamp = last.stamp
    return stamp.leg == leg and stamp.state == SUBMITTED and stamp.attempt == 0


async def reject_unbegun(
    bus: Bus, key: TaskKey, leg: int, reason: str, priority: str = NORMAL
) -> bool:
    """End the task if no worker has begun `leg`, and take its run off the queue.

    Returns whether it was ended here.

    Raises:
        BusUnavailable: the log does not answer.
        LogLost: it is gone.
    """
    last = await last_entry(bus, key)
    if last is None or not is_unbegun(last, leg):
        return False
    context = next(iter(last.events[-1].values())).get("contextId", "")
    said = {
        "messageId": f"rejection-{secrets.token_hex(5)}",
        "role": "ROLE_AGENT",
        "parts": [parts.notice_part(reason, parts.ERROR)],
    }
    draft = events.status_update(key.task, context, REJECTED, said)
    writer = f"rejection-{secrets.token_hex(6)}"
    stamp = Stamp(last.stamp.log, last.last_generation + 1, writer, REJECTED, leg)
    try:
        await LogWriter.behind(bus, key, last).append([draft], stamp, _PATIENCE)
    except Fenced:
        # A worker has begun it in the moment.
        return False
    await withdraw(bus, bus.subjects.run(key, leg, priority), _PATIENCE)
    await have_cleaned_up(bus, key, last, context)
    return True
