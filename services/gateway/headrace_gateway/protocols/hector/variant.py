"""What Hector's clients may ask for on A2A's routes: shorter requests, other answers and events."""

from collections.abc import Callable

import orjson
from starlette.requests import HTTPConnection

from headrace.model.entry import Entry
from headrace.model.events import Json
from headrace_gateway.extensions import AGUI_MEDIA_TYPES
from headrace_gateway.feeds import Feed
from headrace_gateway.problems import Problem
from headrace_gateway.protocols.hector import shapes
from headrace_gateway.protocols.hector.events import HectorEvent, sse
from headrace_gateway.protocols.hector.fold import HectorFold
from headrace_gateway.protocols.hector.renderer import HectorCursor, HectorRenderer, behind
from headrace_gateway.protocols.hector.requests import completed
from headrace_gateway.protocols.hector.whole_calls import WholeCalls
from headrace_gateway.streaming.renderer import Interruption, Messages, Renderer
from headrace_gateway.streaming.sse import frame

_DONE = b"event: done\ndata: {}\n\n"
"""What ends every stream of server-sent events."""

_DONE_MARK = b"data: [DONE]\n\n"
"""What ends it for clients that ask for this."""


class MessageEvents:
    """Events over REST in Hector's shape, each named ``message``."""

    name = "message"

    def render(self, entry: Entry, skip: int) -> tuple[bytes, ...]:
        """Return the entry's events after its first `skip` as frames."""
        log, first = entry.stamp.log, entry.generation
        frames = [
            frame(f"{log}:{first + offset}", orjson.dumps(shapes.event(event)), self.name)
            for offset, event in enumerate(entry.parsed())
            if offset >= skip
        ]
        return (b"".join(frames),)


class HectorShapes:
    """Answers as Hector's A2A has them."""

    def __init__(self) -> None:
        """Have one renderer for all clients."""
        self.entry_renderer = MessageEvents()
        self.event_name, self.empty = self.entry_renderer.name, shapes.EMPTY

    def answer(self, operation: str, result: Json) -> Json:
        """Return an operation's result."""
        return shapes.answered(operation, result)

    def event(self, event: Json) -> Json:
        """Return an event of a stream."""
        return shapes.event(event)

    def renderer(self, inner: Renderer, shown: int) -> Renderer:
        """Return what has `inner` show a stream behind generation `shown`, read from its run on."""
        return WholeCalls(inner, shown)

    def error(self, problem: Problem) -> tuple[int, Json]:
        """Return the HTTP status and the body of a problem."""
        details: Json = {"reason": problem.reason, **problem.metadata}
        if problem.violations:
            details["fields"] = {one.field: one.rule for one in problem.violations}
        return shapes.refused(problem.grpc_status, problem.message, details)


class HectorEvents:
    """Hector's AG-UI events, folded from a task's log."""

    def read_from(self, cursor: str) -> str:
        """Return the cursor of A2A behind which the log is to be read for a client at `cursor`."""
        place = HectorCursor.parse(cursor)
        return cursor if place is None else place.before

    async def nothing_left(self, feed: Feed, start: int, cursor: str) -> bool:
        """Tell whether `cursor` is the last of a log that has ended, by folding it."""
        after = behind(cursor)
        if after is None or not feed.ended or after[0] < feed.head:
            return False
        fold, reader, last = HectorFold(), feed.reader(start), (0, 0)
        while blocks := await reader.read():
            for block in blocks:
                last = max([last, *(event.place for event in fold.read(block.entry, start))])
        return after >= last

    def frames(self, log: str, start: int, cursor: str, ending: bytes) -> HectorRenderer:
        """Return what renders the events behind `cursor` as server-sent events."""

        def encode(events: list[HectorEvent]) -> Messages:
            return (sse(log, events),) if events else ()

        return HectorRenderer(start, behind(cursor), encode, (ending or _DONE,))

    def messages(
        self,
        log: str,
        start: int,
        cursor: str,
        *,
        message: Callable[[str, Json], bytes],
        ending: Messages,
        interrupted: Callable[[Interruption], Messages],
    ) -> HectorRenderer:
        """Return what renders each event as the `message` of its cursor and itself."""

        def encode(events: list[HectorEvent]) -> Messages:
            return [message(event.cursor(log), event.json()) for event in events]

        return HectorRenderer(start, behind(cursor), encode, ending, interrupted=interrupted)


class Hector:
    """How a client asks for Hector's forms, and what they are."""

    def __init__(self) -> None:
        """Have them all."""
        self.shapes, self.events = HectorShapes(), HectorEvents()

    def wants_shapes(self, request: HTTPConnection) -> bool:
        """Tell whether the client wants answers in the shapes of Hector's A2A."""
        return request.query_params.get("format") == "hector"

    def wants_events(self, request: HTTPConnection) -> bool:
        """Tell whether the client wants Hector's AG-UI events instead of A2A's own."""
        if request.query_params.get("format") == "agui":
            return True
        accept = ",".join(request.headers.getlist("accept")).lower()
        return any(media_type in accept for media_type in AGUI_MEDIA_TYPES)

    def ending(self, request: HTTPConnection) -> bytes:
        """Return what a stream ends with: nothing, unless the client asks for something."""
        if request.query_params.get("done") == "1":
            return _DONE_MARK
        return _DONE if self.wants_shapes(request) else b""

    def complete(self, params: Json) -> Json:
        """Return SendMessage's parameters with what Hector's clients leave out."""
        return completed(params)


HECTOR = Hector()
