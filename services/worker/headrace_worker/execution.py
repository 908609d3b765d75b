"""What one attempt works with: its context, its emitter, its appender."""

import asyncio
from collections.abc import Callable

from headrace.jetstream.objects import FileOwner
from headrace.model import events
from headrace.model.delegation import Lineage
from headrace.model.events import AGUI, Draft, Json
from headrace.model.task import WORKING, TaskKey
from headrace.sdk.agent import Agent
from headrace.sdk.context import RunContext
from headrace.sdk.errors import Retryable, RunOver
from headrace.sdk.interrupt import Interrupt
from headrace_worker.appender import Appender
from headrace_worker.claim import Assignment, Taken
from headrace_worker.concurrency import Permit
from headrace_worker.delegation.children import Children
from headrace_worker.delegation.parent import Parent
from headrace_worker.emitter import Emitter
from headrace_worker.encoder import Encoder, Endings, RunIds
from headrace_worker.inputs import Inputs
from headrace_worker.offload import Offload, WorkerFiles
from headrace_worker.recovery import Recovered
from headrace_worker.resources import WorkerResources
from headrace_worker.runtime import AttemptLog, WorkerRuntime
from headrace_worker.shared_state import SharedState


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
