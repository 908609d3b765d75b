"""The fold of one run's log into AG-UI events; deterministic for a given log."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from types import MappingProxyType
from typing import NamedTuple

from headrace.model import json_text, parts
from headrace.model.delegation import CHILD
from headrace.model.entry import Entry
from headrace.model.events import ATTEMPT, DISCARDED_AFTER, RETRACTED, STEP, TAKEN, Json
from headrace.model.run_ids import run_digest
from headrace.model.step import ShownStep
from headrace.model.task import FAILED, INTERRUPTED, REJECTED, TERMINAL, WORKING
from headrace_gateway.protocols.agui.attempts import AttemptEvents
from headrace_gateway.protocols.agui.blocks import TEXT
from headrace_gateway.protocols.agui.call_names import CallNames, OpenCalls
from headrace_gateway.protocols.agui.frame import AguiFrame
from headrace_gateway.protocols.agui.lifecycle import RunLifecycle
from headrace_gateway.protocols.agui.output import OpenItem, Output
from headrace_gateway.protocols.agui.part_events import PartEvents, render_message
from headrace_gateway.protocols.agui.run import AguiRun
from headrace_gateway.protocols.agui.snapshot import emit_messages
from headrace_gateway.protocols.agui.subagents import EarlierSubagent, Subagents
from headrace_gateway.protocols.agui.view import View

_PLAIN_ARTIFACT = 2
"""Number of fields: id and parts."""
_PLAIN_PART = 2
"""Number of fields: text and metadata."""


class PlainChunks:
    """A fast path for chunks that differ from an earlier chunk only in their text."""

    def __init__(self, output: Output) -> None:
        """Emit to `output`."""
        self._output = output
        self._known: dict[str, tuple[Json, OpenItem]] = {}

    def learn(self, artifact: Json) -> None:
        """Remember an artifact's chunk that the general path has emitted."""
        if len(artifact["parts"]) != 1:
            return
        part = artifact["parts"][0]
        block = parts.block_id(part) or artifact["artifactId"]
        item = self._output.open.get((TEXT.use, block))
        if item is not None and "metadata" in part and not parts.encrypted_value(part):
            self._known[artifact["artifactId"]] = part["metadata"], item

    def emit(self, event: Json) -> bool:
        """Emit the event if it is such a chunk; return whether it is."""
        update = event.get("artifactUpdate")
        if update is None or "lastChunk" in update or not update.get("append"):
            return False
        artifact = update["artifact"]
        known = self._known.get(artifact["artifactId"])
        if known is None or len(artifact) != _PLAIN_ARTIFACT or len(artifact["parts"]) != 1:
            return False
        part, (metadata, item) = artifact["parts"][0], known
        if item.ended or len(part) != _PLAIN_PART or part.get("metadata") != metadata:
            return False
        text = part.get("text")
        if text and isinstance(text, str):
            item.pieces.append(text)
            self._output.emit("TEXT_MESSAGE_CONTENT", messageId=item.id, delta=text)
        return isinstance(text, str)


UNREADABLE = "headrace.unreadable"
"""Name of the CUSTOM event that replaces a malformed event."""

_NO_METADATA: Json = {}


class Earlier(NamedTuple):
    """What a run must know of the task's earlier runs, for its ids to be other ones or the same."""

    open_calls: OpenCalls = MappingProxyType({})
    subagents: Mapping[str, EarlierSubagent] = MappingProxyType({})


