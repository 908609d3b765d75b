"""A fleet in memory whose worker is killed at a chosen place: right after a message is stored."""

import asyncio
from collections.abc import Awaitable, Callable

from headrace.jetstream.connection import INBOX
from headrace.testing import TestFleet
from headrace_worker.settings import WorkerSettings

_OF_WORKERS = f"{INBOX}.{WorkerSettings.role}."


class StoreKiller:
    """Kills the worker of a fleet after a number of messages in logs and memory.

    The message is stored, but the worker is not told, and does nothing any more.
    """

    def __init__(self, fleet: TestFleet, wanted: Callable[[str], bool] = lambda _: True) -> None:
        """Count the messages of `fleet` whose subject is `wanted`."""
        self._fleet, self._wanted = fleet, wanted
        self._hold, self._left, self.count = fleet._server.hold_ack, 0, 0
        self._killed = asyncio.Event()
        fleet._server.hold_ack = self._stored

    def _stored(self, subject: str, reply: str, send: Callable[[], None]) -> bool:
        is_counted = reply.startswith(_OF_WORKERS) and (".event." in subject or ".k." in subject)
        if is_counted and self._wanted(subject):
            self.count += 1
            self._left -= 1
            if self._left == 0:
                for transport in self._fleet._workers_transports:
                    transport.cut()
                self._killed.set()
                return True
        return self._hold is not None and self._hold(subject, reply, send)

    async def result[Result](self, work: Awaitable[Result], after: int) -> tuple[Result, bool]:
        """Return the result of `work`, and whether the worker was killed `after` so many messages.

        Another worker takes over. 0: it is not killed.
        """
        self._left, self.count = after, 0
        self._killed.clear()
        working, killed = asyncio.ensure_future(work), asyncio.create_task(self._killed.wait())
        await asyncio.wait([working, killed], return_when=asyncio.FIRST_COMPLETED)
        killed.cancel()
        if is_killed := self._killed.is_set():
            await self._fleet.kill_worker()
        return await working, is_killed
