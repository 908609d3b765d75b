"""One attempt at one run: claim the run, run the agent, end the run, acknowledge the request.

Three things can interrupt the agent: the task is canceled, the worker must hand the run back, or
another writer has taken over the log. In the last case the attempt appends nothing, acknowledges
nothing and answers no requests.
"""

import asyncio
import logging
import secrets
from collections.abc import Callable
from contextlib import aclosing, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from headrace import metrics
from headrace.jetstream.connection import TROUBLE, Bus
from headrace.jetstream.objects import FileOwner
from headrace.log import TailRule
from headrace.model import events
from headrace.model.delegation import Lineage
from headrace.model.entry import ANSWERED, Entry
from headrace.model.errors import BusUnavailable, Fenced, LogLost
from headrace.model.events import AGUI, Draft, Json
from headrace.model.fold import TaskFold
from headrace.model.messages import Holding
from headrace.model.task import COMPLETED, INPUT_REQUIRED, WORKING, TaskKey
from headrace.sdk.agent import Agent
from headrace.sdk.context import RunContext, runtime_of
from headrace.sdk.emit import FILES, Emission, ToolArguments, ToolResult
from headrace.sdk.ended import EndedTask
from headrace.sdk.errors import (
    AgentExited,
    DelegationFailed,
    DelegationRefused,
    MalformedOutput,
    Retryable,
    RunOver,
)
from headrace.sdk.interrupt import Interrupt
from headrace.sdk.results import Named, Result
from headrace.tasks.continue_ import submitted
from headrace_worker.appender import Appender, GivesWay, Queued
from headrace_worker.claim import (
    Assignment,
    Behind,
    Ended,
    Held,
    Taken,
    Void,
    claim,
    pause_before,
    why_overdue,
)
from headrace_worker.concurrency import Permit
from headrace_worker.delegation.child import Child
from headrace_worker.delegation.children import CONFIRMATION, Children, ChildStream
from headrace_worker.delegation.parent import Parent
from headrace_worker.delegation.question import Question, message_of, name_of
from headrace_worker.earlier import earlier_logs, earlier_tasks
from headrace_worker.emitter import Emitter
from headrace_worker.encoder import Encoder, End, Endings, Fault, RunIds
from headrace_worker.heartbeats import Hold, HolderAnswers, WorkerLeases
from headrace_worker.inputs import Inputs
from headrace_worker.offload import Offload, WorkerFiles
from headrace_worker.recovery import (
    Recovered,
    entries_before,
    events_before,
    task_before,
    waiting_child,
)
from headrace_worker.settings import WorkerSettings
from headrace_worker.shared_state import SharedState
from headrace_worker.watch import Watch


@dataclass(frozen=True, slots=True)
class AttemptLog:
    """The log of one attempt's task, and the logs of its conversation."""

    bus: Bus
    parent: Parent
    owner: str
    head: int
    """Stream sequence of the log's last entry before the attempt."""

    async def task(self) -> Json:
        """See `Runtime.task`."""
        return await task_before(self.bus, self.parent.key, self.head)

    async def events(self) -> list[tuple[int, Json]]:
        """See `Runtime.events`."""
        return await events_before(self.bus, self.parent.key, self.head)

    async def entries(self) -> list[Entry]:
        """See `Runtime.entries`."""
        return await entries_before(self.bus, self.parent.key, self.head)

    async def context_tasks(self) -> list[Json]:
        """See `Runtime.context_tasks`."""
        return await earlier_tasks(self.bus, self.parent.key, self.owner, self.parent.context)

    async def context_logs(self, asked_by: str | None) -> list[list[Entry]]:
        """See `Runtime.context_logs`."""
        parent = self.parent
        return await earlier_logs(self.bus, parent.key, self.owner, parent.context, asked_by)

    async def waiting_child(self) -> tuple[str, str]:
        """Return task and agent of the child for which the previous run asked the user.

        Raises:
            DelegationRefused: no child waits for an answer.
        """
        try:
            found = await waiting_child(self.bus, self.parent.key, self.parent.run)
        except LogLost:
            found = None
        if found is None:
            raise DelegationRefused("", "not_waiting", "no child waits for an answer")
        return found


