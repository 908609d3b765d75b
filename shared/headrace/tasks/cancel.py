"""Cancelling a task that an agent, not a client, asked for: confirmed by its log."""

import asyncio

from headrace.jetstream.connection import Bus
from headrace.log import last_entry
from headrace.model.entry import Entry
from headrace.model.messages import Control
from headrace.model.task import CANCELED, INTERRUPTED, TaskKey
from headrace.tasks.end import end_task
from headrace.tasks.holder import ask_holder

CANCEL = Control(ask="cancel")

HOLDER_TIMEOUT = 0.5
"""Seconds that a holder has to answer; no answer and it counts as gone."""

CLEANUP = 8.0
"""Seconds that a holder has to end the leg (its agent cleans up) before it is fenced."""

_LOOK_EVERY = 0.1


async def cancel_task(bus: Bus, key: TaskKey, writer: str) -> None:
    """End the task, through its holder if it lives, as `writer` if not.

    It may have ended otherwise in the moment. Where there is no such log there is nothing to end.

    Raises:
        LogLost: the log went away.
        BusUnavailable: NATS does not answer.
    """
    while (last := await last_entry(bus, key)) is not None and not last.ends_task:
        if not await _holder_ends(bus, key, last):
            await end_task(bus, key, CANCELED, writer)


async def _holder_ends(bus: Bus, key: TaskKey, last: Entry) -> bool:
    """Tell whether the holder has ended the leg, or another leg has begun meanwhile."""
    holding = await ask_holder(bus, key, CANCEL, HOLDER_TIMEOUT)
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
