"""Messages that wait in a run's log until the agent takes them, or the next run answers them."""

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


_CONCERN = tuple(
    key.encode() for key in (events.QUEUED, events.TAKEN, events.WAITING, events.DISCARDED_AFTER)
)


def concerns_queue(line: bytes) -> bool:
    """Return whether the event may change which messages wait; most are pieces of text."""
    return any(key in line for key in _CONCERN)


class UnansweredMessages:
    """Finds which messages wait, by their generations, from a run's events in their order."""

    def __init__(self) -> None:
        """Start at a run's input."""
        self._queued = list[int]()
        self._taken = dict[int, int]()
        """When an attempt took a message, by the message's generation."""
        self._names = set[str]()

    @property
    def generations(self) -> tuple[int, ...]:
        """The messages that no attempt has answered, in the order of the log."""
        return tuple(each for each in self._queued if each not in self._taken)

    def begin_run(self, metadata: Json) -> None:
        """Start over at the next run's input, which has this `metadata`."""
        left = metadata.get(events.WAITING)
        self._queued = [each for each in left if type(each) is int] if type(left) is list else []
        self._taken.clear()

    def note(self, metadata: Json, generation: int) -> None:
        """Note the metadata of an event of the run."""
        if events.QUEUED in metadata:
            self._add(metadata.get(events.INPUT_ID), generation)
        elif type(taken := metadata.get(events.TAKEN)) is int:
            self._taken[taken] = generation
        elif type(kept := metadata.get(events.DISCARDED_AFTER)) is int:
            self._taken = {each: when for each, when in self._taken.items() if when <= kept}

    def _add(self, name: object, generation: int) -> None:
        # A message may be queued twice under one name: it is the same message.
        if type(name) is str and name:
            if name in self._names:
                return
            self._names.add(name)
        self._queued.append(generation)
