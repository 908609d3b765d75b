"""The changes of a batch in one task.

A stream of tokens consists of lines that differ only in their text and generation. What surrounds
the text is parsed once per task and compared as bytes from then on, which costs a third of parsing
every line.

Items of a task's history and artifacts are stored in their shortest form. A chunk of streamed text
repeats its artifact's id and the part's metadata a thousand times. A chunk that only continues the
text before it is stored as that text alone (`headrace.model.change`, "t").
"""

from collections.abc import Sequence
from datetime import datetime
from itertools import islice

import orjson
from nats.aio.msg import Msg

from headrace.jetstream.client import ReceivedMessage
from headrace.model import json_text
from headrace.model.change import ADD, META, NEW, OF_CHILD, OUT, TEXTS, Change, Item, TaskFields
from headrace.model.delegation import DELEGATION, Lineage
from headrace.model.entry import Stamp
from headrace.model.events import GENERATION, PRIORITY, START_BY, Json
from headrace.model.fork import FORK_OF, ForkOf
from headrace.model.pieces import same_but_text
from headrace.model.subjects import NORMAL
from headrace.model.task import (
    AT_WORK,
    BARE_MESSAGE,
    FINISHED,
    INPUT_REQUIRED,
    RUN_ENDED,
    SUBMITTED,
    TaskKey,
)
from headrace_task_state.projector.chunk_headers import ChunkHeaders
from headrace_task_state.projector.consumer import Arrival
from headrace_task_state.store import LARGEST_NUMBER, TaskChange, stored_fields
from headrace_task_state.thread_rows import RowChange, inputs_in, message_text, title_of
from headrace_task_state.usage import records_of

_TEXT, _QUOTE = b'"text":', b'"'

_END = b"}}}"

_MARK = "\ue000"


class ChunkFrame:
    """The bytes before and after the text of an artifact's chunk."""

    __slots__ = ("_after", "_before")

    def __init__(self, before: bytes, after: bytes) -> None:
        """Match lines of `before`, a text, `after`, a generation and an end.

        The quotation marks around the text are in `before` and `after`.
        """
        self._before, self._after = before, after

    @classmethod
    def of(cls, line: bytes, generation: int) -> "ChunkFrame | None":
        """Return the frame of an artifact update with one text; None: it is encoded differently."""
        update = json_text.decode(line)
        [part] = update["artifactUpdate"]["artifact"]["parts"]
        before, text, after = line.partition(_TEXT + json_text.encode(part["text"]))
        number = b"%d%b" % (generation, _END)
        if not text or not after.endswith(number):
            return None
        frame = cls(before + _TEXT + _QUOTE, _QUOTE + after.removesuffix(number))
        # The same bytes may occur elsewhere in the line. If these are the right ones, a line with
        # another text and number in their place is the event with that text and number, and nothing
        # else.
        part["text"] = _MARK
        metadata: Json = update["artifactUpdate"].get("metadata") or {}
        metadata[GENERATION] = generation + 1
        return frame if frame._reads_as(update, generation + 1) else None

    def _reads_as(self, event: Json, generation: int) -> bool:
        inner = self._before + _MARK.encode() + self._after
        try:
            return bool(json_text.decode(b"%b%d%b" % (inner, generation, _END)) == event)
        except orjson.JSONDecodeError:
            return False

    def text_of(self, line: bytes, generation: int) -> str | None:
        """Return the text of a line of this frame at that generation; None: the line differs."""
        after = b"%b%d}}}" % (self._after, generation)
        if not (line.startswith(self._before) and line.endswith(after)):
            return None
        try:
            # With the quotation marks around it, so it is one string or no JSON.
            text: str = orjson.loads(line[len(self._before) - 1 : len(line) - len(after) + 1])  # noqa: TID251 - it has no numbers
        except orjson.JSONDecodeError:
            return None
        return text


_BEARING = frozenset({NEW, ADD, OUT, OF_CHILD})

_EXTENDING = frozenset({ADD, OUT, OF_CHILD})

_BARE_ARTIFACT = 2
"""Fields of a chunk that contains only its parts."""


