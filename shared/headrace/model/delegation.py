"""Tasks that other tasks have asked for: what a child knows of its parent, and what its id is."""

import uuid
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Self

from headrace.model.events import Json
from headrace.model.names import is_token
from headrace.model.subjects import stream_of_shard
from headrace.model.task import SHARDS_PER_STREAM, TaskKey, is_task_id

DELEGATION = "headrace.delegation"
"""Metadata key of an input that another task has asked for: a `Lineage`. Only task state writes it;
from clients no metadata of our own is taken."""

CHILD = "headrace.child"
"""Metadata key, in a parent's log, of an event about a child: an object with ``task`` and
``generation`` (of the child's event that is relayed; 0: the child is asked for), and as it applies
``agent``, ``name``, ``state`` (what the child has come to), ``givenUp`` (nobody waits for it any
more), ``attempt`` (the child was begun again) with ``discardedAfter`` (what it said after that
generation of its log holds no more), and ``child`` (the same, of the child's own one)."""

ASKS_FOR = "headrace.asksFor"
"""Metadata key of an INPUT_REQUIRED status: ``task`` and ``agent`` of the child whose question it
is, and which the answer is for."""

LARGEST = 2**53
"""What JSON's readers elsewhere take as a whole number."""

MAX_NAME = 512
"""Characters that the name of a child may have."""


@dataclass(frozen=True, slots=True)
class Lineage:
    """Where an input comes from that an agent has asked for."""

    parent: str
    """The asking task."""
    agent: str
    """Its agent."""
    run: int
    """Its run, which waits for the answer."""
    name: str
    """What the parent knows the child by."""
    path: tuple[str, ...]
    """Agents from the first task, which no agent has asked for, down to the parent."""
    deadline: str | None = None
    """When the answer is worth nothing any more, RFC 3339."""
    budget: int | None = None
    """Tokens that the child may use, its own children included; None: nobody counts."""

    def to_json(self) -> Json:
        """Return what stands under `DELEGATION`."""
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
        """Return the lineage in an input's metadata; None: no agent has asked for it."""
        kept = metadata.get(DELEGATION)
        if not isinstance(kept, dict):
            return None
        path, run = kept.get("path"), kept.get("run")
        parent, agent, name = (str(kept.get(word, "")) for word in ("parent", "agent", "name"))
        # Subjects are made of it: what names no log is no lineage.
        if not (is_task_id(parent) and is_token(agent) and name and isinstance(path, list)):
            return None
        if type(run) is not int or not 0 < run <= LARGEST:
            return None
        return cls(
            *(parent, agent, run, name, tuple(map(str, path))),
            kept.get("deadline"),
            kept.get("budget"),
        )

    def parent_key(self, tenant: str) -> TaskKey:
        """Return where the parent's log is."""
        return TaskKey(tenant, self.agent, self.parent)

    def is_same_question(self, other: "Lineage | None") -> bool:
        """Tell whether `other` is the same run's question of the same name."""
        asked = (self.parent, self.run, self.name)
        return other is not None and asked == (other.parent, other.run, other.name)


def child_task_id(parent: str, run: int, agent: str, name: str) -> str:
    """Return the one task id of `agent`'s child that `run` of `parent` calls `name`.

    Its shard is one of the parent's stream: so it stays the same as streams are added, and who
    applies the parent's log applies the child's too.
    """
    derived = uuid.uuid5(uuid.NAMESPACE_URL, f"{parent}/{run}\x00{agent}\x00{name}")
    shard = int(parent.partition("-")[0])
    first = stream_of_shard(shard) * SHARDS_PER_STREAM
    return f"{first + derived.int % SHARDS_PER_STREAM}-{derived.hex}"


def earliest(*times: datetime | None) -> datetime | None:
    """Return the first of the times that are any."""
    return min((time for time in times if time is not None), default=None)


def read_time(text: str | None) -> datetime | None:
    """Return an RFC 3339 time; None: there is none, or it is none."""
    try:
        time = datetime.fromisoformat(text) if text else None
    except ValueError:
        return None
    return time if time is None or time.tzinfo else time.replace(tzinfo=UTC)
