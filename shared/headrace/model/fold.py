"""Fold a log into an A2A Task: a pure, deterministic function of the log's events.

`read_change` turns an event into a `Change`. Its items are appended in order to `History` and
`Artifacts`. Items are never modified, so they can be stored anywhere (a Redis list, for example)
and replayed to give the same task.

An item is a JSON array: its generation, a tag, and the values of that tag.

=============================  ==================================================================
history item                   meaning
=============================  ==================================================================
``[g, "in", message|null]``    an input begins a run; no attempt discards its message
``[g, "out", message]``        a message of the agent, or a piece of one
``[g, "kin", message]``        as "out", but of a child task: no attempt discards it
``[g, "meta", {…}]``           metadata of the task
``[g, "drop", d]``             a new attempt discards the run's output after generation d
``[g, "t", "…", …]``           texts of generations g, g+1, …, appended to the last text part of
                               the last "out" or "kin"
=============================  ==================================================================

Artifact items: ``"new"`` and ``"add"`` with an artifact, ``"drop"`` and ``"t"`` as above.

The content of generation 1 gets generation 0. The history excludes the message of the current
status, but always contains the user's first message.
"""

from dataclasses import dataclass, field
from typing import Any, Self

from headrace.model.delegation import CHILD, Lineage
from headrace.model.entry import ANSWERED, Entry
from headrace.model.errors import HeadraceError
from headrace.model.events import DISCARDED_AFTER, GENERATION, QUEUED, RETRACTED, Json
from headrace.model.task import COMPLETED, STATES, SUBMITTED

_TEXT_AND_METADATA = 2


def same_but_text(part: Json, other: Json) -> bool:
    """Return whether two text parts differ only in their text, so that they can be merged."""
    if len(part) != len(other):
        return False
    if len(part) == _TEXT_AND_METADATA and "metadata" in part:
        return "metadata" in other and bool(part["metadata"] == other["metadata"])
    return all(key in other and (key == "text" or other[key] == part[key]) for key in part)


class Pieces:
    """Parts in order, each with its generation; they are merged when they are read."""

    __slots__ = ("_pieces",)

    def __init__(self) -> None:
        """Start empty."""
        self._pieces: list[tuple[int, Json | str]] = []

    def extend(self, generation: int, parts: list[Json]) -> None:
        """Append the parts of a piece."""
        for part in parts:
            self._pieces.append((generation, part))

    def go_on(self, generation: int, texts: list[str]) -> None:
        """Append texts of consecutive generations to the last text part."""
        for offset, text in enumerate(texts):
            self._pieces.append((generation + offset, text))

    def drop_after(self, generation: int) -> None:
        """Discard the parts after `generation`."""
        while self._pieces and self._pieces[-1][0] > generation:
            self._pieces.pop()

    def merged(self, before: int | None = None) -> list[Json]:
        """Return the parts before generation `before`; adjacent texts that match are merged."""
        run = _TextRun()
        for generation, piece in self._pieces:
            if before is not None and generation >= before:
                break
            run.take(piece)
        return run.finish()


class _TextRun:
    """Merges adjacent text parts."""

    def __init__(self) -> None:
        self._parts: list[Json] = []
        self._first: Json | None = None
        self._texts: list[str] = []

    def take(self, piece: Json | str) -> None:
        if isinstance(piece, str):
            self._first = {"text": ""} if self._first is None else self._first
            self._texts.append(piece)
            return
        text = piece.get("text")
        if text is not None and self._first is not None and same_but_text(self._first, piece):
            self._texts.append(text)
            return
        self._close()
        if text is None:
            self._parts.append(piece)
        else:
            self._first, self._texts = piece, [text]

    def _close(self) -> None:
        if self._first is not None:
            self._parts.append({**self._first, "text": "".join(self._texts)})
            self._first, self._texts = None, []

    def finish(self) -> list[Json]:
        self._close()
        return self._parts


type Item = list[Any]

IN, OUT, KIN, META, DROP = "in", "out", "kin", "meta", "drop"

TEXTS, NEW, ADD = "t", "new", "add"

OWN = "headrace."
"""Metadata keys with this prefix describe one event, not the task."""


class IllFormedEvent(HeadraceError):
    """A line of the log is JSON but no `StreamResponse`; every fold skips it."""

    code = "ill_formed_event"


@dataclass(slots=True)
class Change:
    """What one event changes."""

    generation: int
    history: list[Item] = field(default_factory=list)
    artifacts: list[Item] = field(default_factory=list)
    status: Json | None = None
    """The status that replaces the previous one."""
    answer: Json | None = None
    """The bare Message that ends the log."""
    task: str = ""
    context: str = ""
    is_input: bool = False
    """Whether a run begins here."""
    asked_by: Lineage | None = None
    """The task that delegated this input; None: a client sent it."""
    own: Json = field(default_factory=dict)
    """Of an input: its metadata with Headrace's prefix, the options of its run."""
    opens: bool = False
    """Whether this is a ``task`` event, which starts a new log."""