class EventFold:
    """Folds the events of one run into one output."""

    def __init__(self, output: Output, run: AguiRun, number: int, earlier: Earlier) -> None:
        """Fold `run`, whose input has generation `number`, after `earlier` runs."""
        output.digest = run_digest(run.task, number)
        self.view = View.at_start(run.messages, run.state)
        self._calls = CallNames(output, self.view, earlier.open_calls)
        self.lifecycle = RunLifecycle(output, self.view, self._calls, run)
        self.attempts = AttemptEvents(output, self.view, number)
        self.over = False
        self.wants_raw = run.raw
        self._output, self._run = output, run
        self._parts = PartEvents(
            output, self.view, self._calls, modern=run.modern, thinking=run.thinking
        )
        self._chunks = PlainChunks(output)
        self._subagents = Subagents(output, self.view, run, earlier.subagents)

    def left(self) -> Earlier:
        """Return what the task's next run must know."""
        return Earlier(self._calls.open(), self._subagents.seen())

    def read(self, event: Json, generation: int) -> None:
        """Read one event of the log.

        Workers may be written in any language, so an event may be malformed. The client then gets a
        CUSTOM event in its place, and the run continues.
        """
        try:
            if not self._chunks.emit(event):
                self._read(event, generation)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            # Python's error messages differ between versions; frames must be deterministic.
            reason = (
                str(error) if isinstance(error, ValueError) else "an event has an invalid shape"
            )
            value = {"generation": generation, "reason": reason}
            self._output.emit("CUSTOM", name=UNREADABLE, value=value)

    def _read(self, event: Json, generation: int) -> None:
        if (update := event.get("artifactUpdate")) is not None:
            self._artifact(update)
        elif (update := event.get("statusUpdate")) is not None:
            self._status(update, generation)
        elif (message := event.get("message")) is not None:
            self._render_message(message, generation, final=True)
            self.lifecycle.answered()
            self.over = True

    def _artifact(self, update: Json) -> None:
        if (update.get("metadata") or _NO_METADATA).get(RETRACTED):
            # This update is for clients that hold discarded output; the fold has removed it
            # already.
            return
        artifact, append = update["artifact"], bool(update.get("append"))
        name, chunk = artifact["artifactId"], artifact.get("parts", [])
        if not append:
            self._retract(name, chunk)
        rest = [part for part in chunk if not self._parts.emit(part, name)]
        if rest or not append:
            self._parts.activities.artifact({**artifact, "parts": rest}, append=append)
        if update.get("lastChunk"):
            for block in _blocks(name, chunk):
                self._parts.text.end(block)
        elif not rest:
            self._chunks.learn(artifact)

    def _retract(self, name: str, chunk: list[Json]) -> None:
        """Retract the artifact's earlier output: a chunk without `append` replaces it."""
        retracted = [self._parts.text.retract(block) for block in _blocks(name, chunk)]
        if any(retracted):
            emit_messages(self._output, self.view)

    def _status(self, update: Json, generation: int) -> None:
        status, metadata = update["status"], update.get("metadata") or _NO_METADATA
        state = status["state"]
        if (child := metadata.get(CHILD)) is not None:
            self._subagents.emit(child, status, generation)
            return
        if ATTEMPT in metadata:
            self.attempts.begin(metadata)
        if STEP in metadata and (step := ShownStep.of(metadata)) is not None:
            self._parts.step(step)
        if TAKEN in metadata:
            # This is the user's own message, which an AG-UI client already has.
            return
        if "message" in status and state not in {FAILED, REJECTED}:
            self._render_message(status["message"], generation, final=state != WORKING)
        if state in TERMINAL or state in INTERRUPTED:
            self.lifecycle.ended(state, update, f"{self._run.id}.{generation}")
            self.over = True

    def _render_message(self, message: Json, generation: int, *, final: bool) -> None:
        name = message.get("messageId") or f"{self._run.id}.{generation}"
        render_message(self._parts, message, name, final=final)


def _blocks(name: str, chunk: list[Json]) -> list[str]:
    """Return the ids of the chunk's blocks without duplicates, in a deterministic order."""
    return list(dict.fromkeys([name, *(parts.block_id(part) or name for part in chunk)]))


_CALLS, _MESSAGES = parts.TOOL_CALL.encode(), parts.MESSAGES_SNAPSHOT.encode()
_CHILD, _DISCARDS = CHILD.encode(), DISCARDED_AFTER.encode()


def _decides_about_ids(line: bytes) -> bool:
    """Return whether the event may name a call or subagent; most are pieces of text."""
    return _CALLS in line or _CHILD in line or _DISCARDS in line or _MESSAGES in line


