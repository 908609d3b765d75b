"""Execution of an agent on a run that this worker holds: its parts."""

import asyncio
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol

from headrace.failure_count import FailureCount
from headrace.jetstream.connection import Bus
from headrace.jetstream.objects import FileOwner, FileStore
from headrace.log import TailRule
from headrace.model import events
from headrace.model.delegation import Lineage
from headrace.model.errors import HeadraceError
from headrace.model.events import AGUI, Json
from headrace.model.queued_message import QueuedMessage
from headrace.model.task import WORKING
from headrace.sdk.agent import Agent
from headrace.sdk.context import RunContext
from headrace.sdk.errors import Retryable, RunOver
from headrace.sdk.runtime import Interrupt
from headrace_worker.append_ticks import AppendTicks
from headrace_worker.appender import Appender
from headrace_worker.assignment import Assignment
from headrace_worker.blocks import RunIds
from headrace_worker.claim import ClaimedRun
from headrace_worker.concurrency import Permit
from headrace_worker.delegation.children import Children
from headrace_worker.delegation.parent import Parent
from headrace_worker.emitter import Emitter
from headrace_worker.encoder import Encoder, Endings
from headrace_worker.heartbeats import WorkerLeases
from headrace_worker.inputs import EarlierInputs, Inputs
from headrace_worker.offload import Offload
from headrace_worker.recorded_output import RecordingEncoder, RecordingEndings
from headrace_worker.recovery import RecoveredRun
from headrace_worker.run_metrics import series_of
from headrace_worker.runtime import WorkerRuntime
from headrace_worker.settings import WorkerSettings
from headrace_worker.shared_state import SharedState
from headrace_worker.sleeps import Sleeps
from headrace_worker.timing import Timing
from headrace_worker.usage import Prices, UsageMeter
from headrace_worker.watch import Watch


@dataclass(frozen=True, slots=True)
class WorkerResources:
    """Resources that all attempts of one worker share."""

    worker: str
    """Instance id of the worker, usable in NATS subjects."""
    bus: Bus
    leases: WorkerLeases
    rule: TailRule
    watch: Watch
    settings: WorkerSettings
    timing: Timing
    ticks: AppendTicks
    prices: Prices
    files: FileStore
    abandoned: set[asyncio.Task[None]] = field(default_factory=set)
    """Agents that did not stop in time, until they do."""
    failed_clean_ups: FailureCount = field(default_factory=FailureCount)
    """Of tasks that ended without their agents."""


class Interruptible(Protocol):
    """The attempt that an execution belongs to."""

    @property
    def interrupted(self) -> Interrupt:
        """Why the agent is being stopped."""

    def interrupt(self, why: Interrupt) -> None:
        """Stop the agent for the reason `why`, if it still runs."""