class WorkerRuntime:
    """The worker's implementation of `headrace.sdk.runtime.Runtime`."""

    def __init__(
        self, emitter: Emitter, state: SharedState, children: Children, logged: AttemptLog
    ) -> None:
        """Combine the parts of one attempt."""
        parent, inputs = logged.parent, logged.parent.inputs
        # Called per token: bound directly, to save a stack frame.
        self.emit: Callable[[Emission], bool] = emitter.emit
        self.room = emitter.room
        self.new_id = emitter.new_id
        self.ask, self.next_input = inputs.ask, inputs.next_steering
        self.offloaded = parent.offload.offloaded
        self.task, self.events, self.entries = logged.task, logged.events, logged.entries
        self.context_tasks, self.context_logs = logged.context_tasks, logged.context_logs
        self._emitter, self._inputs, self._state = emitter, inputs, state
        self._parent, self._children, self._logged = parent, children, logged

    async def checkpoint(
        self,
        data: Any,  # noqa: ANN401  # any JSON
        said: ToolArguments | ToolResult | None = None,
    ) -> None:
        """See `Runtime.checkpoint`."""
        await self._emitter.checkpoint(data, said)

    async def store(self, content: bytes, media_type: str = "") -> str | None:
        """See `Runtime.store`."""
        return await self._offload.put(content, media_type=media_type)

    async def content(self, link: str) -> bytes:
        """See `Runtime.content`."""
        offload = self._offload
        return await offload.files.read(link, self._parent.key.tenant, offload.belongs_to)

    @property
    def has_input(self) -> bool:
        """See `Runtime.has_input`."""
        return self._inputs.has_steering

    @property
    def interrupt(self) -> Interrupt:
        """See `Runtime.interrupt`."""
        return self._parent.interrupt()

    @property
    def state(self) -> Any:  # noqa: ANN401  # any JSON
        """See `Runtime.state`."""
        return self._state.now

    @property
    def tokens_left(self) -> int | None:
        """See `Runtime.tokens_left`."""
        return self._parent.tokens_left

    async def delegate(  # as `RunContext.delegate`
        self,
        agent: str | Named,
        message: str | Json,
        key: str | None,
        *,
        relay: bool,
        timeout: float | None,
        budget: int | None,
    ) -> Result:
        """See `RunContext.delegate`."""
        child = self._asked(_question(agent, message, relay=relay, budget=budget), key, timeout)
        return await self._children.result(child)

    def delegate_stream(  # as `RunContext.delegate`
        self,
        agent: str | Named,
        message: str | Json,
        key: str | None,
        *,
        relay: bool,
        timeout: float | None,
        budget: int | None,
    ) -> ChildStream:
        """See `RunContext.delegate_stream`."""
        child = self._asked(_question(agent, message, relay=relay, budget=budget), key, timeout)
        return ChildStream(self._children, child)

    async def answer(
        self, result: Result | None, message: str | Json, *, relay: bool, timeout: float | None
    ) -> Result:
        """See `RunContext.answer`."""
        if result is not None:
            task, agent = result.id, result.agent
        else:
            task, agent = await self._logged.waiting_child()
        said = message_of(agent, message)
        said = {key: value for key, value in said.items() if key not in {"taskId", "contextId"}}
        question = Question(agent, said, relay=relay, into=task).within(self._parent, timeout)
        return await self._children.result(self._children.answer(question))

    def _asked(self, question: Question, key: str | None, timeout: float | None) -> Child:
        return self._children.ask(question.within(self._parent, timeout), key)

    @property
    def _offload(self) -> Offload:
        return self._parent.offload