class NamedRuns:
    """Reads a task's runs for the ids that clients have received, without making frames."""

    def __init__(self) -> None:
        """Start at the log's first entry."""
        self._number = 0
        self._events: EventFold | None = None

    def read(self, entry: Entry) -> None:
        """Read the next entry."""
        number = entry.stamp.run
        if entry.generation <= number <= entry.last_generation:
            run = AguiRun.of_input(entry.events[number - entry.generation], number)
            self._events = EventFold(Output(), run, number, self.left())
            self._number = number
        if self._events is None or number != self._number:
            return
        for generation, line in enumerate(entry.lines, entry.generation):
            if generation != number and _decides_about_ids(line):
                self._events.read(json_text.decode(line), generation)
        if entry.stamp.checkpoint is not None:
            self._events.attempts.save(entry.last_generation)

    def left(self) -> Earlier:
        """Return what a run after these must know."""
        return Earlier() if self._events is None else self._events.left()


RAW_SOURCE = "a2a"
"""Source of RAW events that hold the log's own events."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)


class Fold:
    """Reads the entries of a log in order, from the run's input on, and returns frames.

    The frames are one AG-UI run: the first is RUN_STARTED, the last RUN_FINISHED or RUN_ERROR, and
    every item that starts also ends.
    """

    def __init__(self, number: int) -> None:
        """Fold the run whose input has generation `number`."""
        self._number = number
        self._output = Output()
        self._events: EventFold | None = None
        self._before: NamedRuns | None = None
        self._over = False

    @property
    def over(self) -> bool:
        """Whether the run has ended; no frames follow."""
        return self._over or (self._events is not None and self._events.over)

    @property
    def view(self) -> View | None:
        """The state of a client that has read all frames; None before the input."""
        return self._events.view if self._events else None

    def read(self, entry: Entry) -> list[AguiFrame]:
        """Return the frames of the next entry."""
        if self.over:
            return []
        if self._events is None and entry.generation < self._number:
            self._before = self._before or NamedRuns()
            self._before.read(entry)
            if entry.last_generation < self._number:
                return []
        self._output.at(_milliseconds(entry.time))
        for generation, event in enumerate(entry.parsed(), entry.generation):
            if generation >= self._number and not self.over:
                self._output.turn_to(generation)
                self._event(event, generation, entry)
        self._apply_stamp(entry)
        return self._output.pop_frames()

    def broken(self, code: str, message: str) -> list[AguiFrame]:
        """Return the frames that end a run whose log cannot be read further.

        They are not in the log and come after the last generation read. A client that resumes with
        their cursor continues with the log.
        """
        if self._events is None:
            self._output.emit("RUN_ERROR", message=message, code=code)
        elif not self.over:
            self._events.lifecycle.broken(code, message)
        self._over = True
        return self._output.pop_frames()

    def _event(self, event: Json, generation: int, entry: Entry) -> None:
        if self._events is None:
            if generation == self._number:
                self._start(event)
        elif entry.stamp.run != self._number:
            self._events.lifecycle.superseded()
            self._over = True
        else:
            self._raw(event)
            self._events.read(event, generation)

    def _raw(self, event: Json) -> None:
        if self._events is not None and self._events.wants_raw:
            self._output.emit("RAW", event=event, source=RAW_SOURCE)

    def _start(self, event: Json) -> None:
        earlier = Earlier() if self._before is None else self._before.left()
        run = AguiRun.of_input(event, self._number)
        self._events = EventFold(self._output, run, self._number, earlier)
        self._events.lifecycle.started()
        self._raw(event)

    def _apply_stamp(self, entry: Entry) -> None:
        """Handle what only the entry's headers contain: checkpoints and the run's end."""
        if self._events is None:
            return
        if entry.stamp.checkpoint is not None:
            self._events.attempts.save(entry.last_generation)
        if entry.ends_run and not self.over:
            # The final event was unreadable; without this, the client would wait forever.
            self._events.lifecycle.broken("failed", "the run's last event can't be read")
            self._over = True


def _milliseconds(time: str) -> int | None:
    return (datetime.fromisoformat(time) - _EPOCH) // _MILLISECOND if time else None
