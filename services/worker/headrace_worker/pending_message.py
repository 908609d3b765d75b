"""Messages that are not stored yet, and receipts for their events."""

import asyncio

from headrace.model.events import Draft
from headrace.model.task import WORKING
from headrace.sdk.errors import RunOver
from headrace_worker.queued_message import QueuedMessage


class Receipt:
    """The outcome of one event's append."""

    __slots__ = ("_failure", "_waiting", "generation", "index", "is_conditional", "queued")

    def __init__(
        self, queued: QueuedMessage | None = None, *, is_conditional: bool = False
    ) -> None:
        """Create the receipt of an event that is not stored yet.

        Args:
            queued: The message that the event queues.
            is_conditional: Whether the append fails if another event comes before this one.
        """
        self.queued, self.is_conditional = queued, is_conditional
        self.index = 0
        """Index of the event in its message."""
        self.generation = 0
        """0 until the event is stored."""
        self._failure: Exception | None = None
        self._waiting: list[asyncio.Future[int]] = []

    async def stored(self) -> int:
        """Wait until the event is stored and return its generation.

        Raises:
            RunOver: the event will not be stored, or its fate is unknown.
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
        """Record that the event is stored as `generation`."""
        self.generation = generation
        if self.queued is not None:
            self.queued.generation = generation
        waiting, self._waiting = self._waiting, []
        for each in waiting:
            if not each.done():
                each.set_result(generation)

    def fail(self, failure: Exception) -> None:
        """Record why the event is not stored."""
        self._failure = failure
        waiting, self._waiting = self._waiting, []
        for each in waiting:
            if not each.done():
                each.set_exception(failure)
                each.exception()  # Retrieved, or asyncio would warn about it.


class PendingMessage:
    """A message that is being assembled."""

    __slots__ = ("checkpoint", "drafts", "receipts", "size", "state")

    def __init__(self) -> None:
        """Start empty."""
        self.drafts: list[Draft] = []
        self.receipts: list[Receipt] = []
        """Receipts of the events that have one."""
        self.size = 0
        self.state = WORKING
        """The task's state after the message, unless it is the run's last."""
        self.checkpoint: str | None = None
        """Checkpoint stored with the events: JSON for the agent's next attempt."""

    def stored(self, first: int) -> None:
        """Record that the events are stored, from generation `first` on."""
        for receipt in self.receipts:
            receipt.settle(first + receipt.index)

    def lost(self) -> None:
        """Record that the events are not stored, or not for certain."""
        for receipt in self.receipts:
            receipt.fail(RunOver("the run is over"))

    def drop(self, receipt: Receipt) -> Draft:
        """Remove the event of `receipt` and return it."""
        self.receipts.remove(receipt)
        for other in self.receipts:
            other.index -= other.index > receipt.index
        return self.drafts.pop(receipt.index)
