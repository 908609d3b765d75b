"""Seeing that a range's position still means what it meant when it was written.

NATS may have lost its stream, or the end of it (a disk image from before, a power cut without
`sync_interval: always`). Sequences are then given out again, and a position from before would step
over messages that nobody has applied.
"""

import asyncio

from headrace.jetstream.api import get_message, stream_state, until_answered
from headrace.jetstream.connection import Bus
from headrace.jetstream.headers import nanoseconds
from headrace_task_state.store import Progress

_CONFIRM = 0.5
_LOOKS = 2
_TIMEOUT = 2.0


async def origin_of(bus: Bus, stream: str, progress: Progress) -> str | None:
    """Return the stream's origin if `progress` is of this very stream; None: it is of another.

    A leader that was frozen answers, for a moment, what it knew then, so one look that says so is
    not believed.

    Raises:
        BusUnavailable: no leader answers.
    """
    for pause in (*[_CONFIRM] * _LOOKS, 0.0):
        if (origin := await _look(bus, stream, progress)) is not None:
            return origin
        await asyncio.sleep(pause)
    return None


async def _look(bus: Bus, stream: str, progress: Progress) -> str | None:
    state = await stream_state(bus, stream, _TIMEOUT)
    same = progress.origin in ("", state.origin) and progress.position <= state.last
    if not same or not await _holds(bus, stream, progress):
        return None
    return state.origin


async def _holds(bus: Bus, stream: str, progress: Progress) -> bool:
    """Tell whether the last message applied is the one of that sequence, or purged by now."""
    if not progress.last:
        return True
    query = {"seq": progress.last}
    message = await until_answered(bus, lambda: get_message(bus, stream, query), _TIMEOUT)
    return message is None or nanoseconds(message["time"]) == progress.time
