"""Cancelling a task that an agent, not a client, asked for: confirmed by its log."""

import asyncio

from headrace import events
from headrace.bus import Bus
from headrace.cleaning_up import have_cleaned_up
from headrace.entry import Entry, Stamp
from headrace.errors import Fenced
from headrace.holders import ask_holder
from headrace.log import LogWriter, last_entry
from headrace.messages import Control
from headrace.task import CANCELED, INTERRUPTED, TaskKey

HOLDER_TIMEOUT = 0.5
"""Seconds that a holder has to answer; no answer and it counts as gone."""

CLEANUP = 8.0
"""Seconds that a holder has to end the leg (its agent cleans up) before it is fenced."""

_CANCEL = Control(ask="cancel")
_LOOK_EVERY = 0.1
_APPEND_PATIENCE = 5.0


async def cancel_task(bus: Bus, key: TaskKey, context: str, writer: str) -> str | None:
    """End the task, through its holder if it lives, as `writer` if not; return its last state.

    It may have ended otherwise in the moment. None: there is no such log.

    Raises:
        BusUnavailable: NATS does not answer.
    """
    while True:
        last = await last_entry(bus, key)
        if last is None or last.ends_task:
            return None if last is None else last.stamp.state
        if await _holder_ends(bus, key, last):
            continue
        if (state := await _end_in_log(bus, key, context, writer)) is not None:
            return state


async def _holder_ends(bus: Bus, key: TaskKey, last: Entry) -> bool:
    """Tell whether the holder has ended the leg, or another leg has begun meanwhile."""
    holding = await ask_holder(bus, key, _CANCEL, HOLDER_TIMEOUT)
    if holding is None or not holding.accepted:
        return False
    loop = asyncio.get_running_loop()
    until = loop.time() + CLEANUP
    while loop.time() < until:
        now = await last_entry(bus, key)
        if now is None or now.ends_task or now.stamp.leg != last.stamp.leg:
            return True
        if now.stamp.state in INTERRUPTED and now.ends_leg:
            return False
        await asyncio.sleep(_LOOK_EVERY)
    return False


async def _end_in_log(bus: Bus, key: TaskKey, context: str, writer: str) -> str | None:
    """Append CANCELED; None: somebody appended first, and it may be the end."""
    last = await last_entry(bus, key)
    if last is None or last.ends_task:
        return None
    draft = events.status_update(key.task, context, CANCELED)
    stamp = Stamp(last.stamp.log, last.last_generation + 1, writer, CANCELED, last.stamp.leg)
    try:
        await LogWriter.behind(bus, key, last).append([draft], stamp, _APPEND_PATIENCE)
    except Fenced:
        return None
    await have_cleaned_up(bus, key, last, context)
    return CANCELED
