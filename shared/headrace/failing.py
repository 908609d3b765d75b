"""Ending a task over everybody's head: FAILED in its log, which fences whoever holds it."""

import secrets

from headrace import events, parts
from headrace.bus import Bus
from headrace.cleaning_up import have_cleaned_up
from headrace.entry import Entry, Stamp
from headrace.errors import BusUnavailable, Fenced, HeadraceError, TaskUnknown
from headrace.log import LogWriter, last_entry
from headrace.task import FAILED, TaskKey

_PATIENCE = 5.0
_ROUNDS = 100
"""Tries to get behind a holder that keeps appending; one takes less than a millisecond."""


class AlreadyOver(HeadraceError):
    """The task has ended; the message says how."""

    code = "already_over"


async def fail_task(bus: Bus, key: TaskKey, reason: str) -> None:
    """Append FAILED with `reason`, a text that the task's client reads.

    A holder is not asked: it is fenced, and gives the leg up when it sees that it is.

    Raises:
        AlreadyOver: the task has reached a terminal state; it stays with that.
        TaskUnknown: the log has no entry.
        BusUnavailable: NATS does not answer, or the holder appended first each time.
    """
    said = {
        "messageId": f"failure-{secrets.token_hex(5)}",
        "role": "ROLE_AGENT",
        "parts": [parts.notice_part(reason, parts.ERROR)],
    }
    writer = f"operator-{secrets.token_hex(6)}"
    for _ in range(_ROUNDS):
        last = await last_entry(bus, key)
        if last is None:
            raise TaskUnknown(f"the log of task {key.task} has nothing that can be read")
        if last.ends_task:
            state = last.stamp.state.removeprefix("TASK_STATE_")
            raise AlreadyOver(f"task {key.task} is over: {state}")
        draft = events.status_update(key.task, _context(last), FAILED, said)
        stamp = Stamp(last.stamp.log, last.last_generation + 1, writer, FAILED, last.stamp.leg)
        try:
            await LogWriter.behind(bus, key, last).append([draft], stamp, _PATIENCE)
        except Fenced:
            continue
        await have_cleaned_up(bus, key, last, _context(last))
        return
    raise BusUnavailable(f"the holder of task {key.task} keeps appending; try again")


def _context(last: Entry) -> str:
    body = next(iter(last.events[-1].values()))
    return str(body.get("contextId", ""))
