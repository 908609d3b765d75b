"""What callers ask of a task that exists."""

from collections.abc import Container
from dataclasses import dataclass, replace

from headrace.model.events import Json


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
