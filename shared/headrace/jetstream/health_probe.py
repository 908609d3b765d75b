"""A periodic check whether NATS answers, so that callers need not wait for the result."""

import asyncio
import logging
from contextlib import suppress
from functools import partial

from nats.aio.msg import Msg

from headrace.background import keep_running
from headrace.jetstream.connection import Bus
from headrace.model.errors import BusUnavailable

_EVERY = 1.0
_TIMEOUT = 2.0
"""In seconds. A frozen server is detected after at most `_EVERY` and this together."""

_FROZEN = 2
"""Probes lost in a row after which the bus connects to another server. One alone may only be late:
this process may have been too busy to read it."""

_log = logging.getLogger(__name__)


class HealthProbe:
    """Sends itself messages through the server that a bus is connected to.

    A frozen server stays connected for half a minute. `Bus.answers` reports it sooner, and if
    another server is known, the bus connects to that.
    """

    def __init__(self, bus: Bus, every: float = _EVERY, timeout: float = _TIMEOUT) -> None:
        """Send nothing until `start`, then a message `every` so many seconds.

        One that has not come back after `timeout` seconds is lost.
        """
        self._bus, self._every, self._timeout = bus, every, timeout
        self._came = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    @property
    def beats(self) -> bool:
        """Whether the server delivered the last message and is connected now."""
        return self._bus.answers

    async def start(self) -> None:
        """Start the probe.

        Raises:
            BusUnavailable: The connection is closed.
        """
        inbox = self._bus.connection.new_inbox()
        await self._bus.listen(inbox, self._take)
        # A server to which a connection was just made has answered.
        self._bus.on_disturbance(self._on_disturbance)
        self._task = keep_running(partial(self._run, inbox), "health probe")

    async def stop(self) -> None:
        """Stop the probe. The subscription ends with the connection."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def _take(self, _: Msg) -> None:
        self._came.set()

    def _on_disturbance(self) -> None:
        self._bus.is_silent = False
        self._came.set()

    async def _run(self, inbox: str) -> None:
        missed = 0
        while True:
            beats = await self._beat(inbox)
            if self._bus.answers and not beats:
                _log.warning("NATS is connected but does not answer")
            if self._bus.is_silent and beats:
                self._bus.back_since = asyncio.get_running_loop().time()
            self._bus.is_silent = not beats
            missed = 0 if beats else missed + 1
            if missed >= _FROZEN:
                await self._bus.leave_server()
                missed = 0
            await asyncio.sleep(self._every)

    async def _beat(self, inbox: str) -> bool:
        self._came.clear()
        with suppress(BusUnavailable, TimeoutError):
            async with asyncio.timeout(self._timeout):
                await self._bus.publish(inbox, b"")
                await self._came.wait()
        return self._came.is_set()
