"""One client's frames of one run, from where its stream begins: the start, a cursor, or now.

A run may be joined at any time, and by clients that have seen it before. What such a stream begins
with stands under the cursor of the last frame that it accounts for, so whoever is cut off again
goes on from there.
"""

from dataclasses import dataclass
from typing import Protocol

from headrace.model.entry import Entry
from headrace.model.events import Json
from headrace_gateway.feeds import Feed
from headrace_gateway.protocols.agui.fold import Fold
from headrace_gateway.protocols.agui.frame import AguiFrame, FrameCursor
from headrace_gateway.protocols.agui.snapshot import messages_snapshot

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
    """Remembers how each item that is open was opened."""

    def __init__(self) -> None:
        """Begin with nothing open."""
        self._open: dict[_Key, AguiFrame] = {}

    def take(self, frame: AguiFrame) -> None:
        """Take note of what `frame` opens or closes."""
        kind = frame.event["type"]
        if (start := _STARTS.get(kind)) is not None:
            self._open[_key(start, frame)] = frame
        elif (end := _ENDS.get(kind)) is not None:
            self._open.pop(_key(end, frame), None)

    def openings(self) -> list[AguiFrame]:
        """Return the frames that open it all again, in the order in which it was opened."""
        return list(self._open.values())


def _key(named: tuple[str, str], frame: AguiFrame) -> _Key:
    """Return what is open. Ids are the run's, but two subagents may have steps of one name."""
    kind, field = named
    whose = frame.event.get("subagentRunId", "") if kind == "step" else ""
    return kind, whose, frame.event.get(field, "")


class Join(Protocol):
    """Says which frames of a run one client gets."""

    begun: bool
    """Whether the client has been given a frame."""

    def admit(self, frames: list[AguiFrame], fold: Fold, through: int) -> list[AguiFrame]:
        """Return what the client gets of the next `frames`, with which `fold` is `through`.

        `through` is the generation of the last event that has been folded.
        """


class FromStart:
    """All of the run, for the client that started it."""

    begun = False

    def admit(self, frames: list[AguiFrame], fold: Fold, through: int) -> list[AguiFrame]:  # noqa: ARG002
        """Admit everything."""
        self.begun = self.begun or bool(frames)
        return frames


class AfterCursor:
    """For a client that kept what it was sent: RUN_STARTED, what is open again, then the rest."""

    def __init__(self, cursor: FrameCursor) -> None:
        """Begin behind `cursor`, a place that the log has."""
        self.begun = False
        self._cursor, self._open = cursor, OpenItems()
        self._started: AguiFrame | None = None

    def admit(self, frames: list[AguiFrame], fold: Fold, through: int) -> list[AguiFrame]:
        """Hold frames back up to the cursor; begin with what they left open."""
        if self.begun:
            return frames
        after = [frame for frame in frames if frame.place > self._cursor.place]
        for frame in frames[: len(frames) - len(after)]:
            self._started = self._started or frame
            self._open.take(frame)
        if not after and through < self._cursor.generation and not fold.over:
            return []
        self.begun = bool(after) or self._started is not None
        # A run that is over tells its end again: a stream without one would read as a success.
        return [*self._opening(), *(after or (frames[-1:] if fold.over else []))]

    def _opening(self) -> list[AguiFrame]:
        if self._started is None:
            return []
        return [self._cursor.on(frame) for frame in (self._started, *self._open.openings())]


class AsOfNow:
    """For a client that has nothing: RUN_STARTED, state, messages, what is open, then the rest."""

    def __init__(self, head: int, earlier: list[Json] | None = None) -> None:
        """Begin when the fold has reached generation `head`.

        `earlier` are AG-UI messages of the thread's earlier runs.
        """
        self.begun = False
        self._head, self._earlier = head, earlier or []
        self._open = OpenItems()
        self._started: AguiFrame | None = None
        self._last: AguiFrame | None = None

    def admit(self, frames: list[AguiFrame], fold: Fold, through: int) -> list[AguiFrame]:
        """Hold frames back up to the head; begin with what they come to."""
        if self.begun:
            return frames
        for frame in frames:
            self._started = self._started or frame
            self._open.take(frame)
            self._last = frame
        if self._last is None or (through < self._head and not fold.over):
            return []
        self.begun = True
        return [*self._opening(fold, self._last), *([self._last] if fold.over else [])]

    def _opening(self, fold: Fold, last: AguiFrame) -> list[AguiFrame]:
        if self._started is None or fold.view is None:
            return []
        time = {key: last.event[key] for key in ("timestamp",) if key in last.event}
        known = {message["id"] for message in fold.view.shown()}
        earlier = [message for message in self._earlier if message["id"] not in known]
        snapshots: list[Json] = [
            {"type": "STATE_SNAPSHOT", **time, "snapshot": fold.view.state},
            {"type": "MESSAGES_SNAPSHOT", **time, **messages_snapshot(fold.view, earlier)},
        ]
        opened = [] if fold.over else self._open.openings()
        events = [self._started.event, *snapshots, *(frame.event for frame in opened)]
        return [AguiFrame(last.generation, last.number, event) for event in events]


class RunFrames:
    """Folds a run and hands out what its client gets."""

    def __init__(self, number: int, join: Join | None = None) -> None:
        """Fold the run whose input has generation `number`; the stream begins with `join`."""
        self.number = number
        self._fold, self._join = Fold(number), join or FromStart()

    @property
    def over(self) -> bool:
        """Whether the run has ended: nothing follows."""
        return self._fold.over

    def read(self, entry: Entry) -> list[AguiFrame]:
        """Return the client's frames of the log's next entry."""
        frames = self._fold.read(entry)
        return self._join.admit(frames, self._fold, entry.last_generation)

    def broken(self, code: str, message: str) -> list[AguiFrame]:
        """Return the frames that end a stream whose log can be read no further."""
        frames = self._fold.broken(code, message)
        # Who has been sent nothing has nothing open.
        return frames if self._join.begun else frames[-1:]


@dataclass(slots=True)
class Opened:
    """A feed and what a client gets of it. Whoever has it must release the feed."""

    feed: Feed
    log: str
    """The log id."""
    frames: RunFrames
    recovered: bool = True
    """False: the client's past is lost, and it is told what stands for it."""
