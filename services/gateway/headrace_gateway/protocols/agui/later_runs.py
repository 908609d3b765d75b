"""A thread's runs in one stream: the newest, or the one of the client's cursor, and all later ones.

The runs follow each other in the order of their inputs, each with its RUN_STARTED and its end. One
that begins before the end of another is streamed after it.
"""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import Any, NamedTuple

from headrace.log.thread_log import ThreadName, open_thread
from headrace.model.cursor import FrameCursor
from headrace.model.errors import LogLost, TaskUnknown
from headrace.model.subjects import stream_of_shard
from headrace.model.task import TaskKey
from headrace_gateway.call import Call, check_unchanged
from headrace_gateway.feeds import FeedReader
from headrace_gateway.protocols.agui.encodings import Encoding
from headrace_gateway.protocols.agui.frame import AguiFrame
from headrace_gateway.protocols.agui.open_run import attach
from headrace_gateway.protocols.agui.run_frames import OpenedRun, RunFrames
from headrace_gateway.protocols.agui.run_stream import DISCONNECTED, LOG_LOST
from headrace_gateway.protocols.agui.threads import RunThread, ThreadRun, is_input
from headrace_gateway.services import Services
from headrace_gateway.streaming.renderer import Cause, Interruption, Messages, Renderer
from headrace_gateway.streaming.sse import HttpStream
from headrace_gateway.thread_feed import ThreadFeed


class _Later(NamedTuple):
    """A run that begins later, ordered as runs of a thread are."""

    time: str
    task: str
    number: int
    key: TaskKey


class FramesOfRun(NamedTuple):
    """The next frames of one run."""

    log: str
    frames: list[AguiFrame]


@dataclass(slots=True)
class _StreamedRun:
    reader: FeedReader
    log: str
    frames: RunFrames


class ThreadRuns:
    """A source for one client: one run after the other."""

    def __init__(
        self, services: Services, first: OpenedRun, after: ThreadRun, thread: ThreadFeed
    ) -> None:
        """Begin with `first`, the stream of the run `after`; find later ones in `thread`."""
        self._services, self._first, self._thread = services, first, thread
        self.name = thread.name
        self._newest = _Later(after.time, after.key.task, after.number, after.key)
        self._later = list[_Later]()
        """A heap."""
        self._run: _StreamedRun | None = None
        self._holding = AsyncExitStack()
        self.after = self.most = 0
        self.at_end = self.run_ended = False

    @property
    def frames(self) -> RunFrames | None:
        """The run that is being streamed. None: none is."""
        return None if self._run is None else self._run.frames

    @asynccontextmanager
    async def held(self) -> AsyncIterator["ThreadRuns"]:
        """Hold the feeds for the length of a block."""
        async with self._holding:
            # At once, for else nobody would end its use if NATS did not answer.
            await self._open(self._first)
            async with self._thread.held():
                yield self

    def reader(self, after: int) -> "ThreadRuns":  # noqa: ARG002 - it has one client
        """Return this source."""
        return self

    async def read_now(self) -> Sequence[FramesOfRun]:
        """Return the next frames."""
        while self._run is not None or await self._next():
            run = self._run
            if run is None or not (blocks := await run.reader.read_now()):
                return []
            frames = [one for block in blocks for one in run.frames.read(block.entry)]
            if run.frames.over:
                self._run = None
                await self._holding.aclose()
            if frames:
                return [FramesOfRun(run.log, frames)]
        return []

    async def wait(self) -> None:
        """Return when there may be more, or after `wake` is called."""
        await (self._thread if self._run is None else self._run.reader).wait()

    def wake(self) -> None:
        """Make `wait` return."""
        self._thread.wake()
        if self._run is not None:
            self._run.reader.wake()

    async def _next(self) -> bool:
        """Open the next run; return whether there is one."""
        while await self._has_later():
            if await self._begin(heappop(self._later)):
                return True
        return False

    async def _has_later(self) -> bool:
        """Look for runs that begin later; return whether there are any that were not streamed."""
        # All that there are: event streams are read one after the other, and each has an order of
        # its own.
        while found := await self._thread.entries_now():
            for one in found:
                if one.entry is not None and is_input(one.entry):
                    run = _Later(one.entry.time, one.key.task, one.entry.stamp.run, one.key)
                    if run > self._newest:
                        heappush(self._later, run)
        return bool(self._later)

    async def _begin(self, later: _Later) -> bool:
        try:
            held = await self._services.feeds.open(later.key)
        except TaskUnknown:
            return False  # It has been erased meanwhile.
        async with held as feed:
            await self._open(OpenedRun(held.hand_over(), feed.log, RunFrames(later.number)))
        return True

    async def _open(self, opened: OpenedRun) -> None:
        feed = await self._holding.enter_async_context(opened.held.hand_over())
        self._run = _StreamedRun(feed.reader(0), opened.log, opened.frames)


