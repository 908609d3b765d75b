"""A message that was accepted while its task was at work, and waits in the log."""

from dataclasses import dataclass

from headrace import events
from headrace.events import Json
from headrace.task import AUTH_REQUIRED


@dataclass(frozen=True, slots=True)
class Queued:
    """A message that waits in the log."""

    generation: int
    message: Json
    metadata: Json
    is_answer: bool
    """Whether it came while the agent waited for the user."""

    @classmethod
    def read(cls, event: Json, generation: int) -> "Queued | None":
        """Return the message that `event` queues, if it queues one."""
        held = event.get("statusUpdate", {}).get("metadata", {}).get(events.QUEUED)
        if held is None:
            return None
        is_answer = event["statusUpdate"]["status"]["state"] == AUTH_REQUIRED
        return cls(generation, held["message"], held.get("metadata") or {}, is_answer)
