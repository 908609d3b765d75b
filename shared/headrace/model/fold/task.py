"""A task as its log tells it."""

from dataclasses import dataclass, field
from typing import Self

from headrace.model.entry import ANSWERED, Entry
from headrace.model.events import GENERATION, Json
from headrace.model.fold.artifacts import Artifacts
from headrace.model.fold.change import Change, IllFormedEvent, Item, generation_of, read_change
from headrace.model.fold.history import History
from headrace.model.task import COMPLETED


@dataclass(slots=True)
class Standing:
    """What of a task each event overwrites."""

    task: str = ""
    context: str = ""
    generation: int = 0
    """Of the last event folded in; 0: none."""
    status: Json = field(default_factory=dict)
    status_generation: int = 0
    """Of the event that set the status."""
    answered: bool = False
    """Whether a bare Message has ended the log."""

    @property
    def state(self) -> str:
        """The task's state, or ANSWERED; empty before the first status."""
        return ANSWERED if self.answered else self.status.get("state", "")

    def take(self, change: Change) -> None:
        """Overwrite what `change` says anew."""
        self.generation = change.generation
        self.task = self.task or change.task
        self.context = self.context or change.context
        if change.status is not None:
            self.status, self.status_generation = change.status, change.generation
        if change.answer is not None:
            stated = {"state": COMPLETED, "message": change.answer}
            kept = {key: self.status[key] for key in ("timestamp",) if key in self.status}
            self.status, self.status_generation = stated | kept, change.generation
            self.answered = True


class TaskFold:
    """Folds a log into a Task, event by event; each costs O(1), amortised over what it brings.

    Events go in by their order in the log. What `task` returns shares its values with the events
    that went in: read it, do not change it.
    """

    def __init__(self) -> None:
        """Begin with an empty log."""
        self.standing = Standing()
        self.trimmed = False
        """Whether the log's head is missing, so that the task is a torso."""
        self._history = History()
        self._artifacts = Artifacts()

    @classmethod
    def restored(cls, standing: Standing, history: list[Item], artifacts: list[Item]) -> Self:
        """Return the fold that has taken these items; it goes on with the event after them."""
        fold = cls()
        fold.standing = standing
        for item in history:
            fold._history.take(item)
        for item in artifacts:
            fold._artifacts.take(item)
        return fold

    @property
    def generation(self) -> int:
        """Generation of the last event folded in; 0: none."""
        return self.standing.generation

    @property
    def state(self) -> str:
        """The task's state, or ANSWERED; empty before the first status."""
        return self.standing.state

    def apply_entry(self, entry: Entry) -> None:
        """Fold in the next entry of the log."""
        for offset, event in enumerate(entry.parsed()):
            self._apply(event, entry.generation + offset)

    def apply(self, event: Json) -> None:
        """Fold in the next event of the log; its generation is the one in its metadata."""
        self._apply(event, generation_of(event) or self.generation + 1)

    def _apply(self, event: Json, generation: int) -> None:
        try:
            change = read_change(event, generation)
        except IllFormedEvent:
            change = Change(generation)
        if self.generation == 0:
            self.trimmed = generation != 1
        elif change.opens:
            # Somebody emptied the subject and began another log there.
            self.standing, self.trimmed = Standing(), False
            self._history, self._artifacts = History(), Artifacts()
        self.standing.take(change)
        for item in change.history:
            self._history.take(item)
        for item in change.artifacts:
            self._artifacts.take(item)

    def task(self, history_length: int | None = None, *, include_artifacts: bool = True) -> Json:
        """Return the A2A v1.0 Task in ProtoJSON.

        `history_length`: None: the whole history; 0: none; n: at most the n most recent messages.
        """
        now = self.standing
        task: Json = {"id": now.task, "contextId": now.context, "status": now.status}
        if include_artifacts and (artifacts := self._artifacts.whole()):
            task["artifacts"] = artifacts
        if history := self._history.messages(now.status_generation or 1, history_length):
            task["history"] = history
        task["metadata"] = {**self._history.metadata(), GENERATION: now.generation}
        return task
