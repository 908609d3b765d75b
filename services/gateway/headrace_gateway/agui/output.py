"""Where the parts of a fold put their events: numbered, timed, and closed again."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from headrace.events import Json
from headrace_gateway.agui.frame import Frame

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


class Output:
    """Collects the frames of one generation after the other."""

    def __init__(self) -> None:
        """Start with nothing said and nothing open."""
        self.open: dict[Key, OpenItem] = {}
        """In the order in which they began."""
        self._frames: list[Frame] = []
        self._generation = self._number = 0
        self._time: Json = {}

    def at(self, time: int | None) -> None:
        """Give what follows the time `time`, milliseconds since 1970; None: it has none."""
        self._time = {} if time is None else {"timestamp": time}

    def turn_to(self, generation: int) -> None:
        """Count frames from 0 again, as those of `generation`."""
        self._generation, self._number = generation, 0

    def emit(self, kind: str, **fields: object) -> None:
        """Say one event."""
        event = {"type": kind, **self._time, **fields}
        self._frames.append(Frame(self._generation, self._number, event))
        self._number += 1

    def take(self) -> list[Frame]:
        """Return what was said since the last call."""
        frames, self._frames = self._frames, []
        return frames

    def begin(self, key: Key, item: OpenItem) -> OpenItem:
        """Say that `item` begins."""
        self.open[key] = item
        self._say(item.opening)
        return item

    def end(self, key: Key) -> bool:
        """Say that the item ends, if it is open; return whether it was."""
        item = self.open.pop(key, None)
        if item is None:
            return False
        self._close(item)
        return True

    def end_all(self) -> None:
        """End what is open, the youngest first."""
        while self.open:
            _, item = self.open.popitem()
            self._close(item)

    def _close(self, item: OpenItem) -> None:
        item.ended = True
        self._say(item.closing)

    def _say(self, events: Iterable[Event]) -> None:
        for kind, fields in events:
            self.emit(kind, **fields)
