"""A periodic check whether a NATS server answers, so that callers need not wait for the result."""

import asyncio
import logging
import math
from collections.abc import Callable
from dataclasses import dataclass

from headrace.ticks import tick

_log = logging.getLogger(__name__)

_LOST = 2
"""Probes lost in a row after which another server is used. One alone may only be late."""


@dataclass(frozen=True, slots=True)
class ProbeTiming:
    """All in seconds."""

    interval: float = 1.0
    """Between an answer and the next probe, if there is another server to connect to."""
    without_others: float = 2.0
    """The same if there is none, and the last probe was answered."""
    timeout: float = 2.0
    """After which a probe is lost."""
    only_server: float = 30.0
    """Of silence after which a new connection is made to the only server that is known. It may
    thaw, and has what was sent to it meanwhile; or its machine is gone."""


PROBE_TIMING = ProbeTiming()


class HealthProbe:
    """Pings the server of a connection.

    nats-py alone stays connected to a frozen server for half a minute.
    """

    def __init__(
        self,
        ping: Callable[[asyncio.Future[bool]], bool],
        others: Callable[[], bool],
        timing: ProbeTiming = PROBE_TIMING,
    ) -> None:
        """Prepare; `run` probes.

        Args:
            ping: Sends a ping, whose answer sets the result. False: nothing is connected.
            others: Whether another server is known.
            timing: When to probe.
        """
        self._ping, self._others, self._timing = ping, others, timing
        self.is_silent = False
        """Whether the server is connected but known not to answer: it froze."""
        self.back_since = -math.inf
        """When a server last answered again after a silence or on a new connection, in loop time
        (seconds)."""
        self._is_first = True

    async def run(self) -> None:
        """Probe a server that has just been connected, until it should be left."""
        loop = asyncio.get_running_loop()
        last_answer, lost = loop.time(), 0
        if not self._is_first:
            self.back_since = last_answer
        self._is_first = self.is_silent = False
        while not self._is_to_be_left(lost, loop.time() - last_answer):
            timing = self._timing
            await tick(timing.interval if lost or self._others() else timing.without_others)
            if await self._is_answered():
                if self.is_silent:
                    self.back_since = loop.time()
                last_answer, lost, self.is_silent = loop.time(), 0, False
                continue
            lost += 1
            if not self.is_silent:
                _log.warning("NATS is connected but does not answer")
            self.is_silent = True
        _log.warning("connecting to another NATS server" if self._others() else "connecting again")

    def _is_to_be_left(self, lost: int, silence: float) -> bool:
        return lost >= _LOST and (self._others() or silence > self._timing.only_server)

    async def _is_answered(self) -> bool:
        """Return whether the server answers in time.

        If this process was too busy to look in time, the answer may be there, unread.
        """
        loop, timeout = asyncio.get_running_loop(), self._timing.timeout
        answer: asyncio.Future[bool] = loop.create_future()
        if not self._ping(answer):
            return True  # Whoever closes or makes a connection is at it.
        due = loop.time() + timeout
        await asyncio.wait({answer}, timeout=timeout)
        if not answer.done() and loop.time() > due + timeout / 2:
            await asyncio.wait({answer}, timeout=timeout)
        return answer.done()
