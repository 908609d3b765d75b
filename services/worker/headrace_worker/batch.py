"""Events that make one message of a log."""

from headrace.model.events import Draft
from headrace.model.task import WORKING
from headrace_worker.errors import LegOver
from headrace_worker.receipts import Receipt

BATCH = 512
"""Events in one message at most: readers take a message as a whole."""


class Batch:
    """A message in the making."""

    __slots__ = ("checkpoint", "drafts", "receipts", "size", "state")

    def __init__(self) -> None:
        """Begin empty."""
        self.drafts: list[Draft] = []
        self.receipts: list[Receipt] = []
        """For those of the events that somebody waits for."""
        self.size = 0
        self.state = WORKING
        """The task's state after it, unless it is the leg's last."""
        self.checkpoint: str | None = None
        """What goes with the events: JSON that the agent finds in its next attempt."""

    def stored(self, first: int) -> None:
        """Be told that the events are stored, from generation `first` on."""
        for receipt in self.receipts:
            receipt.settle(first + receipt.index)

    def lost(self) -> None:
        """Be told that the events are not stored, or not for certain."""
        for receipt in self.receipts:
            receipt.fail(LegOver("the leg is over"))

    def drop(self, receipt: Receipt) -> Draft:
        """Take the event of `receipt` out, and return it."""
        self.receipts.remove(receipt)
        for other in self.receipts:
            other.index -= other.index > receipt.index
        return self.drafts.pop(receipt.index)
