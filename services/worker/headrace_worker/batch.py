"""Events that make one message of a log."""

from headrace.events import Draft

BATCH = 512
"""Events in one message at most: readers take a message as a whole."""


class Batch:
    """A message in the making."""

    __slots__ = ("checkpoint", "drafts", "size")

    def __init__(self) -> None:
        """Begin empty."""
        self.drafts: list[Draft] = []
        self.size = 0
        self.checkpoint: str | None = None
        """What goes with the events: JSON that the agent finds in its next attempt."""
