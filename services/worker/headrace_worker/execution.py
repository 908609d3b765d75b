"""What one attempt works with: its context, its emitter, its appender."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from headrace.jetstream.connection import Bus
from headrace.jetstream.objects import FileOwner
from headrace.log import TailRule
from headrace.model import events
from headrace.model.delegation import Lineage
from headrace.model.entry import Entry
from headrace.model.errors import LogLost
from headrace.model.events import AGUI, Draft, Json
from headrace.model.task import WORKING, TaskKey
from headrace.sdk.agent import Agent
from headrace.sdk.context import RunContext
from headrace.sdk.emit import Emission, ToolArguments, ToolResult
from headrace.sdk.errors import DelegationRefused, Retryable, RunOver
from headrace.sdk.interrupt import Interrupt
from headrace.sdk.results import Named, Result
from headrace_worker.appender import Appender
from headrace_worker.claim import Assignment, Taken
from headrace_worker.concurrency import Permit
from headrace_worker.delegation.child import Child
from headrace_worker.delegation.children import Children
from headrace_worker.delegation.parent import Parent
from headrace_worker.delegation.question import Question, message_of, name_of
from headrace_worker.delegation.stream import ChildStream
from headrace_worker.earlier import earlier_logs, earlier_tasks
from headrace_worker.emitter import Emitter
from headrace_worker.encoder import Encoder, Endings, RunIds
from headrace_worker.heartbeats import WorkerLeases
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
    """The log of one attempt's task, and what its conversation has beside it."""

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
        """Return task and agent of the child on whose behalf the run before has asked the user.

        Raises:
            DelegationRefused: no child waits.
        """
        try:
            found = await waiting_child(self.bus, self.parent.key, self.parent.run)
        except LogLost:
            found = None
        if found is None:
            raise DelegationRefused("", "not_waiting", "no child waits for an answer")
        return found


class WorkerRuntime:
    """A `headrace.sdk.runtime.Runtime`: see there."""

    def __init__(
        self, emitter: Emitter, state: SharedState, children: Children, logged: AttemptLog
    ) -> None:
        """Put together what one attempt is made of."""
        parent, inputs = logged.parent, logged.parent.inputs
        # Called per token: no frame of its own.
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
    """What the attempts of one worker share."""

    worker: str
    """The worker's instance id, a subject token."""
    bus: Bus
    leases: WorkerLeases
    rule: TailRule
    watch: Watch
    settings: WorkerSettings
    abandoned: set[asyncio.Task[None]] = field(default_factory=set)
    """Agents that did not stop in time; kept until they do."""


class Execution:
    """An agent at work on a run that this worker holds."""

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
        """Set up what the attempt needs.

        `lost` is called when its log is somebody else's, `superseded` when a message is to stop it.
        `interrupt` tells why the agent is being stopped.
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
        """Attempts at the run that count as failed, should this one fail."""
        return self.authorship.attempt - self.recovered.excused

    @property
    def tries_again(self) -> Retryable | None:
        """Why its agent wants another attempt, if it does and may have one."""
        return self._wish if self.failures < self.policy.max_attempts else None

    @property
    def is_given_up(self) -> bool:
        """Whether its agent wants another attempt and may not have one."""
        return self._wish is not None and self.tries_again is None

    @property
    def _wish(self) -> Retryable | None:
        acting = self.acting
        if acting is None or not acting.done() or acting.cancelled():
            return None
        error = acting.exception()
        return error if isinstance(error, Retryable) else None

    def says(self, message: Json) -> Draft:
        """Return the event in which the agent says `message`, and goes on."""
        return events.status_update(self.key.task, self.context.context, WORKING, message)

    async def say_handed_back(self, why: str, timeout: float) -> None:
        """End the attempt, not the run: nothing more is said, and the log tells `why`."""
        draft = events.status_update(
            self.key.task, self.context.context, WORKING, metadata={events.HANDED_BACK: why}
        )
        await self.appender.append_last(draft, timeout)

    async def say_ending(self, state: str) -> bool:
        """Have the log tell in which state the run is to end; False: it is somebody else's."""
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
        """When its last append ended, loop time in seconds."""
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
    """Return the state that the attempt begins with: its client's, and what was saved since."""
    sent = recovered.metadata.get(AGUI)
    state = SharedState(sent.get("state") if isinstance(sent, dict) else None)
    for part in recovered.signals:
        state.replay(part)
    return state
