"""Opening the streams of new, continued and existing runs."""

from headrace.log import last_entry
from headrace.model.cursor import FrameCursor
from headrace.model.errors import TaskUnknown
from headrace_gateway.call import Call
from headrace_gateway.feeds import Feed
from headrace_gateway.protocols.agui.errors import RunUnknown
from headrace_gateway.protocols.agui.fold import Fold
from headrace_gateway.protocols.agui.history import past_of
from headrace_gateway.protocols.agui.named_run import NamedRun
from headrace_gateway.protocols.agui.run_frames import (
    AfterCursor,
    FrameFilter,
    MessagesOf,
    OpenedRun,
    RunFrames,
    SnapshotStart,
)
from headrace_gateway.protocols.agui.run_input import RunInput
from headrace_gateway.protocols.agui.submit import submit
from headrace_gateway.protocols.agui.threads import RunThread, ThreadRun
from headrace_gateway.protocols.agui.view import View
from headrace_gateway.services import Services

_EMITTED = frozenset({"assistant", "tool", "reasoning", "activity"})
"""Roles of messages that agents emit, of which a client may have sent copies."""


async def attach(
    services: Services, call: Call, found: ThreadRun, *, with_thread: bool = False
) -> OpenedRun:
    """Return the stream of an existing run, after the call's cursor if it has one.

    AG-UI defines no reconnection; its clients read the result like any other stream. Without a
    cursor it begins with the run's messages, or `with_thread`, with those of earlier runs, too.

    Raises:
        RunUnknown: the run has been erased since it was found.
        StateUnavailable, BusUnavailable: its log, or its thread, cannot be read now.
    """
    try:
        held = await services.feeds.open(found.key)
    except TaskUnknown as erased:
        raise RunUnknown(f"run {found.run.id} of thread {found.run.thread}: {erased}") from erased
    async with held as feed:
        cursor = await _cursor(services, call, feed)
        join: FrameFilter
        if cursor is not None:
            join = AfterCursor(cursor)
        else:
            messages = await _messages(services, call, found, with_thread=with_thread)
            join = SnapshotStart(feed.head, messages)
        is_lost, frames = bool(call.cursor) and cursor is None, RunFrames(found.number, join)
        return OpenedRun(held.hand_over(), found.log, frames, recovered=not is_lost)


async def _messages(
    services: Services, call: Call, found: ThreadRun, *, with_thread: bool
) -> MessagesOf:
    """Return what decides which messages a client without any receives of the run `found`."""
    has_copies = any(message["role"] in _EMITTED for message in found.run.messages)
    if not with_thread and not has_copies:
        return View.shown
    past = await past_of(RunThread(services, call, found.run.thread), before=found)
    return past.messages.merged if with_thread else past.messages.corrected


async def _cursor(services: Services, call: Call, feed: Feed) -> FrameCursor | None:
    """Return the call's cursor; None if it has none, or if the cursor's log is lost."""
    cursor = FrameCursor.parse(call.cursor)
    if cursor is None or cursor.log != feed.log:
        return None
    if cursor.generation > feed.head:
        # Another gateway's feed may have been ahead of this one.
        last = await last_entry(services.bus, feed.key)
        if last is None or cursor.generation > last.last_generation:
            return None
    return cursor


async def is_at_end(opened: OpenedRun, cursor: FrameCursor | None) -> bool:
    """Return whether the run has ended and `cursor` is at its end.

    Raises:
        LogLost, BusUnavailable: as `FeedReader.read_now`.
    """
    if cursor is None or not opened.recovered:
        return False
    fold = Fold(opened.frames.number)
    reader = opened.feed.reader(0)
    while blocks := await reader.read_now():
        for block in blocks:
            frames = fold.read(block.entry)
            if fold.over:
                return cursor.place >= frames[-1].place
    return False


async def open_run(services: Services, call: Call, run_input: RunInput) -> OpenedRun:
    """Start the run that `run_input` describes or, with a cursor, reconnect to it.

    Raises:
        RunUnknown: the client has read the run, but it is no longer stored.
        CodedError, A2AError, HeadraceError: as `submit` and `attach`.
    """
    if call.cursor and (found := await _known(services, call, run_input)) is not None:
        return await attach(services, call, found)
    accepted = await submit(services, call, run_input)
    return OpenedRun(accepted.held, accepted.log, RunFrames(accepted.generation))


async def open_again(services: Services, call: Call, named: NamedRun) -> OpenedRun:
    """Return the stream of an existing run; without a run id, of the thread's newest.

    Raises:
        RunUnknown: the caller has no such run.
        HeadraceError: as `RunThread` and `attach`.
    """
    thread = RunThread(services, call, named.thread)
    if named.run is not None:
        return await attach(services, call, await thread.find(named.run))
    return await attach(services, call, await thread.newest(), with_thread=True)


async def _known(services: Services, call: Call, run_input: RunInput) -> ThreadRun | None:
    """Return the run if it exists; None if the cursor belongs to another run, or is invalid.

    Raises:
        RunUnknown: the run has been erased. Starting it again would do its work twice.
    """
    thread = RunThread(services, call, run_input.thread)
    try:
        return await thread.find(run_input.run)
    except RunUnknown:
        cursor = FrameCursor.parse(call.cursor)
        if cursor is None or any(run.log == cursor.log for run in await thread.runs()):
            return None
        raise