def _question(
    agent: str | Named, message: str | Json, *, relay: bool, budget: int | None
) -> Question:
    name = name_of(agent)
    return Question(name, message_of(name, message), relay=relay, budget=budget)


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
    abandoned: set[asyncio.Task[None]] = field(default_factory=set)
    """Agents that did not stop in time, until they do."""


class Execution:
    """An agent that runs on a run held by this worker."""

    def __init__(  # noqa: PLR0913  # what an attempt is made of
        self,
        resources: WorkerResources,
        agent: Agent,
        assignment: Assignment,
        taken: Taken,
        *,
        permit: Permit,
        lost: Callable[[], None],
        superseded: Callable[[], None],
        interrupt: Callable[[], Interrupt],
    ) -> None:
        """Set up the attempt.

        `lost` is called when another writer has taken over the log, `superseded` when a message
        must stop the agent. `interrupt` returns why the agent is being stopped.
        """
        key, run, request = assignment.key, assignment.run, assignment.request
        saved = taken.recovered.checkpoint
        ids = RunIds(key.task, run, saved.ids)
        self.policy = agent.policy
        self.authorship = taken.authorship
        self.assignment = assignment
        self.key: TaskKey = key
        self.writer = taken.authorship.writer
        self.recovered = taken.recovered
        self.appender = Appender(
            taken.writer,
            taken.authorship,
            lambda _: lost(),
            lambda *told: self.inputs.overtaken(*told),  # noqa: PLW0108  # made below
            max_events=resources.settings.emit_buffer_events,
            max_bytes=resources.settings.emit_buffer_bytes,
        )
        self.look = self.appender.look
        self.inputs = Inputs(
            self.appender,
            (key.task, request.context),
            agent.card.follow_ups,
            taken.recovered.waiting,
            superseded,
        )
        state = _state_of(taken.recovered)
        self.encoder = Encoder(key.task, request.context, ids, saved.index, state)
        self.endings = Endings(key.task, request.context, ids)
        self.emitter = Emitter(
            self.encoder,
            self.endings,
            self.appender,
            ids,
            usage_totals=taken.recovered.usage,
            may_answer=agent.card.bare_message,
        )
        trace = taken.recovered.metadata.get(events.TRACEPARENT) or request.traceparent
        offload = Offload(
            files=WorkerFiles(resources.bus),
            key=key,
            belongs_to=FileOwner(request.owner, request.context),
            inline=resources.settings.inline_bytes,
        )
        parent = Parent(
            key=key,
            context=request.context,
            run=run,
            attempt=taken.authorship.attempt,
            bus=resources.bus,
            rule=resources.rule,
            appender=self.appender,
            inputs=self.inputs,
            permit=permit,
            usage_totals=self.emitter.usage_totals,
            offload=offload,
            interrupt=interrupt,
            most_children=resources.settings.delegation_children,
            deadline=taken.deadline,
            budget=_budget_of(taken.recovered),
            priority=resources.bus.subjects.priority_of_run(assignment.message.subject),
            traceparent=trace,
        )
        self.children = Children(parent, taken.recovered.known_children)
        logged = AttemptLog(resources.bus, parent, request.owner, taken.writer.sequence)
        self.context = RunContext(
            key=key,
            context=request.context,
            owner=request.owner,
            run=run,
            attempt=taken.authorship.attempt,
            message=taken.recovered.message,
            metadata=taken.recovered.metadata,
            deadline=taken.deadline,
            checkpoint_data=saved.data,
            traceparent=trace,
            _runtime=WorkerRuntime(self.emitter, state, self.children, logged),
        )
        self.acting: asyncio.Task[None] | None = None

    @property
    def failures(self) -> int:
        """Number of failed attempts at the run if this one fails too."""
        return self.authorship.attempt - self.recovered.excused

    @property
    def tries_again(self) -> Retryable | None:
        """The agent's request for another attempt, if it made one and one is left."""
        return self._wish if self.failures < self.policy.max_attempts else None

    @property
    def is_given_up(self) -> bool:
        """Whether the agent requested another attempt and none is left."""
        return self._wish is not None and self.tries_again is None

    @property
    def _wish(self) -> Retryable | None:
        acting = self.acting
        if acting is None or not acting.done() or acting.cancelled():
            return None
        error = acting.exception()
        return error if isinstance(error, Retryable) else None

    def says(self, message: Json) -> Draft:
        """Return a WORKING event with `message` from the agent."""
        return events.status_update(self.key.task, self.context.context, WORKING, message)

    async def say_handed_back(self, why: str, timeout: float) -> None:
        """End the attempt but not the run: append `why` and stop appending."""
        draft = events.status_update(
            self.key.task, self.context.context, WORKING, metadata={events.HANDED_BACK: why}
        )
        await self.appender.append_last(draft, timeout)

    async def say_ending(self, state: str) -> bool:
        """Append the state in which the run will end; return False if the log was taken over."""
        draft = events.status_update(
            self.key.task, self.context.context, WORKING, metadata={events.ENDING: state}
        )
        try:
            await self.appender.deliver(draft)
        except RunOver:
            return False
        return True

    @property
    def spoke(self) -> float:
        """When its last append ended; loop time in seconds."""
        return self.appender.spoke

    @property
    def sequence(self) -> int:
        """Stream sequence of its last entry."""
        return self.appender.sequence

    @property
    def appending(self) -> bool:
        """Whether an append is in flight."""
        return self.appender.appending


