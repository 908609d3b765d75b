"""Counting what came of appends."""

from collections.abc import Awaitable

from headrace.errors import BusUnavailable, Fenced, LogFull, LogLost
from headrace.metrics import APPENDS

_STORED = APPENDS.labels("stored")
_FAILED = {
    Fenced: APPENDS.labels("fenced"),
    LogLost: APPENDS.labels("lost"),
    LogFull: APPENDS.labels("full"),
    BusUnavailable: APPENDS.labels("unknown"),
}


async def counted(storing: Awaitable[int]) -> int:
    """Return what `storing` does, counted.

    Raises:
        Fenced, LogLost, LogFull, BusUnavailable: as `storing`.
    """
    try:
        sequence = await storing
    except (Fenced, LogLost, BusUnavailable) as error:
        _FAILED[type(error)].inc()
        raise
    _STORED.inc()
    return sequence
