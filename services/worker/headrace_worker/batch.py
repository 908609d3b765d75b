"""Events that make one message of a log."""

from headrace.events import Draft
from headrace.task import WORKING

BATCH = 512
"""Events in one message at most: readers take a message as a whole."""


class Batch:
    """A message in the making."""

    __slots__ = ("checkpoint", "drafts", "size", "state")

    def __init__(self) -> None:
        """Begin empty."""
        self.drafts: list[Draft] = []
        self.size = 0
        self.state = WORKING
        """The task's state after it, unless it is the leg's last."""
        self.checkpoint: str | None = None
        """What goes with the events: JSON that the agent finds in its next attempt."""