def _budget_of(recovered: Recovered) -> int | None:
    lineage = Lineage.of(recovered.metadata)
    return lineage.budget if lineage is not None else None


def _state_of(recovered: Recovered) -> SharedState:
    """Return the attempt's initial state: the client's, plus the updates saved since."""
    sent = recovered.metadata.get(AGUI)
    state = SharedState(sent.get("state") if isinstance(sent, dict) else None)
    for part in recovered.signals:
        state.replay(part)
    return state


BARE_WITHIN = 1.5
"""Seconds after its input was stored within which an answer can be a bare Message: the gateway
returns the Task after 2 s."""

LONGEST_REASON = 500
"""Maximum characters of the reason that a failed task shows."""


_GOES_ON = frozenset({COMPLETED, INPUT_REQUIRED})
"""End states after which a waiting message starts the next run."""


async def complete(execution: Execution, why: Interrupt) -> int | None:
    """Append the agent's last output and the run's end; return the next run, if one follows.

    Raises:
        Fenced, LogLost: another writer has taken over the log; nothing was logged as an error.
    """
    end = _interrupted(execution, why) if why else _end(execution)
    try:
        following = await _append(execution, end)
    except (Fenced, LogLost):
        if end.fault is not None:
            _log.info("task %s: its agent raised %r", execution.key.task, end.fault.error)
        raise
    except BaseException:
        _tell(execution, end.fault)
        raise
    _tell(execution, end.fault)
    return following


def _tell(execution: Execution, fault: Fault | None) -> None:
    """Log the failure as an error."""
    if fault is not None:
        said = (execution.key.task, fault.id, fault.reason)
        _log.error("task %s: error %s: %s", *said, exc_info=fault.error)


async def _append(execution: Execution, end: End) -> int | None:
    await _end_children(execution, end.state)
    end = _with_usage(execution, end)
    made = execution.encoder.artifacts
    unfinished_artifacts = [
        artifact for artifact in execution.recovered.unfinished_artifacts if artifact not in made
    ]
    retractions = [_retraction(execution, artifact) for artifact in unfinished_artifacts]
    inputs, appender = execution.inputs, execution.appender

    def gives_way() -> bool:
        return end.state in _GOES_ON and bool(inputs.waiting)

    if not gives_way():
        with suppress(GivesWay):
            await appender.close([*retractions, end.draft], end.state, gives_way=gives_way)
            metrics.RUNS_ENDED.labels(execution.key.agent, end.state).inc()
            return None
    # The run does not end here: append the last message, then the next input.
    last = [execution.says(end.message)] if end.message else []
    await appender.close([*retractions, *last], WORKING)
    return await appender.go_on(lambda: _next_input(execution, *inputs.waiting))


