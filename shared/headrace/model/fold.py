"""Fold a log into an A2A Task: a pure, deterministic function of the log's events.

Its changes (`headrace.model.change`) are appended in order to `History` and `Artifacts`.
"""

from dataclasses import dataclass, field
from typing import Self

from headrace.model.change import (
    ADD,
    DROP,
    IN,
    META,
    NEW,
    OF_CHILD,
    OUT,
    TEXTS,
    Change,
    IllFormedEvent,
    Item,
    TaskFields,
    generation_of,
    read_change,
)
from headrace.model.entry import Entry
from headrace.model.events import GENERATION, Json
from headrace.model.pieces import Pieces


@dataclass(slots=True)
class _Version:
    """One version of an artifact; an update without ``append`` starts a new one."""

    generation: int
    frames: list[tuple[int, Json]] = field(default_factory=list)
    """The fields of chunks other than ``parts``, with their generations."""
    pieces: Pieces = field(default_factory=Pieces)

    def add(self, generation: int, chunk: Json) -> None:
        if not self.frames or len(chunk) > len(("artifactId", "parts")):
            frame = {key: value for key, value in chunk.items() if key != "parts"}
            self.frames.append((generation, frame))
        self.pieces.extend(generation, chunk.get("parts") or [])

    def drop_after(self, generation: int) -> None:
        self.pieces.drop_after(generation)
        while self.frames and self.frames[-1][0] > generation:
            self.frames.pop()

    def whole(self) -> Json:
        merged: Json = {}
        for _, frame in self.frames:
            metadata = {**(merged.get("metadata") or {}), **(frame.get("metadata") or {})}
            merged |= frame
            if metadata:
                merged["metadata"] = metadata
        return {**merged, "parts": self.pieces.merged()}


class Artifacts:
    """Accumulates artifact items in order, in time proportional to their size.

    Earlier versions of a replaced artifact are kept: the attempt that replaced it may be discarded.
    """

    def __init__(self) -> None:
        """Start empty."""
        self._versions: dict[str, list[_Version]] = {}
        self._last: _Version | None = None

    def add(self, item: Item) -> None:
        """Add the next item."""
        generation, tag, value = item[0], item[1], item[2]
        if tag == TEXTS:
            if self._last is not None:
                self._last.pieces.continue_text(generation, value, item[3:])
        elif tag == ADD:
            self._add(generation, value)
        elif tag == NEW:
            self._begin(generation, value)
        elif tag == DROP:
            self._drop_after(value)

    def whole(self) -> list[Json]:
        """Return the artifacts in the order of their first chunks."""
        return [versions[-1].whole() for versions in self._versions.values()]

    def _begin(self, generation: int, chunk: Json) -> None:
        version = self._last = _Version(generation)
        self._versions.setdefault(chunk["artifactId"], []).append(version)
        version.add(generation, chunk)

    def _add(self, generation: int, chunk: Json) -> None:
        versions = self._versions.get(chunk["artifactId"])
        if not versions:
            self._begin(generation, chunk)
            return
        self._last = versions[-1]
        self._last.add(generation, chunk)

    def _drop_after(self, generation: int) -> None:
        self._last = None
        for name, versions in list(self._versions.items()):
            while versions and versions[-1].generation > generation:
                versions.pop()
            if versions:
                versions[-1].drop_after(generation)
            else:
                del self._versions[name]


_MESSAGES = frozenset({OUT, OF_CHILD})


@dataclass(slots=True)
class _FoldedMessage:
    """One message; an agent's message may consist of several pieces."""

    generation: int
    frame: Json
    """The first piece, without its parts."""
    is_input: bool
    lasts: bool
    """Whether it stays when its attempt is discarded."""
    pieces: Pieces = field(default_factory=Pieces)

    def whole(self, before: int) -> Json:
        return {**self.frame, "parts": self.pieces.merged(before)}


