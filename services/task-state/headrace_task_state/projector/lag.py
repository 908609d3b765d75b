"""How far a range is behind its stream, also while nothing is applied."""

import asyncio
import logging

from headrace import metrics
from headrace.jetstream.api import stream_state
from headrace.jetstream.connection import Bus
from headrace.model.errors import HeadraceError
from headrace_task_state.store import Range

LAG_INTERVAL = 5.0
"""Seconds without a batch after which the stream itself is asked. Batches of output alone, which
wait the longest, are 1 s apart."""

_log = logging.getLogger(__name__)


class RangeLag:
    """``headrace_lag`` and ``headrace_position`` of one range.

    Each batch reports what waits behind it. While a batch is not written, because the store hangs
    or NATS delivers nothing, the figure is read from the stream, or it would stay at the last one.
    """

    def __init__(self, bus: Bus, place: Range, interval: float = LAG_INTERVAL) -> None:
        """Report on `place`; look for a standstill every `interval` seconds."""
        self._bus, self._stream = bus, bus.streams.events(place.stream)
        self._name, self._interval = place.name, interval
        self._position: int | None = None
        """Stream sequence up to which the range is applied; None until it is known."""

    def applied(self, position: int) -> None:
        """Report that everything up to stream sequence `position` is applied."""
        self._position = position
        metrics.POSITION.labels(self._name).set(position)

    def waiting(self, messages: int) -> None:
        """Report how many messages wait behind a batch."""
        metrics.LAG.labels(self._name).set(messages)

    async def watch(self) -> None:
        """Look for a standstill until cancelled."""
        while True:
            before = self._position
            await asyncio.sleep(self._interval)
            if before is not None and before == self._position:
                await self._measure(before)

    async def _measure(self, position: int) -> None:
        try:
            end = (await stream_state(self._bus, self._stream)).last
        except HeadraceError as error:
            _log.debug("range %s: its lag is unknown: %s", self._name, error)
            return
        if position == self._position:
            self.waiting(max(end - position, 0))

    def remove(self) -> None:
        """Report nothing more: the next holder does."""
        self._position = None
        metrics.POSITION.remove(self._name)
        metrics.LAG.remove(self._name)