def generation_of(event: Json) -> int | None:
    """Return the generation in the event's metadata; None: there is none."""
    for body in event.values():
        metadata = body.get("metadata") if type(body) is dict else None
        generation = metadata.get(GENERATION) if type(metadata) is dict else None
        return generation if type(generation) is int else None
    return None


def read_change(event: Json, generation: int) -> Change:
    """Return what `event`, the `generation`-th of its log, changes.

    Raises:
        IllFormedEvent: the event is not an A2A v1.0 ``StreamResponse``.
    """
    if "artifactUpdate" in event:
        return _artifact_update(event["artifactUpdate"], generation)
    try:
        if "statusUpdate" in event:
            return _status_update(event["statusUpdate"], generation)
        if "task" in event:
            return _task(event["task"], generation)
        if "message" in event:
            return _answer(event["message"], generation)
    except (KeyError, TypeError, AttributeError) as error:
        raise _ill_formed(generation, error) from None
    raise IllFormedEvent(f"event {generation} is not a task, message or update")


def read_artifact(update: Json, generation: int) -> Item | None:
    """Return the item of an ``artifactUpdate``; None: it changes nothing.

    Most events are artifact updates, and readers that store items need only the item, not the
    whole `Change`.

    Raises:
        IllFormedEvent: the update is not valid in A2A v1.0.
    """
    try:
        artifact = update["artifact"]
        _check_artifact(artifact)
        _name(update, "taskId")
        _name(update, "contextId")
        # A retraction is for clients only: the fold has already dropped the attempt's artifact.
        if (update.get("metadata") or {}).get(RETRACTED):
            return None
        return [generation, ADD if update.get("append") else NEW, artifact]
    except (KeyError, TypeError, AttributeError) as error:
        raise _ill_formed(generation, error) from None


def _artifact_update(update: Json, generation: int) -> Change:
    item = read_artifact(update, generation)
    return Change(
        generation,
        artifacts=[] if item is None else [item],
        task=_name(update, "taskId"),
        context=_name(update, "contextId"),
    )


def _ill_formed(generation: int, error: Exception) -> IllFormedEvent:
    return IllFormedEvent(f"event {generation}: {type(error).__name__} {error}")


def _status_update(update: Json, generation: int) -> Change:
    status, metadata = update["status"], update.get("metadata") or {}
    message = _check_status(status)
    is_input = status["state"] == SUBMITTED and QUEUED not in metadata
    change = Change(
        generation,
        status=status,
        task=_name(update, "taskId"),
        context=_name(update, "contextId"),
        is_input=is_input,
        asked_by=Lineage.of(metadata) if is_input else None,
        own=_own(metadata) if is_input else {},
    )
    if type(dropped := metadata.get(DISCARDED_AFTER)) is int:
        change.history.append([generation, DROP, dropped])
        change.artifacts.append([generation, DROP, dropped])
    if is_input:
        change.history.append([generation, IN, message])
    elif message is not None:
        change.history.append([generation, KIN if CHILD in metadata else OUT, message])
    if lasting := {key: value for key, value in metadata.items() if not key.startswith(OWN)}:
        change.history.append([generation, META, lasting])
    return change


def _task(task: Json, generation: int) -> Change:
    if generation != 1:
        # A later ``task`` event (relayed from a child task, for example) starts nothing.
        return Change(generation)
    _check_status(task["status"])
    messages, artifacts = task.get("history") or [], task.get("artifacts") or []
    for message in messages:
        _check_message(message)
    for artifact in artifacts:
        _check_artifact(artifact)
    metadata = _without_generation(task)
    return Change(
        generation,
        history=[*([0, IN, m] for m in messages), *([[0, META, metadata]] if metadata else [])],
        artifacts=[[0, NEW, artifact] for artifact in artifacts],
        status=task["status"],
        task=_name(task, "id"),
        context=_name(task, "contextId"),
        is_input=True,
        asked_by=Lineage.of(metadata),
        own=_own(metadata),
        opens=True,
    )


def _answer(message: Json, generation: int) -> Change:
    _check_message(message)
    metadata = _without_generation(message)
    bare = {key: value for key, value in message.items() if key != "metadata"}
    answer = {**bare, "metadata": metadata} if metadata else bare
    return Change(generation, answer=answer, context=_name(message, "contextId"))


def _own(metadata: Json) -> Json:
    return {key: value for key, value in metadata.items() if key.startswith(OWN)}


def _without_generation(body: Json) -> Json:
    return {key: value for key, value in (body.get("metadata") or {}).items() if key != GENERATION}


def _check_status(status: Json) -> Json | None:
    if status["state"] not in STATES:
        raise TypeError(f"unknown state {status['state']}")
    message: Json | None = status.get("message")
    if message is not None:
        _check_message(message)
    return message


def _check_message(message: Json) -> None:
    _name(message, "messageId")
    _check_parts(message)


def _check_artifact(artifact: Json) -> None:
    if type(artifact["artifactId"]) is not str:
        raise TypeError("artifactId must be a string")
    if type(artifact.get("metadata", {})) is not dict:
        raise TypeError("metadata must be an object")
    _check_parts(artifact)


