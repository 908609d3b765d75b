"""Counting what came of appends."""

from collections.abc import Awaitable

from headrace.metrics import APPENDS
from headrace.model.errors import BusUnavailable, Fenced, LogFull, LogLost, TaskForgotten

_STORED = APPENDS.labels("stored")
_FAILED = {
    Fenced.code: APPENDS.labels("fenced"),
    LogLost.code: APPENDS.labels("lost"),
    TaskForgotten.code: APPENDS.labels("lost"),
    LogFull.code: APPENDS.labels("full"),
}
_UNKNOWN = APPENDS.labels("unknown")


async def counted(storing: Awaitable[int]) -> int:
    """Return what `storing` does, counted.

    Raises:
        Fenced, LogLost, LogFull, BusUnavailable: as `storing`.
    """
    try:
        sequence = await storing
    except (Fenced, LogLost, BusUnavailable) as error:
        _FAILED.get(error.code, _UNKNOWN).inc()
        raise
    _STORED.inc()
    return sequence
