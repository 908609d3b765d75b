"""Streams of Hector's AG-UI events: from which cursor they are read, and how they are rendered."""

from collections.abc import Callable, Sequence

from headrace.model.cursor import FrameCursor
from headrace.model.events import Json
from headrace_gateway.feeds import Feed, FeedBlock
from headrace_gateway.protocols.hector.events import DONE, HectorEvent, sse
from headrace_gateway.protocols.hector.fold import HectorFold
from headrace_gateway.streaming.renderer import Cause, Interruption, Messages, Renderer


class HectorRenderer(Renderer):
    """Renders one task for one client; ends with `ending`, or with an error event."""

    __slots__ = ("_encode", "_ending", "_fold", "_interrupted", "_place", "_start")

    def __init__(
        self,
        start: int,
        place: tuple[int, int] | None,
        encode: Callable[[list[HectorEvent]], Messages],
        ending: Messages = (),
        *,
        interrupted: Callable[[Interruption], Messages] | None = None,
    ) -> None:
        """Fold the log after generation `start`; render the events after `place`.

        `interrupted` renders an early end where Hector's error event does not apply.
        """
        self._interrupted = interrupted
        self._start, self._place = start, place or (0, 0)
        self._encode, self._ending, self._fold = encode, ending, HectorFold()

    def render(self, blocks: Sequence[FeedBlock], after: int) -> Messages:  # noqa: ARG002 - the fold needs all entries
        """Render the next events."""
        events = [one for block in blocks for one in self._fold.read(block.entry, self._start)]
        return self._encode([one for one in events if one.place > self._place])

    def ending(self) -> Messages:
        """Return the end of the stream."""
        return self._ending

    def interrupted(self, why: Interruption) -> Messages:
        """Render an early end of the stream."""
        if self._interrupted is not None:
            return self._interrupted(why)
        code = "log_lost" if why.cause is Cause.LOST else "disconnected"
        return self._encode(self._fold.broken(code, why.reason))


def behind(cursor: str) -> tuple[int, int] | None:
    """Return the position after which to render, from a Hector or an A2A cursor; None means all."""
    if (place := FrameCursor.parse(cursor)) is not None:
        return place.place
    generation = cursor.rpartition(":")[2]
    return (int(generation), 10**9) if generation.isdecimal() else None


def read_from(cursor: str) -> str:
    """Return the A2A cursor after which the log must be read for a client at `cursor`."""
    place = FrameCursor.parse(cursor)
    # Possibly with earlier events: the cursor may be inside those of its generation.
    return cursor if place is None else f"{place.log}:{max(place.generation - 1, 1)}"


async def nothing_left(feed: Feed, start: int, cursor: str) -> bool:
    """Return whether `cursor` is the end of a log that has ended; folds the log to find out."""
    after = behind(cursor)
    if after is None or not feed.ended or after[0] < feed.head:
        return False
    fold, reader, last = HectorFold(), feed.reader(start), (0, 0)
    while blocks := await reader.read():
        for block in blocks:
            last = max([last, *(event.place for event in fold.read(block.entry, start))])
    return after >= last


def frames(log: str, start: int, cursor: str, ending: bytes) -> HectorRenderer:
    """Return a renderer of the events after `cursor` as server-sent events.

    The fold starts after generation `start`; cursors start with `log`.
    """

    def encode(events: list[HectorEvent]) -> Messages:
        return (sse(log, events),) if events else ()

    return HectorRenderer(start, behind(cursor), encode, (ending or DONE,))


def messages(
    log: str,
    start: int,
    cursor: str,
    *,
    message: Callable[[str, Json], bytes],
    ending: Messages,
    interrupted: Callable[[Interruption], Messages],
) -> HectorRenderer:
    """Return a renderer that passes each event's cursor and content to `message`."""

    def encode(events: list[HectorEvent]) -> Messages:
        return [message(event.cursor(log), event.json()) for event in events]

    return HectorRenderer(start, behind(cursor), encode, ending, interrupted=interrupted)