class Compaction:
    """Takes items in order and returns what to append to the task's list.

    It remembers how the list ends. So it must receive every item from some point on, and be
    discarded if what it returned was not written.
    """

    __slots__ = ("_items", "_name", "_next", "_texts", "open")

    def __init__(self) -> None:
        """Start with an unknown end of the list."""
        self._items: list[Item] = []
        self._name: str | None = None
        self.open: Json | None = None
        """The text part at the end of the list.

        While this is the same object, any item that differs only in its text from one that
        continued the part continues it too.
        """
        self._texts: list[str] = []
        """The texts that continue the part, of consecutive generations. They are stored joined."""
        self._next = 0

    def add(self, item: Item) -> None:
        """Add the next item."""
        generation, tag, value = item
        if tag in _EXTENDING and (text := self._continuing_text(tag, value)) is not None:
            self.continue_text(generation, text)
            return
        if self._texts:
            self._join()
        self._items.append(item)
        if tag != META:
            self._remember(tag, value)

    def continue_text(self, generation: int, text: str) -> None:
        """Take an item that continues the text part at the end of the list."""
        if generation != self._next and self._texts:
            self._join()
        self._texts.append(text)
        self._next = generation + 1

    def continue_texts(self, generation: int, texts: list[str]) -> None:
        """Take several such items, from `generation` on."""
        self.continue_text(generation, texts[0])
        self._texts += texts[1:]
        self._next = generation + len(texts)

    def _join(self) -> None:
        texts, self._texts = self._texts, []
        lengths = map(len, texts) if len(texts) > 1 else ()
        self._items.append([self._next - len(texts), TEXTS, "".join(texts), *lengths])

    @property
    def continued_at(self) -> int:
        """Generation of the last item if it continued that part, else 0."""
        return self._next - 1 if self._texts else 0

    def flush(self) -> list[Item]:
        """Return what was added since the last call."""
        if self._texts:
            self._join()
        items, self._items = self._items, []
        return items

    def _continuing_text(self, tag: str, value: Json) -> str | None:
        """Return the text if `value` adds nothing else to the end of the list."""
        if self.open is None:
            return None
        name = value.get("artifactId" if tag == ADD else "messageId")
        parts: list[Json] = value.get("parts") or []
        if name != self._name or len(parts) != 1 or (tag == ADD and len(value) > _BARE_ARTIFACT):
            return None
        part = parts[0]
        if "text" not in part or not same_but_text(self.open, part):
            return None
        text: str = part["text"]
        return text

    def _remember(self, tag: str, value: Json) -> None:
        self._name = self.open = None
        if tag in _BEARING:
            parts = value.get("parts")
            name = value.get("messageId" if tag in {OUT, OF_CHILD} else "artifactId")
            if name and parts and "text" in parts[-1]:
                self._name, self.open = name, parts[-1]


LEARNT_FROM = 8
"""Events with an unknown frame after which learning it pays off: in one entry, or in several."""

_NONE = TaskChange(TaskKey("", "", ""), "")
"""A placeholder for no change, so that what a batch has flushed is not kept."""

_NO_FIELDS = TaskFields()
"""Likewise."""


