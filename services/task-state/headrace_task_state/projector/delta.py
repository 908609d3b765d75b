"""What a batch changes in one task."""

from datetime import datetime

import orjson

from headrace.model.entry import ANSWERED, Stamp
from headrace.model.events import PRIORITY, START_BY, TRACEPARENT, Json
from headrace.model.fold import Change, Item
from headrace.model.subjects import NORMAL
from headrace.model.task import (
    AUTH_REQUIRED,
    INPUT_REQUIRED,
    SUBMITTED,
    TERMINAL,
    WORKING,
    TaskKey,
)
from headrace_task_state.projector.chunk_frame import ChunkFrame
from headrace_task_state.projector.compaction import Compaction
from headrace_task_state.store import TaskChange

LEARNT_FROM = 8
"""Events of an entry from which on it pays to learn how its chunks are framed."""

_EXACT = 2**53
"""Scores are doubles: microseconds are exact below this (the year 2255)."""

_AT_WORK = frozenset({WORKING, AUTH_REQUIRED})
_OVER = TERMINAL | {ANSWERED}

_NONE = TaskChange(TaskKey("", "", ""), "")
"""Stands where nothing has changed: what a batch has flushed is not kept."""


class Delta:
    """One task as a batch sees it. It outlives the batch, for what its lists end with.

    Texts and statuses that the batch itself overtakes are never sent.
    """

    __slots__ = (
        "_artifacts",
        "_change",
        "_frame",
        "_framed",
        "_history",
        "_log",
        "_start_by",
        "_status",
        "_stored",
        "key",
        "subject",
        "touched",
    )

    def __init__(self, key: TaskKey, subject: str) -> None:
        """Change nothing yet in the task `key`, whose log is on `subject`."""
        self.key, self.subject = key, subject
        self.touched = False
        """Whether the batch changes it."""
        self._history, self._artifacts = Compaction(), Compaction()
        self._log = ""
        self._frame: ChunkFrame | None = None
        self._framed: Json | None = None
        """The text part with which chunks of that frame go on."""
        self._change = _NONE
        self._status: Json | None = None
        self._stored = self._start_by = 0

    def follows(self, stamp: Stamp) -> bool:
        """Tell whether an entry is of this task's log; one that begins a log always is."""
        return stamp.generation == 1 or self._log in ("", stamp.log)

    def begin_entry(self, stamp: Stamp, last: int, sequence: int, stored: int) -> None:
        """Take what an entry says beside its events, of which `last` is the last generation.

        It has that stream sequence, and NATS stored it at `stored`, ns since 1970.
        """
        change, log = self._change, stamp.log
        if stamp.generation == 1:
            if self._log:
                self._history, self._artifacts = Compaction(), Compaction()
            owner = stamp.owner or ""
            change = self._change = TaskChange(self.key, log, begins=True, owner=owner)
            change.fields = {"log": log, "agent": self.key.agent, "owner": owner, "context": ""}
            self._status, self._start_by = None, 0
        elif not self.touched:
            change = self._change = TaskChange(self.key, log)
        self.touched = True
        self._log, self._stored = log, stored
        change.fields["generation"], change.fields["sequence"] = str(last), str(sequence)

    @property
    def frame(self) -> ChunkFrame | None:
        """The frame of chunks that go on with what the artifacts end with, if it is known."""
        return self._frame if self._artifacts.open is self._framed else None

    def learn(self, line: bytes, generation: int) -> None:
        """Learn the frame of a chunk, if the line is one; it has just been taken."""
        part = self._artifacts.open
        if part is not self._framed and self._artifacts.went_on == generation:
            self._frame, self._framed = ChunkFrame.of(line, generation), part

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
        fields = self._change.fields
        if change.opens:
            fields["context"] = self._change.context = change.context
        if change.status is not None:
            self._status = change.status
            self._change.state = change.status["state"]
            fields["status_generation"] = str(change.generation)
        if change.answer is not None:
            self._change.state = ANSWERED
            fields["answer"] = orjson.dumps(change.answer).decode()
            fields["answer_generation"] = str(change.generation)
        if change.is_input:
            self._take_input(change, fields)

    def _take_input(self, change: Change, fields: dict[str, str]) -> None:
        """Take on which terms an input's run waits; a trace goes on in runs that name none."""
        own = change.own
        self._start_by = time_ms(own[START_BY]) if START_BY in own else 0
        fields["run"] = str(change.generation)
        fields["submitted"] = str(self._stored // 1_000_000)
        fields["priority"] = str(own.get(PRIORITY) or NORMAL)
        fields["start_by"] = str(self._start_by)
        if trace := own.get(TRACEPARENT):
            fields["traceparent"] = str(trace)
        if (lineage := change.asked_by) is not None:
            fields["parent"] = lineage.parent
            fields["parent_agent"] = lineage.agent
            fields["parent_run"] = str(lineage.run)

    def flush(self, timeout: int) -> TaskChange:
        """Return what the batch changes; what waits is looked at after `timeout` ms."""
        change, self._change, self.touched = self._change, _NONE, False
        if self._status is not None:
            change.fields["status"] = orjson.dumps(self._status).decode()
        if state := change.state:
            change.fields["state"] = state
            change.time = time_of(self._status or {}, self._stored)
            fall_due(change, self._stored // 1_000_000, timeout, self._start_by)
        change.is_asked_for = change.begins and "parent" in change.fields
        change.history, change.artifacts = self._history.flush(), self._artifacts.flush()
        self._status, self._start_by = None, 0
        return change


def fall_due(change: TaskChange, stored: int, timeout: int, start_by: int = 0) -> None:
    """Say when a task in its new state is to be looked at; all times in ms."""
    state = change.state
    if state in _OVER:
        change.ended = stored
    elif state == SUBMITTED:
        due = stored + timeout
        change.due = min(due, start_by) if start_by else due
    elif state in _AT_WORK:
        change.due = stored + timeout
    elif state == INPUT_REQUIRED:
        change.due = stored


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