def _check_parts(holder: Json) -> None:
    for part in holder.get("parts") or ():
        if type(part) is not dict:
            raise TypeError("a part must be an object")
        if type(part.get("text", "")) is not str:
            raise TypeError("text must be a string")


def _name(body: Json, key: str) -> str:
    name = body.get(key, "")
    if type(name) is not str:
        raise TypeError(f"{key} must be a string")
    return name


@dataclass(slots=True)
class _Version:
    """One version of an artifact; an update without ``append`` starts a new one."""

    generation: int
    frames: list[tuple[int, Json]] = field(default_factory=list)
    """The fields of chunks other than ``parts``, with their generations."""
    pieces: Pieces = field(default_factory=Pieces)

    def take(self, generation: int, chunk: Json) -> None:
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

    def take(self, item: Item) -> None:
        """Take the next item."""
        generation, tag, value = item[0], item[1], item[2]
        if tag == TEXTS:
            if self._last is not None:
                self._last.pieces.go_on(generation, item[2:])
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
        version.take(generation, chunk)

    def _add(self, generation: int, chunk: Json) -> None:
        versions = self._versions.get(chunk["artifactId"])
        if not versions:
            self._begin(generation, chunk)
            return
        self._last = versions[-1]
        self._last.take(generation, chunk)

    def _drop_after(self, generation: int) -> None:
        self._last = None
        for name, versions in list(self._versions.items()):
            while versions and versions[-1].generation > generation:
                versions.pop()
            if versions:
                versions[-1].drop_after(generation)
            else:
                del self._versions[name]


_MESSAGES = frozenset({OUT, KIN})


@dataclass(slots=True)
class _Message:
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
        self._messages: list[_Message] = []
        self._by_id: dict[str, _Message] = {}
        self._last: _Message | None = None
        self._metadata: list[tuple[int, Json]] = []

    def take(self, item: Item) -> None:
        """Take the next item."""
        generation, tag, value = item[0], item[1], item[2]
        if tag == TEXTS:
            if self._last is not None:
                self._last.pieces.go_on(generation, item[2:])
        elif tag in _MESSAGES:
            self._take_output(generation, value, lasts=tag == KIN)
        elif tag == IN:
            self._take_input(generation, value)
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

    def _take_output(self, generation: int, content: Json, *, lasts: bool) -> None:
        name = content.get("messageId")
        message = self._by_id.get(name) if name else None
        if message is None:
            message = self._append(generation, content, lasts=lasts)
            if name:
                self._by_id[name] = message
        message.pieces.extend(generation, content.get("parts") or [])
        self._last = message

    def _take_input(self, generation: int, content: Json | None) -> None:
        # Pieces merge only within a run: agents may reuse an id.
        self._by_id.clear()
        self._last = None
        if content is not None:
            message = self._append(generation, content, is_input=True, lasts=True)
            message.pieces.extend(generation, content.get("parts") or [])

    def _append(
        self, generation: int, content: Json, *, lasts: bool, is_input: bool = False
    ) -> _Message:
        frame = {key: value for key, value in content.items() if key != "parts"}
        message = _Message(generation, frame, is_input, lasts)
        self._messages.append(message)
        return message

    def _drop_after(self, generation: int) -> None:
        """Discard this run's output after `generation`, except inputs and child tasks' messages."""
        kept: list[_Message] = []
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


@dataclass(slots=True)
class TaskFields:
    """The fields of a task that events overwrite."""

    task: str = ""
    context: str = ""
    generation: int = 0
    """Generation of the last event applied; 0: none."""
    status: Json = field(default_factory=dict)
    status_generation: int = 0
    """Generation of the event that set the status."""
    answered: bool = False
    """Whether the log has ended with a bare Message."""

    @property
    def state(self) -> str:
        """The task's state, or ANSWERED; empty before the first status."""
        return ANSWERED if self.answered else self.status.get("state", "")

    def take(self, change: Change) -> None:
        """Overwrite the fields that `change` sets."""
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
            fold._history.take(item)
        for item in artifacts:
            fold._artifacts.take(item)
        return fold

    @property
    def generation(self) -> int:
        """Generation of the last event applied; 0: none."""
        return self.standing.generation

    @property
    def state(self) -> str:
        """The task's state, or ANSWERED; empty before the first status."""
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
        if self.generation and change.opens:
            # The subject was purged, and a new log was started on it.
            self.standing = TaskFields()
            self._history, self._artifacts = History(), Artifacts()
        self.standing.take(change)
        for item in change.history:
            self._history.take(item)
        for item in change.artifacts:
            self._artifacts.take(item)

    def task(self, history_length: int | None = None, *, include_artifacts: bool = True) -> Json:
        """Return the A2A v1.0 Task in ProtoJSON.

        Args:
            history_length: Number of most recent messages to include at most. None: all.
            include_artifacts: Whether to include the artifacts.
        """
        now = self.standing
        task: Json = {"id": now.task, "contextId": now.context, "status": now.status}
        if include_artifacts and (artifacts := self._artifacts.whole()):
            task["artifacts"] = artifacts
        if history := self._history.messages(now.status_generation or 1, history_length):
            task["history"] = history
        task["metadata"] = {**self._history.metadata(), GENERATION: now.generation}
        return task
