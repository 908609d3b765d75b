"""Waiting at start for what is not there yet, aloud and not for ever."""

import asyncio
import logging
from collections.abc import Awaitable, Callable

import nats.errors

from headrace.model.errors import BusUnavailable

_log = logging.getLogger(__name__)

ELECTION = 20.0
"""Seconds that an election of a stream's leader may take. NATS waits for 4 to 9 before it votes,
and as long again if no candidate gets most votes, as on a busy machine: 13 have been measured.
Whoever asks a leader on behalf of a client waits so long before it says that there is none."""

RECONNECT = 5.0
"""Seconds that another server may take to be connected to; without any there is no election."""

_PAUSE = 0.5


async def wait_for(what: str, attempt: Callable[[], Awaitable[None]], timeout: float) -> None:
    """Call `attempt` until it succeeds, saying what is waited for, at most `timeout` seconds.

    Raises:
        BusUnavailable: it did not succeed in time; the last failure is its cause.
    """
    loop = asyncio.get_running_loop()
    deadline, last = loop.time() + timeout, ""
    while True:
        try:
            return await asyncio.wait_for(attempt(), max(deadline - loop.time(), 0.1))
        except (nats.errors.Error, OSError, TimeoutError, BusUnavailable) as error:
            # An attempt that the time ran out on says less than the one before it.
            former, last = last, str(error) or last or reason(error)
            if loop.time() + _PAUSE > deadline:
                message = f"{what} did not answer within {timeout:g} s: {last}"
                raise BusUnavailable(message) from error
            if not former:
                _log.warning("waiting for %s: %s", what, last)
        await asyncio.sleep(_PAUSE)


def reason(error: Exception) -> str:
    """Return what `error` says, or its kind if it says nothing."""
    return str(error) or type(error).__name__
