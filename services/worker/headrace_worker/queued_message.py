"""Messages that wait in the log until the agent takes them."""

from dataclasses import dataclass

from headrace.model import events
from headrace.model.events import Json
from headrace.model.task import AUTH_REQUIRED


@dataclass(slots=True, eq=False)
class QueuedMessage:
    """A message that waits in the log."""

    generation: int
    """0 until the message is stored."""
    message: Json
    metadata: Json
    is_answer: bool
    """Whether the message arrived while the agent waited for the user."""
    name: str = ""
    """Input id that it was submitted with, for deduplication."""

    @classmethod
    def read(cls, event: Json, generation: int) -> "QueuedMessage | None":
        """Return the message that `event` queues, or None."""
        metadata = events.status_metadata(event)
        held = metadata.get(events.QUEUED)
        if not isinstance(held, dict) or not isinstance(held.get("message"), dict):
            return None
        is_answer = event["statusUpdate"]["status"]["state"] == AUTH_REQUIRED
        name = metadata.get(events.INPUT_ID) or ""
        return cls(generation, held["message"], held.get("metadata") or {}, is_answer, name)
