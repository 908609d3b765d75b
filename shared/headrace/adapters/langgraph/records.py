"""A graph's checkpoints and pending writes, as the fleet's memory has them.

A thread's values have the keys ``langgraph/<thread>/checkpoints/<namespace>/<id>`` and
``langgraph/<thread>/writes/<namespace>/<id>/<task>/<write>``. A checkpoint is one value. Large
values of channels that have not changed since its parent are not in it; it names the checkpoint
that has them.
"""

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any

from langgraph.checkpoint.base import WRITES_IDX_MAP, PendingWrite, writes_sort_key
from langgraph.checkpoint.serde.base import SerializerProtocol

from headrace.model.memory import MemoryScope, MemoryValue
from headrace.model.task import is_task_id

ROOT = "langgraph/"
_OWN = "task"
"""In place of the thread's id in the memory of its task."""
_LONGEST = 100
_END = b"\x00"

type Typed = tuple[str, bytes]
"""A serialized value, with the name of its form."""


@dataclass(frozen=True, slots=True)
class ThreadPlace:
    """Where a thread is."""

    scope: MemoryScope
    thread: str
    """Its id."""

    @classmethod
    def of(cls, run: MemoryScope, thread: str | int) -> "ThreadPlace":
        """Return the place of a thread for the agent of a `run`; its id may be a number.

        A task's thread is in the memory of the task. Any other is in the memory of the run's
        conversation.
        """
        name, own = str(thread), f"{run.tenant}/{run.owner}/{run.agent}/"
        context, _, task = name.removeprefix(own).rpartition("/")
        if name.startswith(own) and context and is_task_id(task):
            return cls(run._replace(context=context, task=task), name)
        return cls(run._replace(task=None), name)

    @property
    def prefix(self) -> str:
        """The beginning of all its keys."""
        return f"{ROOT}{_OWN if self.scope.task else _short(self.thread)}/"

    def checkpoints(self, space: str | None = None) -> str:
        """Return the beginning of the keys of the checkpoints of a namespace, or of all."""
        return f"{self.prefix}checkpoints/{_within(space)}"

    def checkpoint(self, space: str, name: str) -> str:
        """Return the key of a checkpoint."""
        return f"{self.checkpoints(space)}{_short(name)}"

    def writes(self, space: str | None = None, name: str = "") -> str:
        """Return the beginning of the keys of the writes at a checkpoint, or at several."""
        return f"{self.prefix}writes/{_within(space)}{_short(name) + '/' if name else ''}"


def _within(space: str | None) -> str:
    """Return a namespace as a segment of a key; it may be long, so it is hashed."""
    return "" if space is None else f"{_digest(space.encode())}/" if space else "-/"


def _short(name: str) -> str:
    """Return a name as one segment of a key."""
    if len(name) <= _LONGEST and name.isascii() and name.replace("-", "").isalnum():
        return name
    return f"_{_digest(name.encode())}"


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:24]


@dataclass(slots=True)
class CheckpointRecord:
    """A stored checkpoint."""

    thread: str
    space: str
    id: str
    parent: str | None
    checkpoint: dict[str, Any]
    """Without its channels' values."""
    metadata: dict[str, Any]
    values: dict[str, Typed]
    """The channels' values that are stored with it."""
    at: dict[str, str]
    """By channel, the checkpoint of the same namespace that its value is stored with."""

    def encode(self, serde: SerializerProtocol) -> bytes:
        """Return the value to store."""
        fields = {name: getattr(self, name) for name in self.__slots__}
        return _joined(serde.dumps_typed(fields))

    @classmethod
    def decode(cls, serde: SerializerProtocol, data: bytes) -> "CheckpointRecord":
        """Return the checkpoint of a stored value."""
        fields = serde.loads_typed(_split(data))
        fields["values"] = {name: (kind, held) for name, (kind, held) in fields["values"].items()}
        return cls(**fields)


@dataclass(slots=True)
class WritesRecord:
    """The writes of one task of a graph that were stored together."""

    space: str
    id: str
    """The checkpoint's."""
    task: str
    path: str
    writes: list[tuple[int, str, Any]]
    """Each with its index and its channel."""

    @classmethod
    def of(
        cls, place: tuple[str, str], writes: Sequence[tuple[str, Any]], task: str, path: str
    ) -> "WritesRecord":
        """Return the record of `writes`, at the namespace and the checkpoint of `place`."""
        numbered = [
            (WRITES_IDX_MAP.get(channel, index), channel, value)
            for index, (channel, value) in enumerate(writes)
        ]
        return cls(*place, task, path, numbered)

    def encode(self, serde: SerializerProtocol) -> tuple[str, bytes]:
        """Return the end of its key, and the value to store.

        A special write, such as an interrupt or an answer, replaces the one before of its kind.
        Others stay: the same ones have the same key.
        """
        data = _joined(serde.dumps_typed({name: getattr(self, name) for name in self.__slots__}))
        [*first, (index, _, _)] = self.writes
        name = f"special{-index}" if index < 0 and not first else _digest(data)
        return f"{_short(self.task)}/{name}", data


def pending_writes(
    serde: SerializerProtocol, stored: Iterable[MemoryValue]
) -> dict[tuple[str, str], list[PendingWrite]]:
    """Return the pending writes of each checkpoint, by its namespace and id, in their order."""
    found: dict[tuple[str, str], dict[tuple[str, int], tuple[Any, PendingWrite]]] = {}
    for one in sorted(stored, key=lambda value: value.revision):
        record = WritesRecord(**serde.loads_typed(_split(one.data)))
        writes = found.setdefault((record.space, record.id), {})
        for index, channel, value in record.writes:
            # A copy of a thread has no paths, and those that the graph writes later have.
            if index < 0 or (record.task, index) not in writes:
                order = writes_sort_key(record.path, record.task, index)
                writes[record.task, index] = order, (record.task, channel, value)
    return {
        where: [write for _, write in sorted(writes.values(), key=itemgetter(0))]
        for where, writes in found.items()
    }


def _joined(typed: Typed) -> bytes:
    kind, data = typed
    return kind.encode() + _END + data


def _split(stored: bytes) -> Typed:
    kind, _, data = stored.partition(_END)
    return kind.decode(), data
