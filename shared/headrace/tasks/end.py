"""Ending a task regardless of its holder, by a terminal status after the log's last entry.

The append fences a holder, and fails if another entry comes first. Then the task's waiting runs are
removed from the queue, and its agent cleans up (`headrace.tasks.clean_up`).
"""

import secrets
from contextlib import suppress

from headrace.jetstream.connection import Bus
from headrace.jetstream.purge import purge
from headrace.log import LogWriter, first_entry, last_entry, writer_of
from headrace.model import events, parts
from headrace.model.entry import Entry, Stamp
from headrace.model.errors import (
    BusUnavailable,
    Fenced,
    HeadraceError,
    TaskUnknown,
)
from headrace.model.events import Json
from headrace.model.task import FAILED, REJECTED, SUBMITTED, TaskKey
from headrace.tasks.clean_up import request_clean_up
from headrace.tasks.delayed_runs import withdraw_delayed
from headrace.tasks.unanswered import append_end
from headrace.wait_for import ELECTION

QUEUE_FULL = "Rejected: the queue is full; try again later"

TOO_LATE = "Rejected: no worker started the task in time"

ENDED_BY_OPERATOR = "Ended by an operator"
"""The reason that clients are shown if an operator gives none."""

_TIMEOUT = ELECTION

_WITHDRAWAL = 1.0
"""Seconds that the end of a task waits for its runs to be removed from the queue."""

_ROUNDS = 100
"""Maximum number of appends against a holder that keeps appending; one takes less than 1 ms."""


def is_unstarted(last: Entry, run: int) -> bool:
    """Return whether no worker has started `run` of the task whose log ends with `last`."""
    stamp = last.stamp
    return stamp.run == run and stamp.state == SUBMITTED and stamp.attempt == 0


async def reject_unstarted(bus: Bus, key: TaskKey, run: int, reason: str) -> bool:
    """End the task as rejected if no worker has started `run`. Return whether it was ended.

    Raises:
        BusUnavailable: The log does not answer.
        LogLost: The log is gone.
    """
    last = await last_entry(bus, key)
    if last is None or not is_unstarted(last, run):
        return False
    try:
        await end_after(bus, key, last, REJECTED, writer_of("rejection"), reason)
    except Fenced:
        # A worker has just started it.
        return False
    return True


async def withdraw(bus: Bus, runs: str, timeout: float) -> None:
    """Remove the runs on subject `runs` from the queue, if possible within `timeout` seconds.

    A failure is harmless: the log shows that they are over, and a worker that gets one drops it.
    """
    with suppress(BusUnavailable):
        await purge(bus, bus.streams.runs, runs, timeout=timeout)


async def end_task(
    bus: Bus, key: TaskKey, state: str, writer: str, reason: str = ""
) -> Entry | None:
    """End the task in the terminal `state`, as `writer`, with `reason` as text for the client.

    Return the entry that ended it before. None: it was ended by this call.

    Raises:
        TaskUnknown: Its log has no entry.
        LogLost: The log was lost meanwhile.
        BusUnavailable: NATS does not answer, or the holder appended first each time.
    """
    for _ in range(_ROUNDS):
        last = await last_entry(bus, key)
        if last is None:
            raise TaskUnknown
        if last.ends_task:
            return last
        try:
            await end_after(bus, key, last, state, writer, reason)
        except Fenced:
            continue
        return None
    raise BusUnavailable(f"the worker of task {key.task} keeps appending; try again")


async def end_after(  # noqa: PLR0917 - what such an event says, and where
    bus: Bus, key: TaskKey, last: Entry, state: str, writer: str, reason: str = ""
) -> None:
    """Like `end_task`, if `last` is still the last entry.

    Messages that still wait become part of the task, unanswered.

    Raises:
        Fenced: Another entry follows it.
        LogLost, BusUnavailable: As `end_task`.
    """
    context = context_of(last)
    draft = events.status_update(key.task, context, state, _message_from(reason))
    now = last.stamp
    owner = now.owner or await owner_of(bus, key)
    stamp = Stamp(now.log, last.last_generation + 1, writer, state, now.run, owner=owner)
    await append_end(bus, key, last, context, draft, stamp, _TIMEOUT)
    await withdraw(bus, bus.subjects.runs_of_task(key), _WITHDRAWAL)
    await withdraw_delayed(bus, key, last, _WITHDRAWAL)
    await request_clean_up(bus, key, last, context, owner or "")


async def repeat_end(bus: Bus, end: Entry, key: TaskKey, after: int) -> None:
    """Append `end`, the end of the task's log, once more behind stream sequence `after`.

    A hostile worker has written there. Readers of a log in order ignore whatever follows an end.

    Raises:
        Fenced: Another entry is stored there.
        LogLost, BusUnavailable: As `end_task`.
    """
    log = LogWriter(bus, key, sequence=after, generation=end.generation - 1)
    await log.repeat(end, _TIMEOUT)


async def owner_of(bus: Bus, key: TaskKey) -> str | None:
    """Return the owner, for views built from the last entry. None: the log is trimmed."""
    first = await first_entry(bus, key)
    return None if first is None else first.stamp.owner


def _message_from(reason: str) -> Json | None:
    if not reason:
        return None
    notice = parts.notice_part(reason, parts.ERROR)
    return {"messageId": f"end-{secrets.token_hex(5)}", "role": "ROLE_AGENT", "parts": [notice]}


def context_of(last: Entry) -> str:
    """Return the context of the log that ends with `last`; empty: it names none."""
    for body in last.events[-1].values():
        # Workers can be written in any language, so an event may have an unexpected shape.
        context = body.get("contextId") if isinstance(body, dict) else None
        return context if isinstance(context, str) else ""
    return ""


class AlreadyOver(HeadraceError):
    """The task has already ended. The message names its state."""

    code = "already_over"


async def fail_task(bus: Bus, key: TaskKey, reason: str) -> None:
    """End the task as FAILED, with `reason` as text for the client.

    A holder is not asked. It is fenced, and gives the run up when it notices.

    Raises:
        AlreadyOver: The task is in a terminal state, which it keeps.
        TaskUnknown, LogLost, BusUnavailable: As `end_task`.
    """
    before = await end_task(bus, key, FAILED, writer_of("operator"), reason)
    if before is not None:
        state = before.stamp.state.removeprefix("TASK_STATE_")
        raise AlreadyOver(f"task {key.task} is over: {state}")