class RunsRenderer(Renderer):
    """Renders one run after the other."""

    __slots__ = ("_check", "_encode", "_runs")

    def __init__(
        self,
        runs: ThreadRuns,
        encode: Callable[[str, list[AguiFrame]], bytes],
        check: Callable[[], None],
    ) -> None:
        """Render `runs` with `encode`; `check` raises if the credentials have changed."""
        self._runs, self._encode, self._check = runs, encode, check

    def render(self, blocks: Sequence[Any], after: int) -> Messages:  # noqa: ARG002
        """Return the frames."""
        self._check()
        return [self._encode(one.log, one.frames) for one in blocks]

    def is_over(self, *, run_ended: bool) -> bool:  # noqa: ARG002
        """Return False: later runs follow."""
        return False

    def interrupted(self, why: Interruption) -> Messages:
        """Return RUN_ERROR if a run is being streamed."""
        frames = self._runs.frames
        if frames is None or frames.over:
            return ()
        code = LOG_LOST if why.cause is Cause.LOST else DISCONNECTED
        return [self._encode("", frames.broken(code, why.reason))]


async def open_runs(services: Services, call: Call, thread: str) -> tuple[ThreadRuns, Call]:
    """Return the runs of a caller's thread from the cursor's on, else from the newest on.

    Raises:
        RunUnknown: the thread has no run.
        HeadraceError: as `RunThread` and `attach`.
    """
    found = await _run_at(RunThread(services, call, thread), call.cursor)
    name = ThreadName(call.caller.tenant, call.caller.owner, thread, call.agent)
    log = await open_thread(services.bus, name)
    log.places[stream_of_shard(found.key.shard)] = found.sequence
    opened = await attach(services, call, found, with_thread=True)
    feed = ThreadFeed(services.bus, services.links, log)
    return ThreadRuns(services, opened, found, feed), call


async def _run_at(thread: RunThread, stated: str) -> ThreadRun:
    """Return the run that the cursor is in; without one, the newest."""
    cursor = FrameCursor.parse(stated)
    if cursor is None:
        return await thread.newest()
    runs = [
        one
        for one in await thread.runs()
        if one.log == cursor.log and one.number <= cursor.generation
    ]
    if not runs:
        raise LogLost("the cursor is of no run of this thread; connect without it")
    return runs[-1]


def runs_stream(
    services: Services, runs: tuple[ThreadRuns, Call], encoding: Encoding
) -> HttpStream:
    """Return the stream of a thread's runs."""
    source, call = runs

    def check() -> None:
        check_unchanged(services, call.connection.headers, call.caller, call.card)

    def encode(log: str, frames: list[AguiFrame]) -> bytes:
        return encoding.encode(log, frames) if frames else b""

    renderer = RunsRenderer(source, encode, check)
    return HttpStream(services.subscriptions, source.held(), 0, renderer, body=encoding.body)
