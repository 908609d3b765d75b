"""Forking: a new task that begins with the past of one of the caller's tasks.

The source is only read. What a fork does is carried out again by each repetition of its request
that finds it unfinished, so it needs no cleaning up.
"""

import secrets
from contextlib import suppress
from dataclasses import dataclass

from headrace.jetstream.connection import Bus
from headrace.jetstream.objects import FileOwner
from headrace.log import last_entry
from headrace.model.entry import Entry
from headrace.model.errors import Fenced, LogLost, TaskUnknown
from headrace.model.events import TRACEPARENT, WAITING, Json
from headrace.model.fork import ForkOf, ForkPoint
from headrace.model.messages import GetTask, RunRequest
from headrace.model.subjects import NORMAL
from headrace.model.task import INPUT_REQUIRED, TaskKey
from headrace.state_client import StateClient
from headrace.tasks.continue_ import LogEnd, next_input
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
from headrace_gateway.tasks.inputs import InputWriter
from headrace_gateway.tasks.submit import Submissions

_ROUNDS = 50
"""Maximum number of tries against other gateways that carry out the same request."""


@dataclass(frozen=True, slots=True)
class ForkRequest:
    """A caller's request to fork."""

    source: TaskKey
    generation: int | None
    """The last generation of the past, at most. None: the task's current one."""
    message: Json | None = None
    """The A2A v1.0 Message with which it continues. None: as the source did."""
    metadata: Json | None = None
    """Metadata of the message's input."""
    traceparent: str | None = None
    """W3C trace context of the request."""


class TaskForker:
    """Forks tasks."""

    def __init__(
        self,
        bus: Bus,
        state: StateClient,
        submissions: Submissions,
        *,
        inputs: InputWriter,
        background: BackgroundWork,
    ) -> None:
        """Use these services; a fork finishes in `background` if its client disconnects."""
        self._bus, self._state = bus, state
        self._submissions, self._inputs, self._background = submissions, inputs, background

    async def fork(self, caller: Caller, fork_request: ForkRequest) -> tuple[TaskKey, str]:
        """Create a fork and return its key and context.

        Raises:
            TaskUnknown: no such task of this caller and agent, or its beginning is gone.
            Malformed: the task has no such generation.
            AgentUnknown: the agent is gone.
            QuotaExceeded, TooManyWaiting: as `InputWriter.admit`.
            EventTooLarge, BusUnavailable, Unsettled: as `InputWriter.append`.
            StateUnavailable: the task can't be looked up.
        """
        key, context = await self._submissions.place(caller, fork_request.source.agent, None)
        await self._background.run(self.begin(caller, fork_request, key, context))
        return key, context

    async def fork_once(
        self, idempotency: Idempotency, request: KeyedRequest, fork_request: ForkRequest
    ) -> tuple[TaskKey, str]:
        """Create a fork, or return the one that this request created before.

        Raises:
            KeyReused, TaskUnknown: as `Idempotency.start`.
            HeadraceError: as `fork`.
        """

        async def begin(key: TaskKey, context: str) -> None:
            await self.begin(request.caller, fork_request, key, context)

        return await idempotency.begin_task(request, begin)

    async def begin(
        self, caller: Caller, fork_request: ForkRequest, key: TaskKey, context: str
    ) -> None:
        """Begin the fork at `key`, or do what is left of that.

        Raises:
            HeadraceError: as `fork`.
        """
        note_task(key.task, context)
        for _ in range(_ROUNDS):
            # Another gateway may be carrying out the same request.
            with suppress(Fenced):
                await self._begin(caller, fork_request, key, context)
                return
        raise TaskBusy(f"task {key.task} is being started")

    async def _begin(
        self, caller: Caller, fork_request: ForkRequest, key: TaskKey, context: str
    ) -> None:
        last = await last_entry(self._bus, key)
        begun = None if last is None else await fork_at(self._bus, key)
        if last is not None and not (begun is not None and _is_beginning(begun, last)):
            return
        query = GetTask(
            tenant=caller.tenant,
            owner=caller.owner,
            agent=fork_request.source.agent,
            task=fork_request.source.task,
            history_length=0,
        )
        found = await self._state.get(query)
        requested = fork_request.generation if begun is None else begun.requested
        most = _checked_generation(requested, found.generation)
        try:
            of, point = await self._source(fork_request, found.sequence, most)
            fork = Fork(fork_request.source, key, caller.owner, context, of, point)
            beginning = _Beginning(self._bus, self._inputs, fork, found.sequence)
            await beginning.complete(fork_request)
        except LogLost as loss:
            raise TaskUnknown(f"the beginning of task {fork_request.source.task} is gone") from loss

    async def _source(
        self, fork_request: ForkRequest, head: int, most: int
    ) -> tuple[ForkOf, ForkPoint]:
        """Return what is forked, and the last point up to generation `most` where a run can begin.

        `head` is the stream sequence of the source's last entry.

        Raises:
            LogLost: the source's beginning is gone.
        """
        point, metadata, context = await fork_point(self._bus, fork_request.source, head, most)
        of = ForkOf(
            fork_request.source.task,
            context,
            point.generation,
            point.at,
            most,
            point.state,
            goes_on=fork_request.message is not None or not (point.run_ended or point.is_input),
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
class _Beginning:
    """The beginning of one fork."""

    bus: Bus
    inputs: InputWriter
    fork: Fork
    head: int
    """Stream sequence of the source's last entry."""

    async def complete(self, fork_request: ForkRequest) -> None:
        """Copy the past and request the run that follows, if any."""
        fork = self.fork
        if fork_request.message is not None:
            await self._with_message(fork_request, fork_request.message)
        elif fork.point.run_ended:
            await self._copied()
        else:
            await self.inputs.continue_run(
                *(fork.key, fork.owner, fork.point.run, fork.context),
                lambda: self._resumed(fork_request),
            )

    async def _copied(self) -> Forked:
        return await copy_past(self.bus, self.fork, self.head)

    async def _resumed(self, fork_request: ForkRequest) -> tuple[RunRequest, str]:
        """Copy the past, which ends in the middle of a run, and return the run's request."""
        copied = await self._copied()
        if not copied.point.is_input:
            copied = await hand_over(self.bus, self.fork, copied)
        return self._request(fork_request, copied), copied.priority or NORMAL

    async def _with_message(self, fork_request: ForkRequest, message: Json) -> None:
        """Copy the past, and append the message as the next input."""
        fork, metadata = self.fork, fork_request.metadata
        sender, writer = FileOwner(fork.owner, fork.context), f"gateway-{secrets.token_hex(6)}"
        with await self.inputs.admit(fork.key, fork.owner) as admitted:
            async with self.inputs.offloaded(fork.key, sender, message, metadata) as stored:
                # Files of the message are stored and its run is admitted: now the log can begin.
                past = await self._copied()
                message, metadata = stored
                if past.point.waiting:
                    metadata = {**(metadata or {}), WAITING: list(past.point.waiting)}
                end = LogEnd(fork.key, past.sequence, past.generation)
                request = self._request(fork_request, past)
                following = next_input(self.bus, end, request, message, metadata, writer=writer)
                await self.inputs.append(following, admitted)

    def _request(self, fork_request: ForkRequest, copied: Forked) -> RunRequest:
        return RunRequest(
            log=copied.log,
            context=self.fork.context,
            owner=self.fork.owner,
            traceparent=fork_request.traceparent or (fork_request.metadata or {}).get(TRACEPARENT),
            version=copied.version,
        )
