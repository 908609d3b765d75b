"""Ending a task over the head of whoever holds it: a terminal status behind the log's last entry.

The append fences a holder, and loses against whatever comes first. Once it is there nobody does
what waits for the task: its runs are taken off the queue, and its agent is asked to clean up.

Having an agent clean up after a task that ended while nobody was at work on it.
An agent that has begun something elsewhere ends it when its run is stopped. A task that waits for
its user has no run at work, nor has one whose worker is dead: whoever ends it over the agent's head
asks for a last run, named after the generation of the end. Its worker calls the agent's `clean_up`.
"""

import logging
import secrets
from contextlib import suppress

from headrace.jetstream.connection import Bus
from headrace.jetstream.kv import Bucket
from headrace.jetstream.purge import purge
from headrace.log import LogWriter, first_entry, last_entry
from headrace.model import events, parts
from headrace.model.agent_card import AgentCard
from headrace.model.entry import Entry, Stamp
from headrace.model.errors import (
    BusUnavailable,
    Fenced,
    HeadraceError,
    TaskUnknown,
    UndecodableMessage,
)
from headrace.model.events import Json
from headrace.model.messages import RunRequest
from headrace.model.task import FAILED, REJECTED, SUBMITTED, TaskKey
from headrace.tasks.runs import RunRequests
from headrace.wait_for import ELECTION

_log = logging.getLogger(__name__)


async def have_cleaned_up(bus: Bus, key: TaskKey, last: Entry, context: str, owner: str) -> None:
    """Ask for it, where somebody has begun the task and its agent cleans up.

    `last` is the entry behind which the end was appended. Should NATS not take the run, that is
    logged: the task has ended all the same.
    """
    if last.stamp.attempt == 0 and last.stamp.run == 1:
        return
    try:
        await _ask(bus, key, last, context, owner)
    except BusUnavailable as trouble:
        _log.warning("task %s: its agent can't clean up: %s", key.task, trouble)


async def _ask(bus: Bus, key: TaskKey, last: Entry, context: str, owner: str) -> None:
    if not await _cleans_up(bus, key.agent):
        return
    request = RunRequest(log=last.stamp.log, context=context, owner=owner)
    await RunRequests(bus).publish(key, last.last_generation + 1, request)


async def _cleans_up(bus: Bus, agent: str) -> bool:
    value = await Bucket(bus, bus.streams.agents).get(f"card.{agent}")
    try:
        return value.data is not None and AgentCard.decode(agent, value.data).cleans_up
    except UndecodableMessage:
        return False


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


async def withdraw(bus: Bus, runs: str, timeout: float) -> None:
    """Take the runs on subject `runs` off the queue, if that can be done in `timeout` seconds.

    It is no loss if not: the log says that they are over, and whoever is handed one drops it.
    """
    with suppress(BusUnavailable):
        await purge(bus, bus.streams.runs, runs, timeout=timeout)


_TIMEOUT = ELECTION

_WITHDRAWAL = 1.0
"""Seconds that whoever ends a task waits for the queue to be cleared of its runs."""

_ROUNDS = 100
"""Tries to get behind a holder that keeps appending; one takes less than a millisecond."""


async def end_task(
    bus: Bus, key: TaskKey, state: str, writer: str, reason: str = ""
) -> Entry | None:
    """End the task in `state`, a terminal one, as `writer`; `reason` is for its client to read.

    Returns the entry that has ended it before; None: it was ended here.

    Raises:
        TaskUnknown: its log has no entry.
        LogLost: the log went away.
        BusUnavailable: NATS does not answer, or the holder appended first each time.
    """
    for _ in range(_ROUNDS):
        last = await last_entry(bus, key)
        if last is None:
            raise TaskUnknown
        if last.ends_task:
            return last
        try:
            await end_behind(bus, key, last, state, writer, reason)
        except Fenced:
            continue
        return None
    raise BusUnavailable(f"the holder of task {key.task} keeps appending; try again")


async def end_behind(  # noqa: PLR0917 - what such an event says, and where
    bus: Bus, key: TaskKey, last: Entry, state: str, writer: str, reason: str = ""
) -> None:
    """As `end_task`, if nothing has come behind `last`.

    Raises:
        Fenced: something has.
        LogLost, BusUnavailable: as `end_task`.
    """
    context = _context(last)
    draft = events.status_update(key.task, context, state, _said(reason))
    now = last.stamp
    owner = now.owner or await _owner(bus, key)
    stamp = Stamp(now.log, last.last_generation + 1, writer, state, now.run, owner=owner)
    await LogWriter.behind(bus, key, last).append([draft], stamp, _TIMEOUT)
    await withdraw(bus, bus.subjects.runs_of_task(key), _WITHDRAWAL)
    await have_cleaned_up(bus, key, last, context, owner or "")


async def _owner(bus: Bus, key: TaskKey) -> str | None:
    """Return whose task it is, for a view to be built from its last entry; None: its log is cut."""
    first = await first_entry(bus, key)
    return None if first is None else first.stamp.owner


def writer_of(whose: str) -> str:
    """Return a writer id for one append of `whose`."""
    return f"{whose}-{secrets.token_hex(6)}"


def _said(reason: str) -> Json | None:
    if not reason:
        return None
    notice = parts.notice_part(reason, parts.ERROR)
    return {"messageId": f"end-{secrets.token_hex(5)}", "role": "ROLE_AGENT", "parts": [notice]}


def _context(last: Entry) -> str:
    for body in last.events[-1].values():
        # Any language can be a worker: an event may be of another shape than it should.
        context = body.get("contextId") if isinstance(body, dict) else None
        return context if isinstance(context, str) else ""
    return ""


class AlreadyOver(HeadraceError):
    """The task has ended; the message says how."""

    code = "already_over"


async def fail_task(bus: Bus, key: TaskKey, reason: str) -> None:
    """Append FAILED with `reason`, a text that the task's client reads.

    A holder is not asked: it is fenced, and gives the run up when it sees that it is.

    Raises:
        AlreadyOver: the task has reached a terminal state; it stays with that.
        TaskUnknown, LogLost, BusUnavailable: as `end_task`.
    """
    before = await end_task(bus, key, FAILED, writer_of("operator"), reason)
    if before is not None:
        state = before.stamp.state.removeprefix("TASK_STATE_")
        raise AlreadyOver(f"task {key.task} is over: {state}")
