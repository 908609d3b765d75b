"""The output of a fold: numbers and times events, and closes open items."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from headrace.model.events import Json
from headrace.model.run_ids import is_minted, run_digest, unique_id
from headrace_gateway.protocols.agui.frame import AguiFrame

type Event = tuple[str, Json]
"""Type and fields of an AG-UI event."""

type Key = tuple[str, str]
"""Kind of an item, and its id as given by the agent."""


@dataclass(slots=True)
class OpenItem:
    """An item that has started and must end before the run does."""

    opening: tuple[Event, ...]
    closing: tuple[Event, ...]
    id: str = ""
    """The id that the client receives."""
    pieces: list[str] = field(default_factory=list)
    """Content so far; shared with the view."""
    ended: bool = False


@dataclass(slots=True)
class _Sink:
    """Collects the frames of all outputs of one stream, in one order."""

    frames: list[AguiFrame] = field(default_factory=list)
    generation: int = 0
    number: int = 0
    time: Json = field(default_factory=dict)
    alone: "tuple[Output, Key, OpenItem] | None" = None
    """The last item started of which a stream may have only one open, across all outputs."""


class Output:
    """Collects the frames of successive generations."""

    def __init__(self, subagent: str = "", sink: _Sink | None = None) -> None:
        """Start with no frames and no open items; use `branch` for subagents."""
        self.open: dict[Key, OpenItem] = {}
        """Open items, in the order in which they started."""
        self.subagent = subagent
        """The subagent run that this output belongs to; empty for the agent itself."""
        self.digest = run_digest(subagent, 1) if subagent else ""
        """Stands for the run in ids (see `run_ids`). The agent's own is set with its run."""
        self._sink = sink or _Sink()
        self._whose: Json = {"subagentRunId": subagent} if subagent else {}
        self._branches: list[Output] = []

    def branch(self, subagent: str) -> "Output":
        """Return a separate output for the subagent run with that id."""
        branch = Output(subagent, self._sink)
        self._branches.append(branch)
        return branch

    def unique(self, own: str) -> str:
        """Return the id that clients receive for `own`, the agent's id of a message."""
        if self.subagent and is_minted(own):
            return own  # by the worker of the subagent's run
        return unique_id(own, self.digest)

    def unique_call(self, own: str, number: int) -> str:
        """Return the id that clients receive for `own`, the agent's id of a tool call.

        `number` is 2 where the run makes the second call with that id.
        """
        if not self.subagent:
            return unique_id(own, self.digest, number)
        suffix = f"_{number}" if number > 1 else ""
        return f"{own}@{self.subagent}{suffix}"

    def use(self, name: str) -> str:
        """Return the use for claiming ids; each subagent has its own."""
        return f"{name}@{self.subagent}" if self.subagent else name

    def at(self, time: int | None) -> None:
        """Set the time of the following events, in milliseconds since 1970; None for no time."""
        self._sink.time = {} if time is None else {"timestamp": time}

    def turn_to(self, generation: int) -> None:
        """Number the following frames from 0, as those of `generation`."""
        self._sink.generation, self._sink.number = generation, 0

    def emit(self, kind: str, **fields: object) -> None:
        """Emit one event."""
        sink = self._sink
        # Fields may override the subagent run, for events about a subagent's own subagent.
        event = {"type": kind, **sink.time, **self._whose, **fields}
        sink.frames.append(AguiFrame(sink.generation, sink.number, event))
        sink.number += 1

    def pop_frames(self) -> list[AguiFrame]:
        """Return the frames emitted since the last call."""
        frames, self._sink.frames = self._sink.frames, []
        return frames

    def begin(self, key: Key, item: OpenItem) -> OpenItem:
        """Emit the start of `item`."""
        self.open[key] = item
        self._emit_all(item.opening)
        return item

    def begin_alone(self, key: Key, item: OpenItem) -> None:
        """Emit the start of `item`, after the end of the last item started this way.

        For events without an id, of which a client can track only one item at a time, whichever
        agent of the run emits it.
        """
        if (before := self._sink.alone) is not None and not before[2].ended:
            before[0].end(before[1])
        self._sink.alone = self, key, self.begin(key, item)

    def end(self, key: Key) -> bool:
        """Emit the end of an item if it is open; return whether it was."""
        item = self.open.pop(key, None)
        if item is None:
            return False
        self._close(item)
        return True

    def end_all(self) -> None:
        """End all open items, newest first; those of subagents come before the own ones."""
        for branch in reversed(self._branches):
            branch.end_all()
        self.end_own()

    def end_own(self, but: Key | None = None) -> None:
        """End the open items of this output except `but`, newest first; subagents continue."""
        for key in reversed([*self.open]):
            if key != but:
                self.end(key)

    def _close(self, item: OpenItem) -> None:
        item.ended = True
        self._emit_all(item.closing)

    def _emit_all(self, events: Iterable[Event]) -> None:
        for kind, fields in events:
            self.emit(kind, **fields)
