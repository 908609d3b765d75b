"""One client's frames of one run, from the start of its stream: the run's start, a cursor or now.

Clients may join a run at any time, including clients that have read it before. The opening frames
of such a stream have the cursor of the last frame that they cover, so that a client can resume from
there.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from headrace.model.cursor import FrameCursor
from headrace.model.entry import Entry
from headrace.model.events import Json
from headrace_gateway.feeds import FeedHolder, HeldFeed
from headrace_gateway.protocols.agui.fold import Fold
from headrace_gateway.protocols.agui.frame import AguiFrame
from headrace_gateway.protocols.agui.snapshot import snapshot_of
from headrace_gateway.protocols.agui.view import View

type MessagesOf = Callable[[View], list[Json]]

_STARTS = {
    "TEXT_MESSAGE_START": ("text", "messageId"),
    "TOOL_CALL_START": ("call", "toolCallId"),
    "REASONING_START": ("span", "messageId"),
    "REASONING_MESSAGE_START": ("reasoning", "messageId"),
    "STEP_STARTED": ("step", "stepName"),
    "SUBAGENT_STARTED": ("subagent", "subagentRunId"),
    "THINKING_START": ("span", ""),
    "THINKING_TEXT_MESSAGE_START": ("reasoning", ""),
}
_ENDS = {
    "TEXT_MESSAGE_END": ("text", "messageId"),
    "TOOL_CALL_END": ("call", "toolCallId"),
    "REASONING_END": ("span", "messageId"),
    "REASONING_MESSAGE_END": ("reasoning", "messageId"),
    "STEP_FINISHED": ("step", "stepName"),
    "SUBAGENT_FINISHED": ("subagent", "subagentRunId"),
    "SUBAGENT_ERROR": ("subagent", "subagentRunId"),
    "THINKING_END": ("span", ""),
    "THINKING_TEXT_MESSAGE_END": ("reasoning", ""),
}

type _Key = tuple[str, str, str]


class OpenItems:
    """Tracks the opening frame of each open item."""

    def __init__(self) -> None:
        """Start with no open items."""
        self._open: dict[_Key, AguiFrame] = {}

    def record(self, frame: AguiFrame) -> None:
        """Record what `frame` opens or closes."""
        kind = frame.event["type"]
        if (start := _STARTS.get(kind)) is not None:
            self._open[_key(start, frame)] = frame
        elif (end := _ENDS.get(kind)) is not None:
            self._open.pop(_key(end, frame), None)

    def openings(self) -> list[AguiFrame]:
        """Return the frames that open all open items again, in their original order."""
        return list(self._open.values())


def _key(named: tuple[str, str], frame: AguiFrame) -> _Key:
    """Return the item's key. Ids are unique in a run; step names are unique per subagent."""
    kind, field = named
    whose = frame.event.get("subagentRunId", "") if kind == "step" else ""
    return kind, whose, frame.event.get(field, "")


class FrameFilter(Protocol):
    """Decides which frames of a run one client gets."""

    has_started: bool
    """Whether the client has received a frame."""

    def admit(self, frames: list[AguiFrame], fold: Fold, through: int) -> list[AguiFrame]:
        """Return the client's part of the next `frames`.

        Args:
            frames: the new frames.
            fold: the fold after these frames.
            through: generation of the last folded event.
        """


class FromStart:
    """The whole run, for the client that started it."""

    has_started = False

    def admit(self, frames: list[AguiFrame], fold: Fold, through: int) -> list[AguiFrame]:  # noqa: ARG002
        """Return all frames."""
        self.has_started = self.has_started or bool(frames)
        return frames


class AfterCursor:
    """For a client that kept earlier frames: RUN_STARTED, the open items again, then the rest."""

    def __init__(self, cursor: FrameCursor) -> None:
        """Start after `cursor`, a position that the log has."""
        self.has_started = False
        self._cursor, self._open = cursor, OpenItems()
        self._started: AguiFrame | None = None

    def admit(self, frames: list[AguiFrame], fold: Fold, through: int) -> list[AguiFrame]:
        """Withhold frames up to the cursor; then start with the items that they left open."""
        if self.has_started:
            return frames
        after = [frame for frame in frames if frame.place > self._cursor.place]
        for frame in frames[: len(frames) - len(after)]:
            self._started = self._started or frame
            self._open.record(frame)
        if not after and through < self._cursor.generation and not fold.over:
            return []
        self.has_started = bool(after) or self._started is not None
        # An ended run repeats its end, because a stream without one would look like a success.
        return [*self._opening(), *(after or (frames[-1:] if fold.over else []))]

    def _opening(self) -> list[AguiFrame]:
        if self._started is None:
            return []
        opening = (self._started, *self._open.openings())
        return [AguiFrame(*self._cursor.place, frame.event) for frame in opening]


class SnapshotStart:
    """For a client without frames: RUN_STARTED, state, messages, open items, then the rest."""

    def __init__(self, head: int, messages: MessagesOf | None = None) -> None:
        """Start when the fold has reached generation `head`.

        `messages` returns the snapshot's messages for the view of the run (default: the view's).
        """
        self.has_started = False
        self._head, self._messages = head, messages or View.shown
        self._open = OpenItems()
        self._started: AguiFrame | None = None
        self._last: AguiFrame | None = None

    def admit(self, frames: list[AguiFrame], fold: Fold, through: int) -> list[AguiFrame]:
        """Withhold frames up to the head; then start with their result."""
        if self.has_started:
            return frames
        for frame in frames:
            self._started = self._started or frame
            self._open.record(frame)
            self._last = frame
        if self._last is None or (through < self._head and not fold.over):
            return []
        self.has_started = True
        return [*self._opening(fold, self._last), *([self._last] if fold.over else [])]

    def _opening(self, fold: Fold, last: AguiFrame) -> list[AguiFrame]:
        if self._started is None or fold.view is None:
            return []
        time = {key: last.event[key] for key in ("timestamp",) if key in last.event}
        snapshots: list[Json] = [
            {"type": "STATE_SNAPSHOT", **time, "snapshot": fold.view.state.value},
            {"type": "MESSAGES_SNAPSHOT", **time, **snapshot_of(self._messages(fold.view))},
        ]
        opened = [] if fold.over else self._open.openings()
        events = [self._started.event, *snapshots, *(frame.event for frame in opened)]
        return [AguiFrame(last.generation, last.number, event) for event in events]


class RunFrames:
    """Folds a run and returns its client's frames."""

    def __init__(self, number: int, join: FrameFilter | None = None) -> None:
        """Fold the run whose input has generation `number`; `join` determines where it starts."""
        self.number = number
        self._fold, self._join = Fold(number), join or FromStart()

    @property
    def over(self) -> bool:
        """Whether the run has ended; no frames follow."""
        return self._fold.over

    def read(self, entry: Entry) -> list[AguiFrame]:
        """Return the client's frames of the log's next entry."""
        frames = self._fold.read(entry)
        return self._join.admit(frames, self._fold, entry.last_generation)

    def broken(self, code: str, message: str) -> list[AguiFrame]:
        """Return the frames that end a stream whose log cannot be read further."""
        frames = self._fold.broken(code, message)
        # A client that has received no frames has no open items.
        return frames if self._join.has_started else frames[-1:]


@dataclass(slots=True)
class OpenedRun(FeedHolder):
    """A feed and one client's frames of it."""

    held: HeldFeed
    log: str
    """The log id."""
    frames: RunFrames
    recovered: bool = True
    """False if the client's cursor was lost and the stream replaces it with snapshots."""
