"""The children of a run, as recorded in its log."""

from dataclasses import dataclass, field

from headrace.model.delegation import CHILD
from headrace.model.events import HANDED_BACK, TRYING_AGAIN, Json
from headrace.model.task import COMPLETED, TERMINAL


@dataclass(slots=True)
class KnownChild:
    """A child, as recorded in the parent's log."""

    agent: str
    name: str
    relayed: int = 0
    """Generation, in the child's log, of the last event relayed."""
    state: str | None = None
    """State in which its run ended; None while it is running, as far as known."""

    @property
    def is_over(self) -> bool:
        """Whether its task has ended."""
        return self.state in TERMINAL


@dataclass(slots=True)
class KnownChildren:
    """All children of a run so far."""

    known: dict[str, KnownChild] = field(default_factory=dict)
    """By task id."""
    spent: set[str] = field(default_factory=set)
    """Task ids of children that are not used again: a new question of the same name gets a new
    child. Their parent gave them up, or they failed and the parent tries again."""

    def note(self, event: Json) -> None:
        """Add the information from one event of the parent's log."""
        metadata = event.get("statusUpdate", {}).get("metadata") or {}
        if isinstance(marker := metadata.get(CHILD), dict):
            self._note_child(marker)
        if metadata.get(HANDED_BACK) == TRYING_AGAIN:
            self.spent |= {
                task for task, child in self.known.items() if child.is_over and not _is_done(child)
            }

    def _note_child(self, marker: Json) -> None:
        task, generation = str(marker.get("task")), int(marker.get("generation", 0))
        if generation == 0 and "agent" in marker:
            known = KnownChild(str(marker["agent"]), str(marker.get("name", "")))
            child = self.known.setdefault(task, known)
            child.state = None
        if (known_as := self.known.get(task)) is None:
            return
        known_as.relayed = max(known_as.relayed, generation)
        known_as.state = marker.get("state", known_as.state)
        if marker.get("givenUp"):
            self.spent.add(task)


def _is_done(child: KnownChild) -> bool:
    return child.state == COMPLETED
