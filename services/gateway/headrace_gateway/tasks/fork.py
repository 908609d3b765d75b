"""Forking: a new task that begins with the past of one of the caller's tasks.

The source is only read. What a fork does is carried out again by each repetition of its request
that finds it unfinished, so it needs no cleaning up.
"""

from contextlib import suppress
from dataclasses import dataclass

from headrace.jetstream.connection import Bus
from headrace.jetstream.objects import FileOwner
from headrace.log import last_entry, writer_of
from headrace.model.entry import Entry
from headrace.model.errors import Fenced, LogLost, TaskUnknown
from headrace.model.events import IS_ANSWER, TRACEPARENT, WAITING, Json
from headrace.model.fork import ForkOf, ForkPoint
from headrace.model.run import Run, RunTerms
from headrace.model.subjects import NORMAL
from headrace.model.task import INPUT_REQUIRED, TaskKey
from headrace.state_client import StateClient
from headrace.tasks.admission import AdmittedRun
from headrace.tasks.background_runs import BackgroundRuns
from headrace.tasks.continue_ import next_input
from headrace.tasks.fork import (
    Fork,
    Forked,
    copy_past,
    fork_at,
    fork_point,
    hand_over,
    is_copy,
)
from headrace_gateway.background_work import BackgroundWork
from headrace_gateway.refusals import Malformed, TaskBusy, Violation
from headrace_gateway.request_span import note_task
from headrace_gateway.server.auth.caller import Caller
from headrace_gateway.tasks.idempotency import Idempotency, KeyedRequest
from headrace_gateway.tasks.ids import query_of
from headrace_gateway.tasks.submission import RunAppends, Submissions

_ROUNDS = 50
"""Maximum number of tries against other gateways that carry out the same request."""


@dataclass(frozen=True, slots=True)
class ForkRequest:
    """A caller's request to fork."""

    caller: Caller
    source: TaskKey
    generation: int | None
    """The last generation of the past, at most. None: the task's current one."""
    message: Json | None = None
    """The A2A v1.0 Message with which it continues. None: as the source did."""
    metadata: Json | None = None
    """Metadata of the message's input."""
    traceparent: str | None = None
    """W3C trace context of the request."""
    keyed: KeyedRequest | None = None
    """The request, if it has an Idempotency-Key."""


