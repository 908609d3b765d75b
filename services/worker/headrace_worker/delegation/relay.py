"""A child's events as events of its parent's log: what it said, never what it is.

All of it comes as statuses at work, so that the parent's own artifacts are its result and nothing
else is. A child's state and its messages as a whole stay its own.
"""

from headrace.model import events, parts
from headrace.model.delegation import CHILD
from headrace.model.events import (
    ATTEMPT,
    DISCARDED_AFTER,
    HANDED_BACK,
    QUEUED,
    RETRACTED,
    TAKEN,
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
from headrace.model.task import COMPLETED, SUBMITTED, WORKING

_ITS_OWN = frozenset({STATE_SNAPSHOT, STATE_DELTA, MESSAGES_SNAPSHOT})


class Relay:
    """Renders one child's events for its parent's log."""

    def __init__(self, parent: tuple[str, str], child: str, *, speech: bool) -> None:
        """Relay the task `child` to `parent` (task and context); without `speech`, its end only."""
        self._parent, self._child, self._speech = parent, child, speech
        self._attempt = 1

    def asked(self, agent: str, name: str) -> Draft:
        """Return the event that says who is asked."""
        return self._marked({"generation": 0, "agent": agent, "name": name})

    def given_up(self, generation: int) -> Draft:
        """Return the event that says that nobody waits for the child any more."""
        return self._marked({"generation": generation, "givenUp": True})

    def draft(self, event: Json, generation: int) -> Draft | None:
        """Return the child's event for the parent's log; None: it says nothing there.

        To be called for each event in order, also for one that has been relayed before.
        """
        if (update := event.get("artifactUpdate")) is not None:
            return self._artifact(update, generation)
        if (update := event.get("statusUpdate")) is not None:
            return self._status(update, generation)
        if (message := event.get("message")) is not None:
            return self._said(message, {"generation": generation, "state": COMPLETED})
        return None

    def _artifact(self, update: Json, generation: int) -> Draft | None:
        artifact = update.get("artifact", {})
        if not self._speech or (update.get("metadata") or {}).get(RETRACTED):
            return None
        message = {"messageId": artifact.get("artifactId", ""), "parts": artifact.get("parts", [])}
        return self._said(message, {"generation": generation}) if message["parts"] else None

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
        if not self._speech and state == WORKING:
            return None
        if message is not None:
            return self._said(message, marker)
        return self._marked(marker) if len(marker) > 1 else None

    def _said(self, message: Json, marker: Json) -> Draft:
        is_nested = "child" in marker
        shown = [self._part(part, is_nested=is_nested) for part in message.get("parts", [])]
        own = [part for part in shown if parts.event_type(part) not in _ITS_OWN]
        name = self._renamed(message.get("messageId", ""), is_nested=is_nested)
        said = {"messageId": name, "role": "ROLE_AGENT", "parts": own} if own else None
        return self._marked(marker, said)

    def _part(self, part: Json, *, is_nested: bool) -> Json:
        metadata = {SUBAGENT_RUN_ID: self._child, **(part.get("metadata") or {})}
        if BLOCK_ID in metadata:
            metadata[BLOCK_ID] = self._renamed(metadata[BLOCK_ID], is_nested=is_nested)
        return {**part, "metadata": metadata}

    def _renamed(self, name: str, *, is_nested: bool) -> str:
        """Tell what a later attempt of the child says from what it said before under that name."""
        if is_nested or self._attempt == 1 or not name:
            return name
        return f"{name}~{self._attempt}"

    def _marked(self, marker: Json, message: Json | None = None) -> Draft:
        metadata = {CHILD: {"task": self._child, **marker}}
        return events.status_update(*self._parent, WORKING, message, metadata)