class Delta:
    """One task as seen by a batch. It outlives the batch, to remember how its lists end.

    Texts and statuses that the batch itself replaces are never sent.
    """

    __slots__ = (
        "_artifacts",
        "_change",
        "_frame",
        "_framed",
        "_generation",
        "_history",
        "_is_working",
        "_log",
        "_standing",
        "_start_by",
        "_stored",
        "_unframed",
        "headers",
        "is_over",
        "key",
        "subject",
        "touched",
    )

    def __init__(self, key: TaskKey, subject: str) -> None:
        """Start without changes in the task `key`, whose log is on `subject`."""
        self.key, self.subject = key, subject
        self.touched = False
        """Whether the batch changes the task."""
        self.is_over = False
        """Whether the task has ended: what stands behind that in its log changes nothing."""
        self._history, self._artifacts = Compaction(), Compaction()
        self._log = ""
        self._frame: ChunkFrame | None = None
        self._framed: Json | None = None
        """The text part that chunks of that frame continue."""
        self._unframed = 0
        """Events since a frame was learned, of entries that end with a chunk of another."""
        self._change = _NONE
        self._is_working = False
        self._standing = _NO_FIELDS
        """What the batch overwrites."""
        self._stored = self._start_by = self._generation = 0
        self.headers: ChunkHeaders | None = None
        """Of the last entry of chunks of the frame, which further ones repeat."""

    def follows(self, stamp: Stamp) -> bool:
        """Return whether an entry that is not a log's first belongs to this task's log."""
        return self._log in ("", stamp.log)

    def begin_entry(self, stamp: Stamp, last: int, sequence: int, stored: int) -> None:
        """Take an entry's headers; `last` is the generation of its last event.

        `sequence` is its stream sequence; NATS stored it at `stored`, ns since 1970.
        """
        change, log = self._change, stamp.log
        if stamp.generation == 1:
            if self._log:
                self._history, self._artifacts = Compaction(), Compaction()
            owner = stamp.owner or ""
            change = self._change = TaskChange(self.key, log, begins=True, owner=owner)
            change.fields = {"log": log, "agent": self.key.agent, "owner": owner, "context": ""}
            self._standing, self._start_by, self._is_working = TaskFields(), 0, False
        elif not self.touched:
            change = self._change = TaskChange(self.key, log)
            self._standing = TaskFields()
        self.touched = True
        self._log, self._stored, self._generation = log, stored, last
        change.fields["generation"], change.fields["sequence"] = str(last), str(sequence)

    @property
    def frame(self) -> ChunkFrame | None:
        """The frame of chunks that continue the end of the artifacts, if known."""
        return self._frame if self._artifacts.open is self._framed else None

    def learn(self, line: bytes, generation: int, events: int) -> None:
        """Learn the frame from the last line of an entry of `events`, if it is a chunk."""
        part = self._artifacts.open
        if part is self._framed or self._artifacts.continued_at != generation:
            return
        self._unframed += events
        if self._unframed >= LEARNT_FROM:
            self._unframed = 0
            self._frame, self._framed = ChunkFrame.of(line, generation), part

    def learn_headers(self, msg: Msg, stamp: Stamp) -> None:
        """Remember the headers of an entry of chunks of the `frame`."""
        if (self.headers is None or not self.headers.fit(stamp)) and isinstance(
            msg, ReceivedMessage
        ):
            self.headers = ChunkHeaders.of(msg.block, stamp)

    def take_texts(self, arrivals: Sequence[Arrival], start: int) -> int:
        """Take those messages from index `start` on that only continue the text; count them.

        Of each, the headers are the last one's but for two numbers, and the body is a line of the
        `frame`. So they change nothing else.
        """
        frame, headers = self.frame, self.headers
        if frame is None or headers is None or self.is_over or headers.stamp.log != self._log:
            return 0
        texts, generation = list[str](), self._generation + 1
        for arrival in islice(arrivals, start, None):
            msg = arrival.msg
            if type(msg) is not ReceivedMessage or not headers.begin(msg.block, generation):
                break
            if (text := frame.text_of(msg.data, generation)) is None:
                break
            texts.append(text)
            generation += 1
        if texts:
            last = arrivals[start + len(texts) - 1]
            self._artifacts.continue_texts(self._generation + 1, texts)
            self.begin_entry(headers.stamp, generation - 1, last.sequence, last.time)
        return len(texts)

    def add_text(self, generation: int, text: str) -> None:
        """Add the text of a chunk of the `frame`."""
        self._artifacts.continue_text(generation, text)

    def add_artifact(self, item: Item | None) -> None:
        """Add one artifact update of the entry."""
        if item is not None:
            self._artifacts.add(item)

    def apply(self, change: Change) -> None:
        """Apply the change of any other event of the entry."""
        for item in change.history:
            self._history.add(item)
        for item in change.artifacts:
            self._artifacts.add(item)
        fields = self._change.fields
        if change.opens:
            fields["context"] = self._change.context = change.context
            if FORK_OF in change.own and (fork := ForkOf.of(change.own)) is not None:
                self._change.copied = fork.generation
        self._change.usage += records_of(change, self._stored, is_working=self._is_working)
        self._standing.apply(change)
        if state := self._standing.state:
            self._change.state = state
            self._is_working, self.is_over = state in AT_WORK, state in FINISHED
        if change.is_input:
            self._apply_input(change, fields)
            self._begin_run(change)
        if change.status is not None and state in RUN_ENDED:
            self._end_run(change.status)

    def _apply_input(self, change: Change, fields: dict[str, str]) -> None:
        """Apply the terms of an input's run."""
        own = change.own
        self._start_by = time_ms(own[START_BY]) if START_BY in own else 0
        fields["run"] = str(change.generation)
        fields["submitted"] = str(self._stored // 1_000_000)
        fields["priority"] = str(own.get(PRIORITY) or NORMAL)
        fields["start_by"] = str(self._start_by)
        if DELEGATION in own and (lineage := Lineage.of(own)) is not None:
            if change.opens:
                self._change.root = lineage.path[0] if lineage.path else lineage.agent
            fields["parent"] = lineage.parent
            fields["parent_agent"] = lineage.agent
            fields["parent_run"] = str(lineage.run)

    def _begin_run(self, change: Change) -> None:
        """Change the task's row in its thread by an input."""
        messages, now = inputs_in(change), self._stored // 1000
        said = message_text(messages[-1]) if messages else ""
        row = self._change.row
        if change.opens:
            first = message_text(messages[0]) if len(messages) > 1 else said
            self._change.row = RowChange(now, now, title=title_of(first), said=said)
            return
        if row is None:
            row = self._change.row = RowChange()
        row.changed, row.said, row.shows_output = now, said, False

    def _end_run(self, status: Json) -> None:
        """Change it by the end of a run, or by its question."""
        row = self._change.row
        if row is None:
            row = self._change.row = RowChange()
        row.changed = row.answered = self._stored // 1000
        said = message_text(status["message"]) if status.get("message") else ""
        row.said, row.shows_output = said or row.said, not said

    @property
    def has_usage(self) -> bool:
        """Whether the batch has usage of the task to count."""
        return bool(self._change.usage)

    def flush(self, timeout: int, silence: int) -> TaskChange:
        """Return the changes of the batch; its task is due as `fall_due` says."""
        change, self._change, self.touched = self._change, _NONE, False
        standing, self._standing = self._standing, _NO_FIELDS
        change.fields |= stored_fields(standing)
        if state := change.state:
            change.fields["state"] = state
            # An answer has no time of its own, and that of a status is known only to its batch.
            change.time = time_of(standing.status if state != BARE_MESSAGE else {}, self._stored)
            stored = self._stored // 1_000_000
            fall_due(change, stored, timeout, silence, self._start_by)
        change.begins_child = change.begins and "parent" in change.fields
        change.history, change.artifacts = self._history.flush(), self._artifacts.flush()
        self._start_by = 0
        return change


def fall_due(
    change: TaskChange, stored: int, timeout: int, silence: int, start_by: int = 0
) -> None:
    """Set when a task in its new state is due; all times in ms.

    A waiting input is due `timeout` after it was stored. A running task is due after `silence`,
    because nothing is done about it before.
    """
    state = change.state
    if state in FINISHED:
        change.ended = stored
    elif state == SUBMITTED:
        due = stored + timeout
        change.due = min(due, start_by) if start_by else due
    elif state in AT_WORK:
        change.due = stored + silence
    elif state == INPUT_REQUIRED:
        change.due = stored


def time_ms(text: object) -> int:
    """Return an RFC 3339 time in milliseconds since 1970; 0: it is not one."""
    try:
        moment = datetime.fromisoformat(str(text))
        return round(moment.timestamp() * 1000) if moment.tzinfo is not None else 0
    except (ValueError, OverflowError):
        return 0


def time_of(status: Json, stored: int) -> int:
    """Return the time of a status in microseconds since 1970; without one, `stored` (ns)."""
    try:
        moment = datetime.fromisoformat(status["timestamp"])
        time = round(moment.timestamp() * 1_000_000)
    except (KeyError, TypeError, ValueError, OverflowError):
        return stored // 1000
    return time if moment.tzinfo is not None and 0 <= time <= LARGEST_NUMBER else stored // 1000
