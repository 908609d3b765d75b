"""What one attempt works with: its context, its voice, its way into the log."""

import asyncio
from collections.abc import Callable
from functools import partial

from headrace.jetstream.objects import FileOwner
from headrace.model import events
from headrace.model.delegation import Lineage
from headrace.model.events import AGUI, Draft, Json
from headrace.model.task import WORKING, TaskKey
from headrace_worker.agent import Agent
from headrace_worker.assignment import Assignment
from headrace_worker.context import RunContext
from headrace_worker.delegation.children import Children
from headrace_worker.delegation.parent import Parent
from headrace_worker.delegation.waiting import waiting_child
from headrace_worker.earlier import earlier_logs, earlier_tasks
from headrace_worker.endings import Endings
from headrace_worker.errors import LegOver, Retryable
from headrace_worker.ids import LegIds
from headrace_worker.inputs import Inputs
from headrace_worker.interrupt import Interrupt
from headrace_worker.outbox import Outbox
from headrace_worker.past import Past, recall, reread, retell
from headrace_worker.rendering import Rendering
from headrace_worker.seat import Seat
from headrace_worker.shared_state import SharedState
from headrace_worker.station import Station
from headrace_worker.stowing import Stowing, WorkerFiles
from headrace_worker.taking import Taken
from headrace_worker.voice import Voice


class Performance:
    """An agent at work on a leg that this worker holds."""

    def __init__(  # noqa: PLR0913  # what an attempt is made of
        self,
        station: Station,
        agent: Agent,
        assignment: Assignment,
        taken: Taken,
        *,
        seat: Seat,
        lost: Callable[[], None],
        superseded: Callable[[], None],
        interrupt: Callable[[], Interrupt],
    ) -> None:
        """Set up what the attempt needs.

        `lost` is called when its log is somebody else's, `superseded` when a message is to stop it.
        `interrupt` tells why the agent is being stopped.
        """
        key, leg, run = assignment.key, assignment.leg, assignment.run
        saved = taken.past.checkpoint
        ids = LegIds(key.task, leg, saved.ids)
        self.policy = agent.policy
        self.authorship = taken.authorship
        self.assignment = assignment
        self.key: TaskKey = key
        self.writer = taken.authorship.writer
        self.past = taken.past
        self.outbox = Outbox(
            taken.writer,
            taken.authorship,
            lambda _: lost(),
            lambda *told: self.inputs.overtaken(*told),  # noqa: PLW0108  # made below
            max_events=station.settings.emit_buffer_events,
            max_bytes=station.settings.emit_buffer_bytes,
        )
        self.look = self.outbox.look
        self.inputs = Inputs(
            self.outbox,
            (key.task, run.context),
            agent.card.follow_ups,
            taken.past.waiting,
            superseded,
        )
        state = _state_of(taken.past)
        self.rendering = Rendering(key.task, run.context, ids, saved.index, state)
        self.endings = Endings(key.task, run.context, ids)
        self.voice = Voice(
            self.rendering, self.endings, self.outbox, ids, may_answer=agent.card.bare_message
        )
        trace = taken.past.metadata.get(events.TRACEPARENT) or run.traceparent
        stowing = Stowing(
            files=WorkerFiles(station.bus),
            key=key,
            belongs_to=FileOwner(run.owner, run.context),
            inline=station.settings.inline_bytes,
        )
        parent = Parent(
            key=key,
            context=run.context,
            leg=leg,
            attempt=taken.authorship.attempt,
            bus=station.bus,
            rule=station.rule,
            outbox=self.outbox,
            inputs=self.inputs,
            seat=seat,
            expense=self.voice.expense,
            stowing=stowing,
            interrupt=interrupt,
            most_children=station.settings.delegation_children,
            deadline=taken.deadline,
            budget=_budget_of(taken.past),
            priority=station.bus.subjects.priority_of_run(assignment.message.subject),
            traceparent=trace,
        )
        self.children = Children(parent, taken.past.offspring)
        self.context = RunContext(
            key=key,
            context=run.context,
            owner=run.owner,
            leg=leg,
            attempt=taken.authorship.attempt,
            message=taken.past.message,
            metadata=taken.past.metadata,
            voice=self.voice,
            recall=partial(recall, station.bus, key, taken.writer.sequence),
            retell=partial(retell, station.bus, key, taken.writer.sequence),
            entries=partial(reread, station.bus, key, taken.writer.sequence),
            earlier=partial(earlier_tasks, station.bus, key, run.owner, run.context),
            earlier_logs=partial(earlier_logs, station.bus, key, run.owner, run.context),
            deadline=taken.deadline,
            checkpoint_data=saved.data,
            traceparent=trace,
            inputs=self.inputs,
            shared_state=state,
            interrupt=interrupt,
            parent=parent,
            children=self.children,
            waiting_child=partial(waiting_child, station.bus, key, leg),
            stowing=stowing,
        )
        self.acting: asyncio.Task[None] | None = None

    @property
    def failures(self) -> int:
        """Attempts at the leg that count as failed, should this one fail."""
        return self.authorship.attempt - self.past.handed_back

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

    async def say_handed_back(self, why: str, patience: float) -> None:
        """End the attempt, not the leg: nothing more is said, and the log tells `why`."""
        draft = events.status_update(
            self.key.task, self.context.context, WORKING, metadata={events.HANDED_BACK: why}
        )
        await self.outbox.bid_farewell(draft, patience)

    async def say_ending(self, state: str) -> bool:
        """Have the log tell in which state the leg is to end; False: it is somebody else's."""
        draft = events.status_update(
            self.key.task, self.context.context, WORKING, metadata={events.ENDING: state}
        )
        try:
            await self.outbox.deliver(draft)
        except LegOver:
            return False
        return True

    @property
    def spoke(self) -> float:
        """When its last append ended, loop time in seconds."""
        return self.outbox.spoke

    @property
    def sequence(self) -> int:
        """Stream sequence of its last entry."""
        return self.outbox.sequence

    @property
    def appending(self) -> bool:
        """Whether an append is in flight."""
        return self.outbox.appending


def _budget_of(past: Past) -> int | None:
    lineage = Lineage.of(past.metadata)
    return lineage.budget if lineage is not None else None


def _state_of(past: Past) -> SharedState:
    """Return the state that the attempt begins with: its client's, and what was saved since."""
    sent = past.metadata.get(AGUI)
    state = SharedState(sent.get("state") if isinstance(sent, dict) else None)
    for part in past.signals:
        state.replay(part)
    return state