async def _end_children(execution: Execution, state: str) -> None:
    children = execution.children
    # The append shows whether the children are still this attempt's to cancel. If another attempt
    # has taken over, it needs them.
    if children.are_at_work and not await execution.say_ending(state):
        await children.let_go()
    else:
        await children.end(state)


def _with_usage(execution: Execution, end: End) -> End:
    told, ctx = execution.emitter.usage_totals.metadata(), execution.context
    if not told or end.state == ANSWERED:
        return end
    # Usage in the agent's own metadata (a remote agent's) takes precedence.
    metadata = {**told, **end.metadata}
    draft = events.status_update(ctx.task, ctx.context, end.state, end.message, metadata)
    return replace(end, draft=draft, metadata=metadata)


def _next_input(execution: Execution, following: Queued, *others: Queued) -> Draft:
    metadata = {**following.metadata, events.WAITING: [other.generation for other in others]}
    ctx = execution.context
    return submitted(ctx.task, ctx.context, following.message, metadata)


def _interrupted(execution: Execution, why: Interrupt) -> End:
    acting = execution.acting
    if acting is not None and not acting.done():
        _log.error("task %s: the agent did not stop after it was canceled", execution.key.task)
    elif acting is not None and not acting.cancelled() and (error := acting.exception()):
        _log.error("task %s: the agent's clean-up failed", execution.key.task, exc_info=error)
    if why is Interrupt.OVERDUE:
        return execution.endings.failed(why_overdue(execution.policy, execution.recovered))
    if why is Interrupt.SUPERSEDED:
        return execution.endings.completed()
    return execution.endings.canceled()


def _end(execution: Execution) -> End:
    acting = execution.acting
    if acting is None or acting.cancelled():
        return _failed(execution, "The agent was cancelled from within", None)
    match acting.exception():
        case None:
            return _asked_for(execution)
        case Retryable() as error:
            reason = f"Given up after {execution.failures} attempts: {error}"
            return execution.endings.failed(reason[:LONGEST_REASON])
        case error if (malformed := _malformed(error)) is not None:
            return _failed(execution, f"The agent's output is malformed: {malformed}", error)
        case error:
            return _failed(execution, _shown(error), error)


def _malformed(error: BaseException | None) -> MalformedOutput | None:
    """Return the malformed-output error, also if a framework has wrapped it."""
    while error is not None and not isinstance(error, MalformedOutput):
        error = error.__cause__ or error.__context__
    return error


def _shown(error: BaseException) -> str:
    """Return the failure reason that clients may see: for example that a delegated task failed."""
    if isinstance(error, DelegationFailed):
        return str(error)
    if isinstance(error, BaseExceptionGroup) and (found := error.subgroup(DelegationFailed)):
        first: BaseException = found
        while isinstance(first, BaseExceptionGroup):
            first = first.exceptions[0]
        return str(first)
    return "The agent failed"


def _failed(execution: Execution, reason: str, error: BaseException | None) -> End:
    """Return a failure that shows only an id; the log has the details under the same id."""
    fault = Fault(secrets.token_hex(4), reason[:LONGEST_REASON], error)
    failed = execution.endings.failed(f"{fault.reason} (error {fault.id})")
    return replace(failed, fault=fault)


def _asked_for(execution: Execution) -> End:
    emitter, endings = execution.emitter, execution.endings
    if emitter.answer is not None and _is_shown(execution):
        return endings.completed_with(emitter.answer)
    return emitter.end or endings.completed()


