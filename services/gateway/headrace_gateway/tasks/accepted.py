"""An input as a caller asks for it, and where it was taken in."""

import secrets
from collections.abc import Container
from dataclasses import dataclass, replace

from headrace.model.events import Json
from headrace.model.messages import TaskFound
from headrace.model.task import TaskKey
from headrace_gateway.feeds import Feed


@dataclass(slots=True)
class Accepted:
    """An input that is in the log."""

    key: TaskKey
    context: str
    log: str
    generation: int
    """The input's generation: the run's name."""
    feed: Feed
    """Open: whoever holds this must release it (`Feeds.release`)."""
    snapshot: TaskFound | None = None
    """For a follow-up: the Task just before the input."""
    again: bool = False
    """Whether the input had been accepted before: this is what came of it."""


def new_writer() -> str:
    """Return a writer id for one entry."""
    return f"gateway-{secrets.token_hex(6)}"


@dataclass(frozen=True, slots=True)
class FollowUp:
    """A message to a task that exists."""

    task: str
    message: Json
    """An A2A v1.0 Message."""
    context: str | None = None
    """The context that the message says it belongs to."""
    metadata: Json | None = None
    if_generation: int | None = None
    """Generation that the task must be at; None: any."""

    def without(self, keys: Container[str]) -> "FollowUp":
        """Return the same message without these keys of its metadata."""
        metadata = self.metadata or {}
        return replace(self, metadata={k: v for k, v in metadata.items() if k not in keys})
