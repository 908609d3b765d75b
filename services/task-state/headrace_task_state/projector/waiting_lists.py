"""Lists that wait for the view of a range: how they ask for it, and how they are answered."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress

from nats.aio.msg import Msg

from headrace.jetstream.connection import Bus
from headrace.model.errors import BusUnavailable
from headrace_task_state.store import Range

_TIMEOUT = 0.1
"""Seconds to wait for an answer."""


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
        self._want, self._position = want, position
        self._waiting: list[tuple[int, str]] = []

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

    async def applied(self, position: int) -> None:
        """Answer the lists that wait for nothing after stream sequence `position`."""
        self._position = position
        waiting, self._waiting = self._waiting, []
        for sequence, reply in waiting:
            if sequence <= position:
                await self._answer(reply)
            else:
                self._waiting.append((sequence, reply))

    async def _receive(self, msg: Msg) -> None:
        sequence = int(msg.data)
        if sequence <= self._position:
            await self._answer(msg.reply)
        else:
            self._waiting.append((sequence, msg.reply))
            self._want(sequence)

    async def _answer(self, reply: str) -> None:
        with suppress(BusUnavailable):
            await self._bus.publish(reply, b"")