class Execution:
    """The parts of one attempt, made from the claimed run."""

    def __init__(
        self,
        resources: WorkerResources,
        agent: Agent,
        assignment: Assignment,
        taken: ClaimedRun,
        *,
        attempt: Interruptible,
        permit: Permit,
    ) -> None:
        """Set up the execution of `agent`; `attempt` can stop it."""
        key, request, settings = assignment.key, assignment.request, resources.settings
        recovered = taken.recovered
        self._attempt = attempt
        self.policy = agent.policy
        self.series = series_of(agent)
        self.authorship = taken.authorship
        self.key = key
        self.recovered = recovered
        self.span = taken.span
        self.timing = resources.timing
        self.appender = Appender(
            taken.writer,
            taken.authorship,
            self._lose,
            self._pass_on,
            ticks=resources.ticks,
            max_events=settings.emit_buffer_events,
            max_bytes=settings.emit_buffer_bytes,
        )
        self.inputs = Inputs(
            self.appender,
            (key.task, request.context),
            agent.card.follow_ups,
            EarlierInputs(recovered.queued, recovered.waiting),
            attempt.interrupt,
        )
        ids = RunIds(key.task, assignment.run, recovered.checkpoint.ids)
        self.encoder, self.endings = _encoding(taken, (key.task, request.context, ids))
        self.emitter = Emitter(
            self.encoder,
            self.endings,
            self.appender,
            ids,
            meter=UsageMeter(recovered.usage, resources.prices),
            may_answer=agent.card.bare_message,
        )
        self._resources, self._permit = resources, permit
        self._assignment, self._taken, self._head = assignment, taken, taken.writer.sequence
        self._parent: Parent | None = None
        self.children: Children | None = None
        """The child tasks; None: the run has asked for none."""
        if recovered.known_children.known:
            self.begin_children()
        self._sleeps: Sleeps | None = None
        self.context = _run_context(assignment, taken, WorkerRuntime(self))
        self.agent_task: asyncio.Task[None] | None = None

    @property
    def parent(self) -> Parent:
        """The attempt as its children need it; made when it is first used."""
        if self._parent is None:
            self._parent = self._as_parent()
        return self._parent

    def begin_children(self) -> Children:
        """Return `children`, from now on an object."""
        if self.children is None:
            self.children = Children(self.parent, self.recovered.known_children)
        return self.children

    @property
    def sleeps(self) -> Sleeps:
        """The sleeps of the attempt; made when it first sleeps."""
        if self._sleeps is None:
            self._sleeps = Sleeps(
                self.recovered.sleeps,
                self.emitter.new_id,
                self._record_sleep,
                self._attempt.interrupt,
                self.timing,
            )
        return self._sleeps

    @property
    def asleep_until(self) -> datetime | None:
        """When the sleep ends for which the attempt ends. None: it ends for none."""
        return None if self._sleeps is None else self._sleeps.until

    @property
    def interrupted(self) -> Interrupt:
        """Why the agent is being stopped."""
        return self._attempt.interrupted

    async def detach_children(self) -> None:
        """Stop following all children; see `Children.detach`."""
        if self.children is not None:
            await self.children.detach()

    def _as_parent(self) -> Parent:
        resources, assignment, taken = self._resources, self._assignment, self._taken
        key, request = assignment.key, assignment.request
        lineage = Lineage.of(taken.recovered.metadata)
        return Parent(
            key=key,
            context=request.context,
            owner=request.owner,
            run=assignment.run,
            attempt=taken.authorship.attempt,
            head=self._head,
            bus=resources.bus,
            rule=resources.rule,
            appender=self.appender,
            inputs=self.inputs,
            permit=self._permit,
            usage_totals=self.emitter.usage_totals,
            offload=Offload(
                files=resources.files,
                key=key,
                belongs_to=FileOwner(request.owner, request.context),
                inline=resources.settings.inline_bytes,
            ),
            timing=resources.timing,
            interrupt=self._interrupt,
            most_children=resources.settings.delegation_children,
            deadline=taken.deadline,
            budget=lineage.budget if lineage is not None else None,
            priority=resources.bus.subjects.priority_of_run(assignment.message.subject),
            traceparent=taken.span.traceparent,
        )

    # Methods, because each function made for an execution would take 140 bytes more.
    def _lose(self, _: object) -> None:
        self._attempt.interrupt(Interrupt.LOST)

    def _pass_on(self, queued: list[QueuedMessage], refused: list[QueuedMessage]) -> None:
        self.inputs.overtaken(queued, refused)

    def _interrupt(self) -> Interrupt:
        return self._attempt.interrupted

    @property
    def failures(self) -> int:
        """Number of failed attempts at the run if this one fails too."""
        return self.authorship.attempt - self.recovered.not_counted

    @property
    def has_attempts_left(self) -> bool:
        """Whether there may be another attempt if this one fails too."""
        return self.failures < self.policy.max_attempts

    @property
    def retryable(self) -> Retryable | None:
        """Why the run needs another attempt: the agent asks for it, or the fleet did not answer it.

        What the agent reads from its context may be out of reach for a while; that is no failure of
        the agent.
        """
        agent_task = self.agent_task
        if agent_task is None or not agent_task.done() or agent_task.cancelled():
            return None
        match agent_task.exception():
            case Retryable() as error:
                return error
            case HeadraceError(retryable=True) as error:
                return Retryable(error.public)
            case _:
                return None

    async def append_handed_back(self, why: Json, timeout: float) -> None:
        """End the attempt but not the run: append the metadata `why` and stop appending."""
        await self.appender.append_last(self.working(why), timeout)

    async def _record_sleep(self, name: str, until: str) -> None:
        await self.appender.deliver(self.working({events.SLEEP: {"id": name, "until": until}}))

    async def append_ending(self, state: str) -> bool:
        """Append the state in which the run will end; return False if the log was taken over."""
        try:
            await self.appender.deliver(self.working({events.ENDING: state}))
        except RunOver:
            return False
        return True

    def working(self, metadata: Json | None = None, message: Json | None = None) -> events.Draft:
        """Return a WORKING status of the task."""
        context = self.context.context
        return events.status_update(self.key.task, context, WORKING, message, metadata)


def _state_of(recovered: RecoveredRun) -> SharedState | None:
    """Return the attempt's initial state: the client's, plus the updates saved since.

    Returns:
        None if it is empty, as most runs have it.
    """
    sent = recovered.metadata.get(AGUI)
    initial = sent.get("state") if isinstance(sent, dict) else None
    if initial in (None, {}) and not recovered.signals:
        return None
    state = SharedState(initial)
    for part in recovered.signals:
        state.replay(part)
    return state


def _encoding(taken: ClaimedRun, run: tuple[str, str, RunIds]) -> tuple[Encoder, Endings]:
    """Return the encoder and the endings of `run`; they record texts if its span wants them."""
    state = _state_of(taken.recovered)
    index, tools = taken.recovered.checkpoint.index, taken.span.tools
    if (texts := taken.span.texts) is None:
        return Encoder(*run, index, state, tool_spans=tools), Endings(*run)
    encoder = RecordingEncoder(*run, index, state, texts=texts, tool_spans=tools)
    return encoder, RecordingEndings(texts, *run)


def _run_context(assignment: Assignment, taken: ClaimedRun, runtime: WorkerRuntime) -> RunContext:
    request, recovered = assignment.request, taken.recovered
    return RunContext(
        key=assignment.key,
        context=request.context,
        owner=request.owner,
        run=assignment.run,
        attempt=taken.authorship.attempt,
        message=recovered.message,
        metadata=recovered.metadata,
        deadline=taken.deadline,
        checkpoint_data=recovered.checkpoint.data,
        traceparent=taken.span.traceparent,
        _runtime=runtime,
    )