class History:
    """Accumulates history items in order, in time proportional to their size."""

    def __init__(self) -> None:
        """Start empty."""
        self._messages: list[_FoldedMessage] = []
        self._by_id: dict[str, _FoldedMessage] = {}
        self._last: _FoldedMessage | None = None
        self._metadata: list[tuple[int, Json]] = []

    def add(self, item: Item) -> None:
        """Add the next item."""
        generation, tag, value = item[0], item[1], item[2]
        if tag == TEXTS:
            if self._last is not None:
                self._last.pieces.continue_text(generation, value, item[3:])
        elif tag in _MESSAGES:
            self._add_output(generation, value, lasts=tag == OF_CHILD)
        elif tag == IN:
            self._add_input(generation, value)
        elif tag == META:
            self._metadata.append((generation, value))
        elif tag == DROP:
            self._drop_after(value)

    def metadata(self) -> Json:
        """Return the task's metadata; the last value of a key wins."""
        return {key: value for _, some in self._metadata for key, value in some.items()}

    def messages(self, before: int, most: int | None = None) -> list[Json]:
        """Return the messages before generation `before`, at most the last `most`.

        `before` is the generation of the current status: until the next status, its message is
        part of the status, not of the history.
        """
        past = [message for message in self._messages if message.generation < before]
        if most is not None:
            past = past[max(len(past) - most, 0) :]
        return [message.whole(before) for message in past]

    def _add_output(self, generation: int, content: Json, *, lasts: bool) -> None:
        name = content.get("messageId")
        message = self._by_id.get(name) if name else None
        if message is None:
            message = self._append(generation, content, lasts=lasts)
            if name:
                self._by_id[name] = message
        message.pieces.extend(generation, content.get("parts") or [])
        self._last = message

    def _add_input(self, generation: int, content: Json | None) -> None:
        # Pieces merge only within a run: agents may reuse an id.
        self._by_id.clear()
        self._last = None
        if content is not None:
            message = self._append(generation, content, is_input=True, lasts=True)
            message.pieces.extend(generation, content.get("parts") or [])

    def _append(
        self, generation: int, content: Json, *, lasts: bool, is_input: bool = False
    ) -> _FoldedMessage:
        frame = {key: value for key, value in content.items() if key != "parts"}
        message = _FoldedMessage(generation, frame, is_input, lasts)
        self._messages.append(message)
        return message

    def _drop_after(self, generation: int) -> None:
        """Discard this run's output after `generation`, except inputs and child tasks' messages."""
        kept: list[_FoldedMessage] = []
        while self._messages and not self._messages[-1].is_input:
            message = self._messages.pop()
            if message.lasts:
                kept.append(message)
            elif message.generation <= generation:
                message.pieces.drop_after(generation)
                kept.append(message)
        self._messages.extend(reversed(kept))
        self._by_id = {m.frame["messageId"]: m for m in kept if m.frame.get("messageId")}
        self._last = None
        while self._metadata and self._metadata[-1][0] > generation:
            self._metadata.pop()


class TaskFold:
    """Folds a log into a Task, event by event, in time proportional to each event's size.

    Apply events in log order. The result of `task` shares values with these events: treat it as
    read-only.
    """

    def __init__(self) -> None:
        """Start with an empty log."""
        self.standing = TaskFields()
        self._history = History()
        self._artifacts = Artifacts()

    @classmethod
    def restored(cls, standing: TaskFields, history: list[Item], artifacts: list[Item]) -> Self:
        """Return a fold restored from stored items; apply the event after them next."""
        fold = cls()
        fold.standing = standing
        for item in history:
            fold._history.add(item)
        for item in artifacts:
            fold._artifacts.add(item)
        return fold

    @property
    def generation(self) -> int:
        """Generation of the last event applied; 0: none."""
        return self.standing.generation

    @property
    def state(self) -> str:
        """As `TaskFields.state`."""
        return self.standing.state

    def apply_entry(self, entry: Entry) -> None:
        """Apply the next entry of the log."""
        for offset, event in enumerate(entry.parsed()):
            self._apply(event, entry.generation + offset)

    def apply(self, event: Json) -> None:
        """Apply the next event of the log; its metadata has its generation."""
        self._apply(event, generation_of(event) or self.generation + 1)

    def _apply(self, event: Json, generation: int) -> None:
        try:
            change = read_change(event, generation)
        except IllFormedEvent:
            change = Change(generation)
        if self.standing.generation and change.opens:
            # The subject was purged, and a new log was started on it.
            self.standing = TaskFields()
            self._history, self._artifacts = History(), Artifacts()
        self.standing.apply(change)
        for item in change.history:
            self._history.add(item)
        for item in change.artifacts:
            self._artifacts.add(item)

    def task(self, history_length: int | None = None, *, include_artifacts: bool = True) -> Json:
        """Return the A2A v1.0 Task in ProtoJSON.

        Args:
            history_length: Number of most recent messages to include at most. None: all.
            include_artifacts: Whether to include the artifacts.
        """
        now = self.standing
        task: Json = {"id": now.task, "contextId": now.context, "status": now.shown_status}
        if include_artifacts and (artifacts := self._artifacts.whole()):
            task["artifacts"] = artifacts
        if history := self._history.messages(now.status_generation or 1, history_length):
            task["history"] = history
        task["metadata"] = {**self._history.metadata(), GENERATION: now.generation}
        return task
