"""Whether NATS answers: asked over and over, so that nobody who wants to know has to wait."""

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
"""Seconds; of a server that froze it is known after both, at most."""

_log = logging.getLogger(__name__)


class HealthProbe:
    """Sends itself messages by the server that a bus is connected to.

    A server that froze stays connected for half a minute; `Bus.answers` tells others sooner.
    """

    def __init__(self, bus: Bus) -> None:
        """Send nothing until `start`."""
        self._bus = bus
        self._came = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    @property
    def beats(self) -> bool:
        """Whether the server carried the last message, and is connected now."""
        return self._bus.answers

    async def start(self) -> None:
        """Begin.

        Raises:
            BusUnavailable: the connection is closed.
        """
        inbox = self._bus.connection.new_inbox()
        await self._bus.listen(inbox, self._take)
        # A server that has just been connected to has answered.
        self._bus.on_disturbance(self._hear)
        self._task = keep_running(partial(self._run, inbox), "health probe")

    async def stop(self) -> None:
        """Send no more. The subscription ends with the connection."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def _take(self, _: Msg) -> None:
        self._came.set()

    def _hear(self) -> None:
        self._bus.is_silent = False
        self._came.set()

    async def _run(self, inbox: str) -> None:
        while True:
            beats = await self._beat(inbox)
            if self._bus.answers and not beats:
                _log.warning("NATS is connected but does not answer")
            if self._bus.is_silent and beats:
                self._bus.back_since = asyncio.get_running_loop().time()
            self._bus.is_silent = not beats
            await asyncio.sleep(_EVERY)

    async def _beat(self, inbox: str) -> bool:
        self._came.clear()
        with suppress(BusUnavailable, TimeoutError):
            async with asyncio.timeout(_TIMEOUT):
                await self._bus.publish(inbox, b"")
                await self._came.wait()
        return self._came.is_set()