def _is_shown(execution: Execution) -> bool:
    """Return whether the client has been sent the Task, so that the run must end as a task."""
    recovered, ctx = execution.recovered, execution.context
    if ctx.run > 1 or ctx.attempt > 1 or recovered.metadata.get(events.SHOWN) is True:
        return True
    age = datetime.now(UTC) - datetime.fromisoformat(recovered.time)
    return age.total_seconds() > BARE_WITHIN


def _retraction(execution: Execution, artifact: str) -> Draft:
    """Return the event that empties an artifact which only earlier attempts emitted."""
    return events.artifact_update(
        execution.key.task,
        execution.context.context,
        {"artifactId": artifact, "parts": [{"text": ""}]},
        last_chunk=True,
        metadata={events.RETRACTED: True},
    )


async def drive(agent: Agent, ctx: RunContext) -> None:
    """Run `agent` until its function ends.

    Raises:
        MalformedOutput: the agent's output is invalid.
        AgentExited: the agent called `sys.exit`.
        Exception: any other error of the agent.
    """
    try:
        if agent.streams:
            await _stream(agent, ctx)
        else:
            await _call(agent, ctx)
    except SystemExit as exit_:
        raise AgentExited(f"the agent called sys.exit({exit_.code!r})") from exit_


async def _stream(agent: Agent, ctx: RunContext) -> None:
    runtime = runtime_of(ctx)
    emit, room = runtime.emit, runtime.room
    async with aclosing(agent.streaming(ctx)) as stream:
        async for said in stream:
            if type(said) in FILES:
                said = await runtime.offloaded(said)  # noqa: PLW2901  # the same, as the log takes it
            if not emit(said):
                await room()


async def _call(agent: Agent, ctx: RunContext) -> None:
    said = await agent.returning(ctx)
    if said is not None:
        await ctx.emit(said)


TIMEOUT = 10.0
"""Timeout of an agent's clean-up in seconds."""

PAUSES = (1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0)
"""Seconds between attempts at a clean-up."""


async def clean_up(bus: Bus, agent: Agent, assignment: Assignment, end: Entry) -> None:
    """Run the agent's clean-up for the task that ended with `end`, then acknowledge the run.

    A failed clean-up is retried after each of `PAUSES`, because what it needs may be available
    then.
    """
    if agent.clean_up is None:
        await assignment.ack(bus)
        return
    key, tries = assignment.key, assignment.message.metadata.num_delivered
    try:
        async with asyncio.timeout(TIMEOUT):
            told = await events_before(bus, key, end.sequence)
            request = assignment.request
            await agent.clean_up(
                EndedTask(key, request.context, request.owner, _folded(told), told)
            )
    except LogLost as loss:
        _log.info("task %s is gone: %s", key.task, loss)
    except Exception as error:  # noqa: BLE001  # an agent's
        if tries <= len(PAUSES):
            pause = PAUSES[tries - 1]
            _log.warning("task %s: clean-up, again in %g s: %r", key.task, pause, error)
            await assignment.give_back(bus, pause)
            return
        _log.error("task %s: the agent could not clean up", key.task, exc_info=error)
    await assignment.ack(bus)


def _folded(told: list[tuple[int, Json]]) -> Json:
    fold = TaskFold()
    for _, event in told:
        fold.apply(event)
    return fold.task()


_log = logging.getLogger(__name__)

HAND_BACK = 0.4
"""Seconds for the agent's clean-up and the last append when a run is handed back: the process is
about to end."""

_TIMEOUT = 10.0

_FOREVER = 10 * 365 * 86400.0


