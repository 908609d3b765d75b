"""Delegated tasks: a child's lineage and its id."""

import re
import uuid
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Self

from headrace.model.events import Json
from headrace.model.subjects import is_token, stream_of_shard
from headrace.model.task import SHARDS_PER_STREAM, is_task_id, thread_in

DELEGATION = "headrace.delegation"
"""Metadata key of an input that another task has sent: a `Lineage`. Only task state writes it;
clients can't set metadata with our prefix."""

CHILD = "headrace.child"
"""Metadata key, in a parent's log, of an event about a child. Its value is an object with ``task``
and ``generation`` (of the relayed event of the child; 0: the child is requested) and, where they
apply, ``agent``, ``name``, ``state`` (the child's result), ``givenUp`` (the parent no longer waits
for it), ``attempt`` (the child has started another attempt) with ``discardedAfter`` (the child's
output after that generation of its log is void), and ``child`` (the same object for the child's own
child)."""

ASKS_FOR = "headrace.asksFor"
"""Metadata key of an INPUT_REQUIRED status: ``task`` and ``agent`` of the child that asks and gets
the answer."""

LARGEST = 2**53
"""The largest integer that all JSON readers represent exactly."""

MAX_NAME = 512
"""Maximum length of a child's name in characters."""


@dataclass(frozen=True, slots=True)
class Lineage:
    """The origin of an input that another agent sent."""

    parent: str
    """Id of the parent task."""
    agent: str
    """The parent's agent."""
    run: int
    """The parent's run, which waits for the answer."""
    name: str
    """The parent's name for the child."""
    path: tuple[str, ...]
    """Agents from the first task, which no agent requested, down to the parent."""
    deadline: str | None = None
    """When the parent stops waiting, RFC 3339."""
    budget: int | None = None
    """Maximum number of tokens for the child, including its own children. None: unlimited."""

    def to_json(self) -> Json:
        """Return the metadata value for `DELEGATION`."""
        shown: Json = {
            "parent": self.parent,
            "agent": self.agent,
            "run": self.run,
            "name": self.name,
            "path": list(self.path),
        }
        if self.deadline is not None:
            shown["deadline"] = self.deadline
        if self.budget is not None:
            shown["budget"] = self.budget
        return shown

    @classmethod
    def of(cls, metadata: Json) -> Self | None:
        """Return the lineage in an input's metadata. None: no agent sent it."""
        kept = metadata.get(DELEGATION)
        if not isinstance(kept, dict):
            return None
        path, run = kept.get("path"), kept.get("run")
        parent, agent, name = (str(kept.get(word, "")) for word in ("parent", "agent", "name"))
        # Subjects are built from it, so a lineage that names no log is ignored.
        if not (is_task_id(parent) and is_token(agent) and name and isinstance(path, list)):
            return None
        if type(run) is not int or not 0 < run <= LARGEST:
            return None
        return cls(
            *(parent, agent, run, name, tuple(map(str, path))),
            kept.get("deadline"),
            kept.get("budget"),
        )

    def is_same_question(self, other: "Lineage | None") -> bool:
        """Return whether `other` is a question of the same run with the same name.

        The agent counts: another one's workers may write a log with the parent's id below their own
        agent, and ask with it what the parent is about to ask.
        """
        own = (self.parent, self.agent, self.run, self.name)
        return other is not None and own == (other.parent, other.agent, other.run, other.name)


def child_task_id(parent: str, run: int, agent: str, name: str) -> str:
    """Return the task id of `agent`'s child that `run` of `parent` calls `name`.

    Its context is the parent's, and so is its thread. Its shard belongs to the parent's stream. So
    the id stays the same when streams are added, and the replica that applies the parent's log
    applies the child's too.
    """
    derived = uuid.uuid5(uuid.NAMESPACE_URL, f"{parent}/{run}\x00{agent}\x00{name}")
    shard = int(parent.partition("-")[0])
    first = stream_of_shard(shard) * SHARDS_PER_STREAM
    thread = thread_in(parent)
    return f"{first + derived.int % SHARDS_PER_STREAM}-{thread}{derived.hex[len(thread) :]}"


def earliest(*times: datetime | None) -> datetime | None:
    """Return the earliest of the times that are not None."""
    return min((time for time in times if time is not None), default=None)


_BASE64 = re.compile(r"[A-Za-z0-9+/]*={0,2}")
_CONTENT = ("text", "raw", "url", "data")
_TEXTS = ("text", "raw", "url", "filename", "mediaType")
_LISTS = ("extensions", "referenceTaskIds")


def why_no_message(message: dict[str, Any]) -> str | None:
    """Return why `message` is not an A2A v1.0 Message with parts. None: it is valid."""
    parts = message.get("parts")
    if not isinstance(parts, list) or not parts:
        return "a message must be text or have parts"
    for number, part in enumerate(parts):
        if (why := _why_no_part(part)) is not None:
            return f"parts[{number}] {why}"
    if not isinstance(message.get("messageId", ""), str):
        return "messageId must be a string"
    if not isinstance(message.get("metadata", {}), dict):
        return "metadata must be an object"
    for name in _LISTS:
        found = message.get(name, [])
        if not isinstance(found, list) or not all(isinstance(one, str) for one in found):
            return f"{name} must be a list of strings"
    return None


def _why_no_part(part: object) -> str | None:
    if not isinstance(part, dict):
        return "must be an object"
    if sum(name in part for name in _CONTENT) != 1:
        return f"must have exactly one of {', '.join(_CONTENT)}"
    for name in _TEXTS:
        if not isinstance(part.get(name, ""), str):
            return f"{name} must be a string"
    raw = part.get("raw", "")
    if len(raw) % 4 or not _BASE64.fullmatch(raw):
        return "raw must be base64"
    if not isinstance(part.get("metadata", {}), dict):
        return "metadata must be an object"
    return None


def asking_agent(task: Json) -> str | None:
    """Return the agent that requested the task, or None if a user did."""
    lineage = Lineage.of(task.get("metadata") or {})
    return None if lineage is None else lineage.agent
