"""Opening runs: new ones, those that go on, and those that a client comes back to."""

import asyncio
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain

from headrace.log import last_entry
from headrace.model import events
from headrace.model.events import INTERRUPTS, PENDING_TOOL_CALLS, Json
from headrace.model.task import SUBMITTED, WORKING
from headrace_gateway.call import Call
from headrace_gateway.feeds import Feed
from headrace_gateway.protocols.agui.errors import ResumeMismatch, RunUnknown, ThreadBusy
from headrace_gateway.protocols.agui.fold import Fold
from headrace_gateway.protocols.agui.frame import FrameCursor
from headrace_gateway.protocols.agui.history import past_of
from headrace_gateway.protocols.agui.named_run import NamedRun
from headrace_gateway.protocols.agui.run_frames import AfterCursor, AsOfNow, Join, Opened, RunFrames
from headrace_gateway.protocols.agui.run_input import RunInput
from headrace_gateway.protocols.agui.threads import RunThread, ThreadRun
from headrace_gateway.refusals import TaskEnded
from headrace_gateway.services import Services
from headrace_gateway.tasks.accepted import Accepted, FollowUp
from headrace_gateway.tasks.ids import task_key
from headrace_gateway.tasks.terms import check_parts, terms


async def attach(
    services: Services, call: Call, found: ThreadRun, earlier: list[Json] | None = None
) -> Opened:
    """Return the run as its client is to read it: behind the call's cursor if it has one.

    AG-UI has no such thing; what comes is a stream that its clients read like any other.

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
        LogLost, BusUnavailable: as `FeedReader.read_now`.
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


@dataclass(frozen=True, slots=True)
class WaitingTask:
    """A task that waits for input."""

    task: str
    interrupts: frozenset[str]
    """Ids of what it asks."""
    pending: frozenset[str]
    """Ids of the tool calls that the client is to carry out."""


async def answered(services: Services, call: Call, asked: RunInput) -> str | None:
    """Return the id of the task that `asked` goes on with; None: it begins one.

    Raises:
        ResumeMismatch: it resumes what does not wait, or not all of it.
        StateUnavailable, BusUnavailable: try again.
    """
    if not asked.resumes and not asked.results:
        return None
    waiting = await _waiting(services, call, asked.thread)
    if not asked.resumes:
        return next((one.task for one in waiting if one.pending & asked.results), None)
    for one in waiting:
        if one.interrupts == asked.resumes:
            return one.task
    is_open = sorted({name for one in waiting for name in one.interrupts})
    raise ResumeMismatch(f"resume: must answer all interrupts of one task; open are {is_open}")


async def _waiting(services: Services, call: Call, thread: str) -> list[WaitingTask]:
    found: list[WaitingTask] = []
    async for task, runs in RunThread(services, call, thread).waiting():
        key = task_key(services.settings, call.caller, call.agent, task)
        last = await last_entry(services.bus, key)
        if last is None or not runs:
            continue
        update = last.events[-1].get("statusUpdate") or {}
        default = f"{runs[-1].run.id}.{last.last_generation}"
        found.append(_read(task, update.get("metadata") or {}, default))
    return found


def _read(task: str, metadata: Json, default: str) -> WaitingTask:
    if pending := metadata.get(PENDING_TOOL_CALLS):
        return WaitingTask(task, frozenset(), frozenset(pending))
    interrupts = metadata.get(INTERRUPTS)
    names = [interrupt["id"] for interrupt in interrupts] if interrupts else [default]
    return WaitingTask(task, frozenset(names), frozenset())


_MOST = 100
"""Tasks in each state that are looked at: the newest ones, which wait for older ones themselves."""


async def make_way(services: Services, call: Call, thread: str) -> list[str]:
    """Return the tasks that a run which begins now is to wait for.

    What an interrupting agent is at work on has been canceled, and is none of them.

    Raises:
        ThreadBusy: the agent is at work in the thread, and takes nothing else meanwhile.
        StateUnavailable, BusUnavailable: try again.
    """
    card = services.directory.card(call.agent)
    if card is None:
        return []
    busy = await _at_work(RunThread(services, call, thread))
    if card.follow_ups == "reject" and busy:
        raise ThreadBusy(f"thread {thread} has an active run, and its agent allows one at a time")
    if card.follow_ups != "interrupt":
        return busy
    for task in busy:
        with suppress(TaskEnded):
            await services.cancelling.cancel(call.caller, call.agent, task)
    return []


async def _at_work(thread: RunThread) -> list[str]:
    waiting, working = await asyncio.gather(_of(thread, SUBMITTED), _of(thread, WORKING))
    # One that is begun in between is in both lists.
    return list(dict.fromkeys(chain(working, waiting)))


async def _of(thread: RunThread, status: str) -> list[str]:
    return [task["id"] async for task in thread.tasks(_MOST, status)]


async def begin(services: Services, call: Call, asked: RunInput) -> Accepted:
    """Accept the run that `asked` describes; the caller releases its feed.

    What resumes an interrupt, or answers tool calls that a task waits for, goes on with the task.

    Raises:
        ResumeMismatch: it resumes what does not wait.
        ThreadBusy: the agent is at work in the thread, and takes nothing else meanwhile.
        A2AError, HeadraceError: as `check_parts`, `Submissions.start` and `Submissions.follow_up`.
    """
    _check_taken(call, asked)
    metadata = asked.metadata | call.marks
    metadata |= terms(call.caller, call.card, asked.wishes, "forwardedProps.headrace.")
    task = await answered(services, call, asked)
    if task is not None:
        follow_up = FollowUp(task, asked.message, asked.thread, metadata)
        return await services.submissions.follow_up(call.caller, call.agent, follow_up)
    if ahead := await make_way(services, call, asked.thread):
        metadata[events.BEHIND] = ahead
    return await services.submissions.start(
        call.caller, call.agent, asked.message, context=asked.thread, metadata=metadata
    )


def _check_taken(call: Call, asked: RunInput) -> None:
    """Return if the agent takes what the user said; answers to its own questions it takes.

    Raises:
        ContentTypeNotSupportedError: it does not.
    """
    if asked.resumes:
        return
    check_parts(asked.message, call.card)


async def open_run(services: Services, call: Call, asked: RunInput) -> Opened:
    """Return the run that `asked` describes: begun or, with a cursor, come back to.

    Raises:
        RunUnknown: the client has been in it, and it is not kept any more.
        CodedError, A2AError, HeadraceError: as `begin` and `attach`.
    """
    if call.cursor and (found := await _known(services, call, asked)) is not None:
        return await attach(services, call, found)
    accepted = await begin(services, call, asked)
    return Opened(accepted.feed, accepted.log, RunFrames(accepted.generation))


async def open_again(services: Services, call: Call, named: NamedRun) -> Opened:
    """Return a run that has been started; without a run's id, the thread's newest.

    Raises:
        RunUnknown: the caller has no such run.
        HeadraceError: as `RunThread` and `attach`.
    """
    thread = RunThread(services, call, named.thread)
    if named.run is not None:
        return await attach(services, call, await thread.find(named.run))
    newest = await thread.newest()
    earlier = await past_of(thread, before=newest)
    return await attach(services, call, newest, earlier.messages)


async def _known(services: Services, call: Call, asked: RunInput) -> ThreadRun | None:
    """Return the run that the client's cursor is of; None: it is an older run's, or none.

    Raises:
        RunUnknown: the run has been erased. Begun again, its work would be done twice.
    """
    thread = RunThread(services, call, asked.thread)
    try:
        return await thread.find(asked.run)
    except RunUnknown:
        cursor = FrameCursor.parse(call.cursor)
        if cursor is None or any(run.log == cursor.log for run in await thread.runs()):
            return None
        raise
