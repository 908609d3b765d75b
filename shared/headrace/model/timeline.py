"""Fold a log into a task's timeline: what its client and its agent said, in order.

The entries are those of A2A 1.1's draft (ADR-002, Coherent Task History): a client's message or an
agent's status, each with its generation. Artifacts are not among them; their first and last
generations place them between the entries.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from headrace.model.change import ADD, DROP, NEW, IllFormedEvent, event_metadata, read_change
from headrace.model.delegation import CHILD
from headrace.model.entry import Entry
from headrace.model.events import Json
from headrace.model.pieces import Pieces
from headrace.model.task import COMPLETED, INTERRUPTED, TERMINAL

_USER = "ROLE_USER"

TIMELINE = "headrace.timeline"
"""Key of the entries in a Task's metadata."""

START, END = "headrace.startGeneration", "headrace.endGeneration"
"""Keys in an artifact's metadata: when it first appeared, and when it was complete."""


@dataclass(slots=True)
class _TimelineEntry:
    """An entry; an agent's message may come in several pieces."""

    generation: int
    message: Json | None
    """A client's message."""
    status: Json = field(default_factory=dict)
    lasts: bool = True
    """Whether it stays when its attempt is discarded."""
    pieces: Pieces = field(default_factory=Pieces)

    def shown(self, before: int) -> Json:
        if self.message is not None:
            return {"message": self.message, "generation": self.generation}
        status = self.status
        if "message" in status:
            whole = {**status["message"], "parts": self.pieces.merged(before)}
            status = {**status, "message": whole}
        return {"status": status, "generation": self.generation}


@dataclass(slots=True)
class _ArtifactSpan:
    """Generations of one version of an artifact."""

    start: int
    last: int
    is_complete: bool = False

    def shown(self) -> Json:
        return {START: self.start} | ({END: self.last} if self.is_complete else {})


class TimelineFold:
    """Accumulates the entries, and the places of the artifacts among them."""

    def __init__(self, until: int) -> None:
        """Read the events up to generation `until`; later ones are ignored."""
        self._until = until
        self._said: list[_TimelineEntry] = []
        self._places: dict[str, list[_ArtifactSpan]] = {}

    def read(self, entry: Entry) -> None:
        """Read the next entry of the log; an ill-formed event is skipped, as every fold does."""
        for generation, event in enumerate(entry.parsed(), entry.generation):
            if generation <= self._until:
                self._apply(event, generation)

    def shown_in(self, task: Json, most: int | None) -> Json:
        """Return `task` with its timeline and its artifacts' places, in their metadata.

        Args:
            task: The A2A Task, which is not changed.
            most: Number of the latest entries to include at most; None: all.
        """
        said = self._said if most is None else self._said[max(len(self._said) - most, 0) :]
        entries = [one.shown(self._until + 1) for one in said]
        shown = task | {"metadata": {**task.get("metadata", {}), TIMELINE: entries}}
        if artifacts := task.get("artifacts"):
            shown["artifacts"] = [self._placed(one) for one in artifacts]
        return shown

    def _placed(self, artifact: Json) -> Json:
        places = self._places.get(artifact["artifactId"])
        if not places:
            return artifact
        return artifact | {"metadata": {**artifact.get("metadata", {}), **places[-1].shown()}}

    def _apply(self, event: Json, generation: int) -> None:
        try:
            change = read_change(event, generation)
        except IllFormedEvent:
            return
        for item in (*change.history, *change.artifacts):
            if item[1] == DROP:
                self._drop_after(item[2])
        for _, tag, artifact, *_ in change.artifacts:
            if tag in {NEW, ADD}:
                is_last = bool(event.get("artifactUpdate", {}).get("lastChunk"))
                self._place(artifact["artifactId"], generation, is_new=tag == NEW, is_last=is_last)
        if "task" in event and change.opens:
            messages = event["task"].get("history") or ()
            self._said += [_TimelineEntry(generation, message) for message in messages]
        elif change.answer is not None:
            # As in the Task: a bare Message completes it.
            self._say({"state": COMPLETED, "message": change.answer}, generation, lasts=True)
        elif change.status is not None:
            self._say(change.status, generation, lasts=CHILD in event_metadata(event))

    def _say(self, status: Json, generation: int, *, lasts: bool) -> None:
        message: Any = status.get("message")
        if message is not None and message.get("role") == _USER:
            self._said.append(_TimelineEntry(generation, message))
            return
        if status["state"] in TERMINAL or status["state"] in INTERRUPTED:
            self._complete(place for places in self._places.values() for place in places)
        if message is None or not self._is_continued_by(message, status):
            self._said.append(_TimelineEntry(generation, None, status, lasts))
        if message is not None:
            self._said[-1].pieces.extend(generation, message.get("parts") or [])

    def _is_continued_by(self, message: Json, status: Json) -> bool:
        """Return whether a status has the next piece of the latest entry's message."""
        if not self._said or self._said[-1].message is not None:
            return False
        latest = self._said[-1].status
        name = message.get("messageId")
        same = name and latest.get("message", {}).get("messageId") == name
        return bool(same) and latest["state"] == status["state"]

    def _place(self, artifact: str, generation: int, *, is_new: bool, is_last: bool) -> None:
        places = self._places.setdefault(artifact, [])
        if is_new or not places:
            places.append(_ArtifactSpan(generation, generation))
        places[-1].last, places[-1].is_complete = generation, is_last

    @staticmethod
    def _complete(places: Iterable[_ArtifactSpan]) -> None:
        for place in places:
            place.is_complete = True

    def _drop_after(self, generation: int) -> None:
        """Discard the run's output after `generation`, as a new attempt does."""
        self._said = [
            one
            for one in self._said
            if one.message is not None or one.lasts or one.generation <= generation
        ]
        for one in self._said:
            if one.message is None and not one.lasts:
                one.pieces.drop_after(generation)
        for name, places in list(self._places.items()):
            kept = [one for one in places if one.start <= generation]
            self._places[name] = kept
            if kept:
                kept[-1].last = min(kept[-1].last, generation)
