"""What a batch changes in one task."""

from datetime import datetime

import orjson

from headrace.model.entry import ANSWERED, Entry
from headrace.model.events import PRIORITY, START_BY, TRACEPARENT, Json
from headrace.model.fold import Change, Item
from headrace.model.subjects import NORMAL
from headrace.model.task import AUTH_REQUIRED, INPUT_REQUIRED, SUBMITTED, TERMINAL, WORKING, TaskKey
from headrace_task_state.projector.chunk_frame import ChunkFrame
from headrace_task_state.projector.compaction import Compaction
from headrace_task_state.store_redis.connection import Argument

LEARNT_FROM = 8
"""Events of an entry from which on it pays to learn how its chunks are framed."""

_EXACT = 2**53
"""Scores are doubles: microseconds are exact below this (the year 2255)."""


class Delta:
    """One task as a batch sees it. It outlives the batch, for what its lists end with.

    Texts and statuses that the batch itself overtakes are never sent.
    """

    __slots__ = (
        "_artifacts",
        "_begins",
        "_fields",
        "_frame",
        "_framed",
        "_history",
        "_last",
        "_log",
        "_name",
        "_start_by",
        "_state",
        "_status",
        "_stored",
        "key",
        "touched",
    )

    def __init__(self, key: TaskKey) -> None:
        """Change nothing yet in the task `key`."""
        self.key = key
        self.touched = False
        """Whether the batch changes it."""
        self._name = f"{key.tenant}:{key.task}"
        self._history, self._artifacts = Compaction(), Compaction()
        self._log = ""
        self._frame: ChunkFrame | None = None
        self._framed: Json | None = None
        """The text part with which chunks of that frame go on."""
        self._clear()

    def _clear(self) -> None:
        self.touched, self._begins = False, False
        self._fields: dict[str, Argument] = {}
        self._status: Json = {}
        self._state = ""
        self._stored = self._start_by = 0

    def follows(self, entry: Entry) -> bool:
        """Tell whether `entry` belongs to this task's log; one that begins a log always does."""
        return entry.generation == 1 or self._log in ("", entry.stamp.log)

    def begin_entry(self, entry: Entry, stored: int) -> None:
        """Take what an entry says beside its events; NATS stored it at `stored`, ns since 1970."""
        stamp = entry.stamp
        if stamp.generation == 1:
            self._history, self._artifacts = Compaction(), Compaction()
            self._clear()
            self._begins = True
            self._fields |= {
                "log": stamp.log,
                "agent": self.key.agent,
                "owner": stamp.owner or "",
                "context": "",
                "created": stored // 1_000_000,
            }
        self.touched = True
        self._log, self._stored, self._last = stamp.log, stored, entry

    @property
    def frame(self) -> ChunkFrame | None:
        """The frame of chunks that go on with what the artifacts end with, if it is known."""
        return self._frame if self._artifacts.open is self._framed else None

    def learn(self, entry: Entry) -> None:
        """Learn the frame of the chunk that ends `entry`, if one does; it has just been taken."""
        part, last = self._artifacts.open, entry.last_generation
        if part is self._framed or len(entry.lines) < LEARNT_FROM:
            return
        if self._artifacts.went_on == last:
            self._frame, self._framed = ChunkFrame.of(entry.lines[-1], last), part

    def take_text(self, generation: int, text: str) -> None:
        """Take the text of a chunk of the `frame`."""
        self._artifacts.go_on(generation, text)

    def take_artifact(self, item: Item | None) -> None:
        """Take what one artifact update of the entry changes."""
        if item is not None:
            self._artifacts.take(item)

    def take(self, change: Change) -> None:
        """Take what any other event of the entry changes."""
        for item in change.history:
            self._history.take(item)
        for item in change.artifacts:
            self._artifacts.take(item)
        if change.opens:
            self._fields["context"] = change.context
        if change.status is not None:
            self._status, self._state = change.status, change.status["state"]
            self._fields["status_generation"] = change.generation
        if change.answer is not None:
            self._state = ANSWERED
            self._fields["answer"] = orjson.dumps(change.answer)
            self._fields["answer_generation"] = change.generation
        if change.is_input:
            self._fields["leg"] = change.generation
            self._fields["submitted"] = self._stored // 1_000_000
            self._take_terms(change.own)
        if (lineage := change.asked_by) is not None:
            self._fields["parent"] = lineage.parent
            self._fields["parent_agent"] = lineage.agent
            self._fields["parent_leg"] = lineage.leg

    def _take_terms(self, own: Json) -> None:
        """Take on which terms an input's run waits; a trace goes on in legs that name none."""
        self._fields["priority"] = str(own.get(PRIORITY) or NORMAL)
        self._fields["start_by"] = start_by = time_ms(own.get(START_BY))
        self._start_by = start_by
        if trace := own.get(TRACEPARENT):
            self._fields["traceparent"] = str(trace)

    def _due(self, due: int) -> str:
        return str(min(due, self._start_by) if self._start_by else due)

    def flush(self, patience: int) -> list[Argument]:
        """Return the arguments of the batch's script; the sweep looks at it after `patience` ms.

        See ``store_redis/lua/apply.lua`` for their order.
        """
        time, due, ended = "", "", ""
        stored = self._stored // 1_000_000
        self._fields["generation"] = self._last.last_generation
        self._fields["sequence"] = self._last.sequence
        if self._status:
            self._fields["status"] = orjson.dumps(self._status)
        if self._state:
            self._fields["state"] = self._state
            time = str(time_of(self._status, self._stored))
            if self._state == SUBMITTED:
                due = self._due(stored + patience)
            elif self._state in {WORKING, AUTH_REQUIRED}:
                due = str(stored + patience)
            elif self._state == INPUT_REQUIRED:
                due = str(stored)
            ended = str(stored) if self._state in TERMINAL or self._state == ANSWERED else ""
        whose: list[Argument] = ["", self.key.agent, "", ""]
        if self._begins:
            is_child = "1" if "parent" in self._fields else ""
            whose = [self._fields["owner"], self.key.agent, self._fields["context"], is_child]
        history, artifacts = self._history.flush(), self._artifacts.flush()
        fields = [word for pair in self._fields.items() for word in pair]
        begins = "1" if self._begins else ""
        head: list[Argument] = [self._name, self._log, begins, self._state, time, due, ended]
        sizes = [len(fields), len(history), len(artifacts)]
        self._clear()
        return [*head, *whose, *sizes, *fields, *history, *artifacts]


def gone(key: TaskKey, stored: int) -> list[Argument]:
    """Return the arguments by which a task leaves; its tombstone was `stored` then, ns."""
    name, when = f"{key.tenant}:{key.task}", str(stored // 1_000_000)
    return [name, "", "gone", "", when, "", "", "", key.agent, "", "", 0, 0, 0]


def time_ms(text: object) -> int:
    """Return an RFC 3339 time in milliseconds since 1970; 0: it is none."""
    try:
        moment = datetime.fromisoformat(str(text))
        return round(moment.timestamp() * 1000) if moment.tzinfo is not None else 0
    except (ValueError, OverflowError):
        return 0


def time_of(status: Json, stored: int) -> int:
    """Return the time of a status in microseconds since 1970; it may have to be `stored` (ns)."""
    try:
        moment = datetime.fromisoformat(status["timestamp"])
        time = round(moment.timestamp() * 1_000_000)
    except (KeyError, TypeError, ValueError, OverflowError):
        return stored // 1000
    return time if moment.tzinfo is not None and 0 <= time < _EXACT else stored // 1000
