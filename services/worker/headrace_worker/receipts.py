"""Waiting until an event that was offered is stored.

Its generation is known only then: messages that gateways queue may come before it.
"""

import asyncio

from headrace_worker.queued import Queued


class Receipt:
    """For one event: where in the log it stands, once it does."""

    __slots__ = ("_failure", "_waiting", "generation", "index", "is_conditional", "queued")

    def __init__(self, queued: Queued | None = None, *, is_conditional: bool = False) -> None:
        """Begin before the event is stored.

        `queued` is the message that it queues; `is_conditional` says that nothing may come between
        the log's end of now and the event.
        """
        self.queued, self.is_conditional = queued, is_conditional
        self.index = 0
        """Of the event in its message."""
        self.generation = 0
        """0: it is not stored."""
        self._failure: Exception | None = None
        self._waiting: list[asyncio.Future[int]] = []

    async def stored(self) -> int:
        """Return the event's generation when it is stored.

        Raises:
            LegOver: it will never be, or nobody knows.
            Overtaken: another message came first.
        """
        if self._failure is not None:
            raise self._failure
        if not self.generation:
            waiting: asyncio.Future[int] = asyncio.get_running_loop().create_future()
            self._waiting.append(waiting)
            await waiting
        return self.generation

    def settle(self, generation: int) -> None:
        """Say that the event is stored as `generation`."""
        self.generation = generation
        if self.queued is not None:
            self.queued.generation = generation
        waiting, self._waiting = self._waiting, []
        for each in waiting:
            if not each.done():
                each.set_result(generation)

    def fail(self, failure: Exception) -> None:
        """Say why the event is not stored."""
        self._failure = failure
        waiting, self._waiting = self._waiting, []
        for each in waiting:
            if not each.done():
                each.set_exception(failure)
                each.exception()  # asked for, so that nobody waiting is no complaint