class TaskForker:
    """Forks tasks."""

    def __init__(
        self,
        bus: Bus,
        state: StateClient,
        submissions: Submissions,
        *,
        appends: RunAppends,
        idempotency: Idempotency,
        background: BackgroundWork,
    ) -> None:
        """Use these services; a fork finishes in `background` if its client disconnects."""
        self._bus, self._state, self._submissions = bus, state, submissions
        self._appends, self._idempotency, self._background = appends, idempotency, background

    async def fork(self, request: ForkRequest) -> tuple[TaskKey, str]:
        """Create a fork and return its key and context; with a key, the same ones each time.

        Raises:
            KeyReused: the key was used for another request.
            TaskUnknown: no such task of this caller and agent, or its beginning is gone.
            Malformed: the task has no such generation.
            AgentUnknown: the agent is gone.
            QuotaExceeded, TooManyWaiting: as `RunAppends.admit`.
            EventTooLarge, BusUnavailable, Unsettled: as `Submissions.submit`.
            StateUnavailable: the task can't be looked up.
        """
        place = self._submissions.place(request.caller, request.source.agent, None)
        if request.keyed is None:
            forking = self._fork(request, *place)
        else:
            forking = self._fork_once(request, request.keyed, *place)
        return await self._background.run(forking)

    async def _fork_once(
        self, request: ForkRequest, keyed: KeyedRequest, key: TaskKey, context: str
    ) -> tuple[TaskKey, str]:
        async with self._idempotency.one_at_a_time(keyed):
            claim = await self._idempotency.claim(keyed, key, context)
            await self._idempotency.check_unfinished(claim)
            return await self._fork(request, claim.key, claim.record.context)

    async def _fork(self, request: ForkRequest, key: TaskKey, context: str) -> tuple[TaskKey, str]:
        """Begin the fork at `key`, or do what is left of that."""
        note_task(key.task, context)
        for _ in range(_ROUNDS):
            # Another gateway may be carrying out the same request.
            with suppress(Fenced):
                await self._begin(request, key, context)
                return key, context
        raise TaskBusy(f"task {key.task} is being started")

    async def _begin(self, request: ForkRequest, key: TaskKey, context: str) -> None:
        last = await last_entry(self._bus, key)
        begun = None if last is None else await fork_at(self._bus, key)
        if last is not None and not (begun is not None and _is_beginning(begun, last)):
            return
        source, owner = request.source, request.caller.owner
        found = await self._state.get(query_of(request.caller, source, history_length=0))
        requested = request.generation if begun is None else begun.requested
        most = _checked_generation(requested, found.generation)
        try:
            of, point = await self._source(request, found.sequence, most)
            fork = Fork(source, key, owner, context, of, point)
            past = _CopiedPast(self._bus, fork, found.sequence, request)
            if request.message is not None:
                await self._with_message(past, request.message)
            elif point.run_ended:
                await past.copied()
            else:
                await self._with_run(past)
        except LogLost as loss:
            raise TaskUnknown(f"the beginning of task {source.task} is gone") from loss

    async def _with_message(self, past: "_CopiedPast", message: Json) -> None:
        """Copy the past, and append the message as the next input."""
        fork, appends = past.fork, self._appends
        sender, writer = FileOwner(fork.owner, fork.context), writer_of("gateway")
        with await appends.admit(fork.key, fork.owner) as admitted:
            files = appends.stored_files(fork.key, sender, message, past.request.metadata)
            async with files as stored:
                # Files of the message are stored and its run is admitted: now the log can begin.
                copied, (message, metadata) = await past.copied(), stored
                if copied.point.waiting:
                    waiting = {WAITING: list(copied.point.waiting)}
                    metadata = {**(metadata or {}), **waiting, IS_ANSWER: copied.point.run_ended}
                run = past.run(copied, copied.generation + 1)
                following = next_input(
                    self._bus, run, copied.sequence, message, metadata, writer=writer
                )
                await appends.append_run(following, admitted)

    async def _with_run(self, past: "_CopiedPast") -> None:
        """Copy the past, which ends in the middle of a run, and request that run."""
        fork, appends = past.fork, self._appends
        with await appends.admit(fork.key, fork.owner, asks=False) as admitted:
            await appends.append(_ResumedRun(past, admitted, appends.runs))

    async def _source(self, request: ForkRequest, head: int, most: int) -> tuple[ForkOf, ForkPoint]:
        """Return what is forked, and the last point up to generation `most` where a run can begin.

        `head` is the stream sequence of the source's last entry.

        Raises:
            LogLost: the source's beginning is gone.
        """
        point, metadata, context = await fork_point(self._bus, request.source, head, most)
        of = ForkOf(
            request.source.task,
            context,
            point.generation,
            point.at,
            most,
            point.state,
            goes_on=request.message is not None or not (point.run_ended or point.is_input),
            before=ForkOf.of(metadata),
        )
        return of, point


def _checked_generation(requested: int | None, last: int) -> int:
    """Return the generation to fork at; None: the task's last one.

    Raises:
        Malformed: the task has no such generation.
    """
    most = last if requested is None else requested
    if not 0 < most <= last:
        rule = f"must be from 1 to {last}, the task's generation"
        raise Malformed([Violation("generation", rule)])
    return most


def _is_beginning(fork: ForkOf, last: Entry) -> bool:
    """Return whether something may be left to do for a fork whose log ends with `last`."""
    run_ended = last.stamp.state == INPUT_REQUIRED
    is_closed = (fork.goes_on or run_ended) and last.last_generation >= fork.complete
    return is_copy(last) and not is_closed


@dataclass(frozen=True, slots=True)
class _CopiedPast:
    """The past of a fork, which is copied from its source."""

    bus: Bus
    fork: Fork
    head: int
    """Stream sequence of the source's last entry."""
    request: ForkRequest

    async def copied(self) -> Forked:
        """Copy what is not copied yet."""
        return await copy_past(self.bus, self.fork, self.head)

    def run(self, copied: Forked, generation: int) -> Run:
        """Return the run that follows, of the input `generation`."""
        fork, request = self.fork, self.request
        traceparent = request.traceparent or (request.metadata or {}).get(TRACEPARENT)
        priority = copied.priority or NORMAL
        terms = RunTerms(priority, copied.version, traceparent=traceparent)
        return Run(fork.key, generation, copied.log, fork.context, fork.owner, terms)


@dataclass(frozen=True, slots=True)
class _ResumedRun:
    """A past to copy that ends in the middle of a run, and the run to request."""

    past: _CopiedPast
    admitted: AdmittedRun
    runs: BackgroundRuns

    @property
    def key(self) -> TaskKey:
        """The key of the fork's log."""
        return self.past.fork.key

    @property
    def context(self) -> str:
        """The fork's context."""
        return self.past.fork.context

    async def store(self) -> None:
        """Copy the past and request the run."""
        copied = await self.past.copied()
        if not copied.point.is_input:
            copied = await hand_over(self.past.bus, self.past.fork, copied)
        run = self.past.run(copied, self.past.fork.point.run)
        self.runs.publish_soon(run, self.admitted.settle)
