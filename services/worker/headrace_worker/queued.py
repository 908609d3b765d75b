"""A message that was accepted while its task was at work, and waits in the log."""

from dataclasses import dataclass

from headrace.model import events
from headrace.model.events import Json
from headrace.model.task import AUTH_REQUIRED


@dataclass(slots=True, eq=False)
class Queued:
    """A message that waits in the log."""

    generation: int
    """0 until it is stored."""
    message: Json
    metadata: Json
    is_answer: bool
    """Whether it came while the agent waited for the user."""
    name: str = ""
    """What it was handed in as, once."""

    @classmethod
    def read(cls, event: Json, generation: int) -> "Queued | None":
        """Return the message that `event` queues, if it queues one."""
        metadata = event.get("statusUpdate", {}).get("metadata", {})
        held = metadata.get(events.QUEUED)
        if not isinstance(held, dict) or not isinstance(held.get("message"), dict):
            return None
        is_answer = event["statusUpdate"]["status"]["state"] == AUTH_REQUIRED
        name = metadata.get(events.INPUT_ID) or ""
        return cls(generation, held["message"], held.get("metadata") or {}, is_answer, name)
