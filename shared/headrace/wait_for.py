"""Waiting at startup for a server, with a log message and a time limit."""

import asyncio
import logging
from collections.abc import Awaitable, Callable

import nats.errors

from headrace.model.errors import BusUnavailable

_log = logging.getLogger(__name__)

ELECTION = 20.0
"""Seconds that an election of a stream's leader may take. NATS waits for 4 to 9 s before it votes,
and as long again if no candidate gets a majority, as on a busy machine; 13 s have been measured.
Requests to a leader on behalf of a client wait this long before they fail."""

RECONNECT = 5.0
"""Seconds that connecting to another server may take. With no server connected, no election takes
place."""


async def wait_for(
    what: str, attempt: Callable[[], Awaitable[None]], timeout: float, pause: float = 0.5
) -> None:
    """Call `attempt` until it succeeds, for at most `timeout` seconds. Log `what` is waited for.

    The attempts are `pause` seconds apart.

    Raises:
        BusUnavailable: It did not succeed in time. The last failure is the cause.
    """
    loop = asyncio.get_running_loop()
    deadline, last = loop.time() + timeout, ""
    while True:
        try:
            return await asyncio.wait_for(attempt(), max(deadline - loop.time(), 0.1))
        except (nats.errors.Error, OSError, TimeoutError, BusUnavailable) as error:
            # An attempt that hits the deadline has a less specific error than the one before it.
            former, last = last, str(error) or last or reason(error)
            if loop.time() + pause > deadline:
                message = f"{what} did not answer within {timeout:g} s: {last}"
                raise BusUnavailable(message) from error
            if not former:
                _log.warning("waiting for %s: %s", what, last)
        await asyncio.sleep(pause)


def reason(error: Exception) -> str:
    """Return the message of `error`, or its type if the message is empty."""
    return str(error) or type(error).__name__
