"""Where the parts of a fold put their events: numbered, timed, and closed again."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from headrace.model.events import Json
from headrace_gateway.protocols.agui.frame import AguiFrame

type Event = tuple[str, Json]
"""An AG-UI event's type and its fields."""

type Key = tuple[str, str]
"""What kind of item it is and its id as the agent gave it."""


@dataclass(slots=True)
class OpenItem:
    """Something that has begun and must end before the run does."""

    opening: tuple[Event, ...]
    closing: tuple[Event, ...]
    id: str = ""
    """Under which the client knows it."""
    pieces: list[str] = field(default_factory=list)
    """What has been said in it; shared with the view."""
    ended: bool = False


@dataclass(slots=True)
class _Sink:
    """Where the frames of all outputs of one stream go, in one order."""

    frames: list[AguiFrame] = field(default_factory=list)
    generation: int = 0
    number: int = 0
    time: Json = field(default_factory=dict)
    alone: "tuple[Output, Key, OpenItem] | None" = None
    """The last item begun of which the stream has one at a time, whoever speaks."""


class Output:
    """Collects the frames of one generation after the other."""

    def __init__(self, subagent: str = "", sink: _Sink | None = None) -> None:
        """Start with nothing said and nothing open; `branch` makes those of subagents."""
        self.open: dict[Key, OpenItem] = {}
        """In the order in which they began."""
        self.subagent = subagent
        """The subagent run that speaks here; empty: the agent itself."""
        self._sink = sink or _Sink()
        self._whose: Json = {"subagentRunId": subagent} if subagent else {}
        self._branches: list[Output] = []

    def branch(self, subagent: str) -> "Output":
        """Return where the subagent run of that id speaks; all it opens is its own."""
        branch = Output(subagent, self._sink)
        self._branches.append(branch)
        return branch

    def use(self, name: str) -> str:
        """Return what ids are claimed for: a subagent's are its own, whatever they are."""
        return f"{name}@{self.subagent}" if self.subagent else name

    def at(self, time: int | None) -> None:
        """Give what follows the time `time`, milliseconds since 1970; None: it has none."""
        self._sink.time = {} if time is None else {"timestamp": time}

    def turn_to(self, generation: int) -> None:
        """Count frames from 0 again, as those of `generation`."""
        self._sink.generation, self._sink.number = generation, 0

    def emit(self, kind: str, **fields: object) -> None:
        """Say one event."""
        sink = self._sink
        # Whose an event is, it may say itself: a subagent's own subagent.
        event = {"type": kind, **sink.time, **self._whose, **fields}
        sink.frames.append(AguiFrame(sink.generation, sink.number, event))
        sink.number += 1

    def take(self) -> list[AguiFrame]:
        """Return what was said since the last call."""
        frames, self._sink.frames = self._sink.frames, []
        return frames

    def begin(self, key: Key, item: OpenItem) -> OpenItem:
        """Say that `item` begins."""
        self.open[key] = item
        self._say(item.opening)
        return item

    def begin_alone(self, key: Key, item: OpenItem) -> None:
        """Say that `item` begins, and before it that the one begun here before it ends.

        For events that carry no id: a client can tell only one such item at a time from another,
        and it makes no difference to it which agent of the run speaks.
        """
        if (before := self._sink.alone) is not None and not before[2].ended:
            before[0].end(before[1])
        self._sink.alone = self, key, self.begin(key, item)

    def end(self, key: Key) -> bool:
        """Say that the item ends, if it is open; return whether it was."""
        item = self.open.pop(key, None)
        if item is None:
            return False
        self._close(item)
        return True

    def end_all(self) -> None:
        """End what is open, the youngest first, and before it what subagents have open."""
        for branch in reversed(self._branches):
            branch.end_all()
        self.end_own()

    def end_own(self, but: Key | None = None) -> None:
        """End what is open here, the youngest first, except `but`; subagents go on."""
        for key in reversed([*self.open]):
            if key != but:
                self.end(key)

    def _close(self, item: OpenItem) -> None:
        item.ended = True
        self._say(item.closing)

    def _say(self, events: Iterable[Event]) -> None:
        for kind, fields in events:
            self.emit(kind, **fields)
