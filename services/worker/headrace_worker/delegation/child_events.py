"""The events of children in their parent's log: written by a relay, and read by later attempts.

Relayed events are WORKING statuses, so the parent's artifacts contain only its own results. They
contain the child's output, but not its state or its messages as a whole.
"""

from dataclasses import dataclass, field

from headrace.model import events, parts
from headrace.model.delegation import CHILD
from headrace.model.events import (
    ATTEMPT,
    DISCARDED_AFTER,
    HANDED_BACK,
    QUEUED,
    RETRACTED,
    TAKEN,
    TRYING_AGAIN,
    Draft,
    Json,
)
from headrace.model.parts import (
    BLOCK_ID,
    MESSAGES_SNAPSHOT,
    STATE_DELTA,
    STATE_SNAPSHOT,
    SUBAGENT_RUN_ID,
)
from headrace.model.task import COMPLETED, SUBMITTED, TERMINAL, WORKING

_ITS_OWN = frozenset({STATE_SNAPSHOT, STATE_DELTA, MESSAGES_SNAPSHOT})


class Relay:
    """Renderer of one child's events for its parent's log."""

    def __init__(self, parent: tuple[str, str], child: str, *, all_events: bool) -> None:
        """Relay the task `child` to `parent` (task and context): all events, or only its end."""
        self._parent, self._child, self._all_events = parent, child, all_events
        self._attempt = 1

    def delegated(self, agent: str, name: str) -> Draft:
        """Return the event that records which agent was asked."""
        return self._marked({"generation": 0, "agent": agent, "name": name})

    def given_up(self, generation: int) -> Draft:
        """Return the event that records that the parent no longer waits for the child."""
        return self._marked({"generation": generation, "givenUp": True})

    def draft(self, event: Json, generation: int) -> Draft | None:
        """Return the child's event for the parent's log, or None if nothing is relayed.

        Must be called for each event in order, including events that were relayed before.
        """
        if (update := event.get("artifactUpdate")) is not None:
            return self._artifact(update, generation)
        if (update := event.get("statusUpdate")) is not None:
            return self._status(update, generation)
        if (message := event.get("message")) is not None:
            return self._message(message, {"generation": generation, "state": COMPLETED})
        return None

    def _artifact(self, update: Json, generation: int) -> Draft | None:
        artifact = update.get("artifact", {})
        if not self._all_events or (update.get("metadata") or {}).get(RETRACTED):
            return None
        message = {"messageId": artifact.get("artifactId", ""), "parts": artifact.get("parts", [])}
        return self._message(message, {"generation": generation}) if message["parts"] else None

    def _status(self, update: Json, generation: int) -> Draft | None:
        metadata, state = update.get("metadata") or {}, update["status"]["state"]
        message = update["status"].get("message")
        marker: Json = {"generation": generation}
        if (attempt := metadata.get(ATTEMPT, 1)) > 1:
            self._attempt = attempt
            discarded = metadata.get(DISCARDED_AFTER, generation)
            return self._marked({**marker, "attempt": attempt, "discardedAfter": discarded})
        if state == SUBMITTED or {QUEUED, TAKEN, HANDED_BACK} & metadata.keys():
            return None
        if state != WORKING:
            marker["state"] = state
        if (nested := metadata.get(CHILD)) is not None:
            marker["child"] = nested
        if not self._all_events and state == WORKING:
            return None
        if message is not None:
            return self._message(message, marker)
        return self._marked(marker) if len(marker) > 1 else None

    def _message(self, message: Json, marker: Json) -> Draft:
        is_nested = "child" in marker
        shown = [self._part(part, is_nested=is_nested) for part in message.get("parts", [])]
        own = [part for part in shown if parts.event_type(part) not in _ITS_OWN]
        name = self._renamed(message.get("messageId", ""), is_nested=is_nested)
        relayed = {"messageId": name, "role": "ROLE_AGENT", "parts": own} if own else None
        return self._marked(marker, relayed)

    def _part(self, part: Json, *, is_nested: bool) -> Json:
        metadata = {SUBAGENT_RUN_ID: self._child, **(part.get("metadata") or {})}
        if BLOCK_ID in metadata:
            metadata[BLOCK_ID] = self._renamed(metadata[BLOCK_ID], is_nested=is_nested)
        return {**part, "metadata": metadata}

    def _renamed(self, name: str, *, is_nested: bool) -> str:
        """Return a name that distinguishes this attempt's output from that of earlier attempts."""
        if is_nested or self._attempt == 1 or not name:
            return name
        return f"{name}~{self._attempt}"

    def _marked(self, marker: Json, message: Json | None = None) -> Draft:
        metadata = {CHILD: {"task": self._child, **marker}}
        return events.status_update(*self._parent, WORKING, message, metadata)


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
    spent: dict[str, None] = field(default_factory=dict)
    """Task ids of children that are not used again: a new question of the same name gets a new
    child. Their parent gave them up, or they failed and the parent tries again. An empty set would
    take 150 bytes more."""

    def note(self, event: Json) -> None:
        """Add the information from one event of the parent's log."""
        metadata = events.status_metadata(event)
        if isinstance(marker := metadata.get(CHILD), dict):
            self._note_child(marker)
        if metadata.get(HANDED_BACK) == TRYING_AGAIN:
            self.spent |= {
                task: None
                for task, child in self.known.items()
                if child.is_over and not _is_done(child)
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
            self.spent[task] = None


def _is_done(child: KnownChild) -> bool:
    return child.state == COMPLETED
