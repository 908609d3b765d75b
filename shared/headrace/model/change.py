"""What one event changes in a task: items of its history and of its artifacts.

Items are never modified, so they can be stored anywhere (a Redis list, for example) and replayed to
give the same task (`headrace.model.fold`).

An item is a JSON array: its generation, a tag, and the values of that tag.

=============================  ==================================================================
history item                   meaning
=============================  ==================================================================
``[g, "in", message|null]``    an input begins a run; no attempt discards its message
``[g, "out", message]``        a message of the agent, or a piece of one
``[g, "child", message]``      as "out", but of a child task: no attempt discards it
``[g, "meta", {…}]``           metadata of the task
``[g, "drop", d]``             a new attempt discards the run's output after generation d
``[g, "t", "…", n, …]``        a text, appended to the last text part of the last "out" or
                               "child". It consists of texts of n, … characters of generations
                               g, g+1, …; without numbers, all of it is of generation g
=============================  ==================================================================

Artifact items: ``"new"`` and ``"add"`` with an artifact, ``"drop"`` and ``"t"`` as above.

The content of generation 1 gets generation 0. The history excludes the message of the current
status, but always contains the user's first message.
"""

from dataclasses import dataclass, field
from typing import Any

from headrace.model.delegation import CHILD
from headrace.model.errors import HeadraceError
from headrace.model.events import (
    DISCARDED_AFTER,
    GENERATION,
    QUEUED,
    RETRACTED,
    TRACEPARENT,
    VERSION,
    Json,
)
from headrace.model.task import BARE_MESSAGE, COMPLETED, STATES, SUBMITTED

type Item = list[Any]

IN, OUT, OF_CHILD, META, DROP = "in", "out", "child", "meta", "drop"

TEXTS, NEW, ADD = "t", "new", "add"

RESERVED_PREFIX = "headrace."
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
    own: Json = field(default_factory=dict)
    """Of an input: its metadata with Headrace's prefix, the options of its run."""
    opens: bool = False
    """Whether this is a ``task`` event, which starts a new log."""


def event_metadata(event: Json) -> Json:
    """Return the event's metadata; empty: there is none."""
    for body in event.values():
        metadata = body.get("metadata") if type(body) is dict else None
        return metadata if type(metadata) is dict else {}
    return {}


def generation_of(event: Json) -> int | None:
    """Return the generation in the event's metadata; None: there is none."""
    generation = event_metadata(event).get(GENERATION)
    return generation if type(generation) is int else None


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
        _task_and_context(update)
        # A retraction is for clients only: the fold has already dropped the attempt's artifact.
        if (update.get("metadata") or {}).get(RETRACTED):
            return None
        return [generation, ADD if update.get("append") else NEW, artifact]
    except (KeyError, TypeError, AttributeError) as error:
        raise _ill_formed(generation, error) from None


def _artifact_update(update: Json, generation: int) -> Change:
    item = read_artifact(update, generation)
    task, context = _task_and_context(update)
    artifacts = [] if item is None else [item]
    return Change(generation, artifacts=artifacts, task=task, context=context)


def _ill_formed(generation: int, error: Exception) -> IllFormedEvent:
    return IllFormedEvent(f"event {generation}: {type(error).__name__} {error}")


def _status_update(update: Json, generation: int) -> Change:
    status, metadata = update["status"], update.get("metadata") or {}
    message = _check_status(status)
    task, context = _task_and_context(update)
    is_input = status["state"] == SUBMITTED and QUEUED not in metadata
    change = Change(
        generation,
        status=status,
        task=task,
        context=context,
        is_input=is_input,
        own=_own(metadata) if is_input else {},
    )
    if type(dropped := metadata.get(DISCARDED_AFTER)) is int:
        change.history.append([generation, DROP, dropped])
        change.artifacts.append([generation, DROP, dropped])
    if is_input:
        change.history.append([generation, IN, message])
    elif message is not None:
        change.history.append([generation, OF_CHILD if CHILD in metadata else OUT, message])
    # As `without_own`, without a call for each event.
    if lasting := {
        key: value for key, value in metadata.items() if not key.startswith(RESERVED_PREFIX)
    }:
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
    name, context = _task_and_context(task, "id")
    return Change(
        generation,
        history=[[0, IN, m] for m in messages] + ([[0, META, metadata]] if metadata else []),
        artifacts=[[0, NEW, artifact] for artifact in artifacts],
        status=task["status"],
        task=name,
        context=context,
        is_input=True,
        own=_own(metadata),
        opens=True,
    )


def _answer(message: Json, generation: int) -> Change:
    _check_message(message)
    metadata = _without_generation(message)
    bare = {key: value for key, value in message.items() if key != "metadata"}
    answer = {**bare, "metadata": metadata} if metadata else bare
    return Change(generation, answer=answer, context=_name(message, "contextId"))


def without_own(metadata: Json) -> Json:
    """Return the metadata without keys that are reserved for the fleet."""
    return {key: value for key, value in metadata.items() if not key.startswith(RESERVED_PREFIX)}


def _own(metadata: Json) -> Json:
    return {key: value for key, value in metadata.items() if key.startswith(RESERVED_PREFIX)}


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


def _task_and_context(body: Json, key: str = "taskId") -> tuple[str, str]:
    task, context = body.get(key, ""), body.get("contextId", "")
    if type(task) is not str or type(context) is not str:
        raise TypeError(f"{key} and contextId must be strings")
    return task, context


def _name(body: Json, key: str) -> str:
    name = body.get(key, "")
    if type(name) is not str:
        raise TypeError(f"{key} must be a string")
    return name


@dataclass(slots=True)
class TaskFields:
    """The fields of a task that events overwrite."""

    task: str = ""
    context: str = ""
    generation: int = 0
    """Generation of the last event applied; 0: none."""
    status: Json = field(default_factory=dict)
    answer: Json | None = None
    """The bare Message with which the log has ended."""
    status_generation: int = 0
    """Generation of the event that set the status or the answer."""
    traceparent: str | None = None
    """W3C trace context of the newest input that came with one."""
    version: str | None = None
    """The version of the agent that the newest input which names one pins the task to."""

    @property
    def state(self) -> str:
        """The task's state, or BARE_MESSAGE; empty before the first status."""
        return BARE_MESSAGE if self.answer is not None else self.status.get("state", "")

    @property
    def shown_status(self) -> Json:
        """The status in A2A's Task: an answer completes it."""
        if self.answer is None:
            return self.status
        kept = {key: self.status[key] for key in ("timestamp",) if key in self.status}
        return {"state": COMPLETED, "message": self.answer} | kept

    def apply(self, change: Change) -> None:
        """Overwrite the fields that `change` sets."""
        self.generation = change.generation
        self.task = self.task or change.task
        self.context = self.context or change.context
        if change.status is not None:
            self.status, self.status_generation = change.status, change.generation
        if change.answer is not None:
            self.answer, self.status_generation = change.answer, change.generation
        if change.own:
            self.traceparent = _text(change.own, TRACEPARENT) or self.traceparent
            self.version = _text(change.own, VERSION) or self.version


def _text(metadata: Json, name: str) -> str | None:
    value = metadata.get(name)
    return value if isinstance(value, str) else None
