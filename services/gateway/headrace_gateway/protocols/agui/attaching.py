"""Coming back to a run: behind a cursor, or as of now, during the run and after it.

The protocol has no such thing; both forms are streams that its clients read like any other.
"""

from headrace.log import last_entry
from headrace.model.events import Json
from headrace_gateway.call import Call
from headrace_gateway.feeds import Feed
from headrace_gateway.protocols.agui.cursor import FrameCursor
from headrace_gateway.protocols.agui.fold import Fold
from headrace_gateway.protocols.agui.joins import AfterCursor, AsOfNow, Join
from headrace_gateway.protocols.agui.opened import Opened
from headrace_gateway.protocols.agui.run_frames import RunFrames
from headrace_gateway.protocols.agui.threads import ThreadRun
from headrace_gateway.services import Services


async def attach(
    services: Services, call: Call, found: ThreadRun, earlier: list[Json] | None = None
) -> Opened:
    """Return the run as its client is to read it: behind the call's cursor if it has one.

    `earlier` are messages of the thread's earlier runs, for a client that has none.

    Raises:
        TaskUnknown, BusUnavailable: the log is gone, or can't be read now.
    """
    feed = await services.feeds.acquire(found.key)
    async with services.feeds.handed_on(feed):
        cursor = await _cursor(services, call, feed)
    join: Join = AfterCursor(cursor) if cursor else AsOfNow(feed.head, earlier)
    is_lost = bool(call.cursor) and cursor is None
    return Opened(feed, found.log, RunFrames(found.number, join), recovered=not is_lost)


async def _cursor(services: Services, call: Call, feed: Feed) -> FrameCursor | None:
    """Return the call's cursor; None: it has none, or one of a past that is lost."""
    cursor = FrameCursor.parse(call.cursor)
    if cursor is None or cursor.log != feed.log:
        return None
    if cursor.generation > feed.head:
        # Another gateway's feed may have been ahead of ours.
        last = await last_entry(services.bus, feed.key)
        if last is None or cursor.generation > last.last_generation:
            return None
    return cursor


async def is_at_end(opened: Opened, cursor: FrameCursor | None) -> bool:
    """Tell whether the run is over and `cursor` is at its end.

    Raises:
        LogLost, BusUnavailable: as `Reader.read_now`.
    """
    if cursor is None or not opened.recovered:
        return False
    fold = Fold(opened.frames.number)
    reader = opened.feed.reader(opened.frames.number - 1)
    while blocks := await reader.read_now():
        for block in blocks:
            frames = fold.read(block.entry)
            if fold.over:
                return cursor.place >= frames[-1].place
    return False
