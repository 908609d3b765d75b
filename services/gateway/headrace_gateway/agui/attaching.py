"""Coming back to a run: behind a cursor, or as of now, during the run and after it.

The protocol has no such thing; both forms are streams that its clients read like any other.
"""

from dataclasses import dataclass

from starlette.responses import Response
from starlette.types import ASGIApp

from headrace.events import Json
from headrace.log import last_entry
from headrace_gateway.a2a.call import Call
from headrace_gateway.a2a.stream_responses import RECOVERED
from headrace_gateway.agui.cursor import FrameCursor
from headrace_gateway.agui.encodings import Encoding
from headrace_gateway.agui.fold import Fold
from headrace_gateway.agui.leads import AfterCursor, AsOfNow, Lead
from headrace_gateway.agui.run_frames import RunFrames
from headrace_gateway.agui.run_stream import RunStream
from headrace_gateway.agui.threads import ThreadRun
from headrace_gateway.feeds import Feed
from headrace_gateway.services import Services


@dataclass(frozen=True, slots=True)
class Attaching:
    """Attaches one caller to runs."""

    services: Services
    call: Call
    encoding: Encoding
    may_be_nothing: bool = False
    """Whether a client that has been told everything gets 204, not the run's end again.

    An EventSource comes back after every stream that ends, until it gets that.
    """

    async def to(self, found: ThreadRun, earlier: list[Json] | None = None) -> ASGIApp:
        """Return the stream of the run, behind the call's cursor if it has one.

        `earlier` are messages of the thread's earlier runs, for a client that has none.

        Raises:
            TaskUnknown, LogLost, BusUnavailable: the log is gone, or can't be read now.
        """
        feed = await self.services.feeds.acquire(found.key)
        try:
            cursor = await self._cursor(feed)
            if cursor is not None and self.may_be_nothing and await _is_told(feed, found, cursor):
                await self.services.feeds.release(feed)
                return Response(status_code=204)
        except BaseException:
            await self.services.feeds.release(feed)
            raise
        lead: Lead = AfterCursor(cursor) if cursor else AsOfNow(feed.head, earlier)
        is_lost = bool(self.call.cursor) and cursor is None
        return RunStream(
            self.services.event_streams,
            feed,
            found.log,
            RunFrames(found.leg, lead),
            self.encoding,
            headers={RECOVERED: "false"} if is_lost else None,
        )

    async def _cursor(self, feed: Feed) -> FrameCursor | None:
        """Return the call's cursor; None: it has none, or one of a past that is lost."""
        cursor = FrameCursor.parse(self.call.cursor)
        if cursor is None or cursor.log != feed.log:
            return None
        if cursor.generation > feed.head:
            # Another gateway's feed may have been ahead of ours.
            last = await last_entry(self.services.bus, feed.key)
            if last is None or cursor.generation > last.last_generation:
                return None
        return cursor


async def _is_told(feed: Feed, found: ThreadRun, cursor: FrameCursor) -> bool:
    """Tell whether the run is over and `cursor` is at its end."""
    fold, reader = Fold(found.leg), feed.reader(found.leg - 1)
    while blocks := await reader.read_now():
        for block in blocks:
            frames = fold.read(block.entry)
            if fold.over:
                return cursor.place >= frames[-1].place
    return False