class Attempt:
    """One attempt, from a pulled run to its acknowledgement."""

    def __init__(
        self, resources: WorkerResources, agent: Agent, assignment: Assignment, permit: Permit
    ) -> None:
        """Prepare to run `agent` on `assignment`, with `permit`."""
        self._resources, self._agent, self._assignment = resources, agent, assignment
        self._permit = permit
        self._interrupt = Interrupt.NONE
        self._hold: Hold | None = None
        self._execution: Execution | None = None
        self._acting: asyncio.Task[None] | None = None
        self._over: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def run(self) -> None:
        """Run the attempt. After any failure the run is still queued, or its log has its end."""
        hold = self._hold = self._resources.leases.take(self._assignment.message.reply)
        try:
            await self._run(hold)
        except (Fenced, LogLost) as loss:
            _log.info("task %s: another worker has taken over: %s", self._assignment.key.task, loss)
        except (BusUnavailable, *TROUBLE) as trouble:
            _log.warning("task %s will be retried: %s", self._assignment.key.task, trouble)
        finally:
            self._resources.leases.release(hold)

    def interrupt(self, why: Interrupt) -> None:
        """Stop the agent for the reason `why`, if it still runs."""
        if why <= self._interrupt or self._over.done():
            return
        first, self._interrupt = self._interrupt is Interrupt.NONE, why
        if why is Interrupt.LOST:
            self._fall_mute()
        if first and self._acting is not None:
            self._stop_acting(self._acting)

    def _fall_mute(self) -> None:
        if self._execution is not None:
            self._execution.appender.mute()
        if self._hold is not None:
            self._resources.leases.release(self._hold)

    def cancel(self) -> None:
        """Stop the agent because a client canceled the task."""
        self.interrupt(Interrupt.CANCELED)

    def supersede(self) -> None:
        """Stop the agent because a newer message must be answered."""
        self.interrupt(Interrupt.SUPERSEDED)

    def lose(self) -> None:
        """Stop the agent because another writer has taken over the log."""
        self.interrupt(Interrupt.LOST)

    async def _run(self, hold: Hold) -> None:
        resources, assignment = self._resources, self._assignment
        taken = await claim(resources.bus, resources.worker, assignment, self._agent.policy)
        match taken:
            case Taken():
                with metrics.RUNS_WORKING.labels(assignment.key.agent).track_inprogress():
                    await self._perform(hold, taken)
            case Held():
                _log.debug("task %s is well with %s", assignment.key.task, taken.by)
            case Behind():
                await self._wait_behind(taken)
            case Ended():
                await clean_up(resources.bus, self._agent, assignment, taken.end)
            case Void():
                await self._drop(taken)

    async def _wait_behind(self, behind: Behind) -> None:
        run = self._assignment
        _log.debug("task %s waits for %s to be over", run.key.task, behind.task)
        pause = pause_before(run.message.metadata.timestamp)
        await run.give_back(self._resources.bus, pause)

    async def _drop(self, void: Void) -> None:
        task, bus = self._assignment.key.task, self._resources.bus
        if void.lost:
            _log.warning("a run of %s becomes a dead letter: %s", task, void.reason)
            await self._assignment.give_up(bus, void.reason)
        else:
            _log.debug("dropped a run of %s: %s", task, void.reason)
            await self._assignment.ack(bus)

    async def _perform(self, hold: Hold, taken: Taken) -> None:
        execution = Execution(
            self._resources,
            self._agent,
            self._assignment,
            taken,
            permit=self._permit,
            lost=self.lose,
            superseded=self.supersede,
            interrupt=lambda: self._interrupt,
        )
        self._execution = execution
        hold.answers = self._answers(taken, execution)
        self._resources.watch.add(execution)
        if execution.inputs.interrupts:
            self.supersede()
        if taken.recovered.is_canceling:
            self.cancel()
        overdue = self._mind(taken.deadline)
        try:
            await self._act(execution)
        finally:
            overdue.cancel()
            self._resources.watch.remove(execution)
        await self._end(hold, execution)

    def _mind(self, deadline: datetime | None) -> asyncio.TimerHandle:
        left = (deadline - datetime.now(UTC)).total_seconds() if deadline else _FOREVER
        loop = asyncio.get_running_loop()
        return loop.call_later(left, self.interrupt, Interrupt.OVERDUE)

    def _answers(self, taken: Taken, execution: Execution) -> HolderAnswers:
        by = taken.authorship
        answer = Holding(
            writer=by.writer,
            worker=self._resources.worker,
            run=by.run,
            attempt=by.attempt,
            ends_within=self._resources.settings.cleanup_seconds + CONFIRMATION,
        )
        control = self._resources.bus.subjects.control(self._assignment.key)
        inputs = execution.inputs
        return HolderAnswers(control, answer, self.cancel, inputs.take_in, lambda: inputs.refuses)

    async def _act(self, execution: Execution) -> None:
        """Run the agent until it ends, or until it exceeds its time limit after an interrupt."""
        if self._interrupt is not Interrupt.NONE:
            self._over.set_result(None)
            return
        acting = asyncio.Task(
            drive(self._agent, execution.context),
            loop=asyncio.get_running_loop(),
            eager_start=True,
        )
        execution.acting = acting
        if acting.done():
            self._over.set_result(None)
            return
        self._acting = acting
        acting.add_done_callback(self._stopped_acting)
        await self._over

    def _stop_acting(self, acting: "asyncio.Task[None]") -> None:
        acting.cancel()
        handing_back = self._interrupt is Interrupt.HANDED_BACK
        timeout = HAND_BACK if handing_back else self._resources.settings.cleanup_seconds
        asyncio.get_running_loop().call_later(timeout, self._stopped_acting, acting)

    def _stopped_acting(self, acting: "asyncio.Task[None]") -> None:
        if not acting.done():
            self._resources.abandoned.add(acting)
            acting.add_done_callback(self._resources.abandoned.discard)
        elif not acting.cancelled():
            # Retrieved, or asyncio would warn about it.
            acting.exception()
        if not self._over.done():
            self._over.set_result(None)

    async def _end(self, hold: Hold, execution: Execution) -> None:
        match self._interrupt:
            case Interrupt.LOST:
                await execution.children.let_go()
                _log.info("task %s: another worker has taken over", self._assignment.key.task)
            case Interrupt.HANDED_BACK:
                await self._hand_back(hold, execution, None)
            case Interrupt.NONE if (again := execution.tries_again) is not None:
                await self._hand_back(hold, execution, again)
            case _:
                await self._conclude(execution)

    async def _hand_back(self, hold: Hold, execution: Execution, again: Retryable | None) -> None:
        await execution.children.let_go()
        why, pause, timeout = events.LEAVING, 0.0, HAND_BACK
        if again is not None:
            why, timeout = events.TRYING_AGAIN, _TIMEOUT
            own = execution.policy.pause(execution.failures)
            pause = own if again.after is None else again.after
            task, count = execution.key.task, execution.failures
            _log.warning("task %s: attempt %d failed, next in %g s: %s", task, count, pause, again)
        await execution.say_handed_back(why, timeout)
        await self._resources.leases.let_go(hold)
        await self._assignment.give_back(self._resources.bus, pause)

    async def _conclude(self, execution: Execution) -> None:
        bus = self._resources.bus
        if (reason := self._why_given_up(execution)) is not None:
            await self._assignment.keep_as_dead_letter(bus, reason)
        run = await complete(execution, self._interrupt)
        if self._interrupt is Interrupt.NONE and execution.is_given_up and self._agent.clean_up:
            run = execution.appender.offered
        if run is not None:
            await self._assignment.ask_for(bus, run)
        await self._assignment.ack(bus)

    def _why_given_up(self, execution: Execution) -> str | None:
        if self._interrupt is Interrupt.OVERDUE:
            return why_overdue(execution.policy, execution.recovered)
        if self._interrupt is Interrupt.NONE and execution.is_given_up:
            return "Given up: the last attempt failed"
        return None
