"""Who is told how far a range has been applied: lists that wait for its view, and metrics."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress

from nats.aio.msg import Msg

from headrace import metrics
from headrace.jetstream.api import stream_state
from headrace.jetstream.connection import Bus
from headrace.model.errors import BusUnavailable, HeadraceError
from headrace_task_state.store import Range

_log = logging.getLogger(__name__)

_TIMEOUT = 0.1
"""Seconds to wait for an answer: the range may change hands."""


def wanted_by_list(bus: Bus, place: Range) -> str:
    """Return the subject of requests of lists that wait for the view of the range."""
    return bus.among_role(f"wanted.{place.name}")


async def wait_until_applied(bus: Bus, place: Range, sequence: int) -> None:
    """Have the range applied up to a stream sequence soon, and return once it probably is.

    Without an answer it returns, too, so the caller looks at the view.
    """
    with suppress(BusUnavailable):
        await bus.request(wanted_by_list(bus, place), str(sequence).encode(), _TIMEOUT)


class WaitingLists:
    """The lists that wait for one range that this replica applies."""

    def __init__(self, bus: Bus, place: Range, want: Callable[[int], None], position: int) -> None:
        """Call `want` with each stream sequence after `position` that is waited for."""
        self._bus, self._subject = bus, wanted_by_list(bus, place)
        self._want = want
        self.position = position
        """Stream sequence up to which the range is applied; `answer` follows its change."""
        self.waiting: list[tuple[int, str]] = []
        """The sequences that lists wait for, and their reply subjects."""
        self.doubts = False
        """Whether a list has found the store behind what is applied."""

    @asynccontextmanager
    async def served(self) -> AsyncIterator[None]:
        """Receive requests of lists during a block.

        Raises:
            BusUnavailable: the connection is closed.
        """
        subscription = await self._bus.subscribe(self._subject, self._receive)
        try:
            yield
        finally:
            await self._bus.unsubscribe(subscription)

    async def answer(self) -> None:
        """Answer the lists that wait for nothing after `position`."""
        waiting, self.waiting = self.waiting, []
        for sequence, reply in waiting:
            if sequence <= self.position:
                await self._answer(reply)
            else:
                self.waiting.append((sequence, reply))

    async def _receive(self, msg: Msg) -> None:
        if (sequence := int(msg.data)) <= self.position:
            self.doubts = True
            await self._answer(msg.reply)
        else:
            self.waiting.append((sequence, msg.reply))
            self._want(sequence)

    async def _answer(self, reply: str) -> None:
        with suppress(BusUnavailable):
            await self._bus.publish(reply, b"")


LAG_INTERVAL = 5.0
"""Seconds without a batch after which the stream itself is asked. Batches of output alone, which
wait the longest, are 1 s apart."""


class RangeLag:
    """``headrace_lag`` and ``headrace_position`` of one range, read when they are scraped.

    While a batch is not written, because the store hangs or NATS delivers nothing, the lag is read
    from the stream, or it would stay at the last batch's.
    """

    def __init__(self, bus: Bus, place: Range, interval: float = LAG_INTERVAL) -> None:
        """Report on `place`; look for a standstill every `interval` seconds."""
        self._bus, self._stream = bus, bus.streams.events(place.stream)
        self._name, self._interval = place.name, interval
        self.position = self.waiting = 0
        """Stream sequence up to which the range is applied, and the messages that wait behind."""

    def begin(self, position: int, waiting: int) -> None:
        """Report `position` and `waiting`, and what they are set to."""
        self.position, self.waiting = position, waiting
        _scraped[self._name] = self
        metrics.POSITION.labels(self._name).set_function(lambda: self.position)
        metrics.LAG.labels(self._name).set_function(lambda: self.waiting)

    async def watch(self) -> None:
        """Look for a standstill until cancelled."""
        while True:
            before = self.position
            await asyncio.sleep(self._interval)
            if before == self.position:
                await self._measure(before)

    async def _measure(self, position: int) -> None:
        try:
            end = (await stream_state(self._bus, self._stream)).last
        except HeadraceError as error:
            _log.debug("range %s: its lag is unknown: %s", self._name, error)
            return
        if position == self.position:
            self.waiting = max(end - position, 0)

    def remove(self) -> None:
        """Report nothing more: the next holder does, which may be in this process."""
        if _scraped.get(self._name) is not self:
            return
        del _scraped[self._name]
        metrics.POSITION.remove(self._name)
        metrics.LAG.remove(self._name)


_scraped: dict[str, RangeLag] = {}
"""Whose figures are scraped, by range: a follower that ends leaves those of the next one alone."""
