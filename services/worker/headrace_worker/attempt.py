"""One attempt at one run: its parts, and how its agent is started and stopped.

Three things can interrupt the agent: the task is canceled, the worker must hand the run back, or
another writer has taken over the log. In the last case the attempt appends nothing, acknowledges
nothing and answers no requests.
"""

import asyncio
from datetime import datetime
from typing import NoReturn

from headrace import clock
from headrace.jetstream.agent_memory import AgentMemory
from headrace.jetstream.objects import FileOwner
from headrace.model import events
from headrace.model.delegation import earliest
from headrace.model.events import Json, timestamp
from headrace.model.memory import MemoryScope
from headrace.model.messages import HolderReply
from headrace.model.queued_message import QueuedMessage
from headrace.model.step import StepRecord
from headrace.model.task import WORKING
from headrace.sdk.agent import Agent
from headrace.sdk.context import RunContext
from headrace.sdk.drive import drive
from headrace.sdk.errors import Misused, Retryable, RunOver
from headrace.sdk.runtime import Interrupt
from headrace.sdk.source import called_at
from headrace.sdk.step_ids import step_scope
from headrace.sdk.steps import Steps
from headrace_worker.appender import Appender
from headrace_worker.assignment import Assignment
from headrace_worker.blocks import RunIds
from headrace_worker.claim import ClaimedRun
from headrace_worker.concurrency import Permit
from headrace_worker.delegation.children import Children
from headrace_worker.earlier import TaskPast
from headrace_worker.emitter import Emitter
from headrace_worker.encoder import Encoder, Endings, RecordingEncoder, RecordingEndings
from headrace_worker.inputs import EarlierInputs, Inputs
from headrace_worker.memory import AttemptMemory
from headrace_worker.observed_tool_calls import ObservedToolCalls
from headrace_worker.offload import Offload
from headrace_worker.resources import WorkerResources
from headrace_worker.run_metrics import series_of
from headrace_worker.step_log import AttemptSteps
from headrace_worker.usage import UsageTotals
from headrace_worker.waits import AttemptWaits


class Attempt:
    """One attempt, from a pulled run to its acknowledgement; the `Runtime` of its context."""

    claimed: ClaimedRun
    appender: Appender
    encoder: Encoder
    endings: Endings
    output: Emitter
    ctx: RunContext
    """It and the attributes above are there once the run is claimed."""
    control: str
    """The task's control subject, on which requests to its holder come, likewise."""
    head: int
    """Stream sequence of the log's last entry before the agent's first, likewise."""

    def __init__(
        self, resources: WorkerResources, agent: Agent, assignment: Assignment, permit: Permit
    ) -> None:
        """Prepare to run `agent` on `assignment`, with `permit`, and hold the run."""
        self.loop = asyncio.get_running_loop()
        self.resources, self.agent, self.assignment = resources, agent, assignment
        self.permit = permit
        self.hold = resources.leases.add(assignment.message.reply)
        self.series = series_of(agent)
        self.interrupted = Interrupt.NONE
        """Why the agent is being stopped."""
        self.agent_task: asyncio.Task[None] | None = None
        self.over: asyncio.Future[None] = self.loop.create_future()
        """Done when the agent has ended, or is no longer waited for."""
        self.started_children: Children | None = None
        """The child tasks; None: the run has asked for none."""
        self.used_memory: AttemptMemory | None = None
        """What the agent remembers; None: it has asked for nothing."""
        self.used_waits: AttemptWaits | None = None
        """What the agent has waited for; None: for nothing."""
        self.asleep_until: datetime | None = None
        """When the first sleep ends for which the attempt ends. None: it ends for none."""
        self.error_type = ""
        """Why the attempt failed, as `error_type_of` names it; empty if it did not."""
        self._inputs: Inputs | None = None
        """None: there have been no messages during the run."""
        self._is_claimed = False

    def begin(self, claimed: ClaimedRun) -> None:
        """Make the parts for the `claimed` run; from now on others can reach and interrupt it."""
        resources, assignment, recovered = self.resources, self.assignment, claimed.recovered
        settings, card = resources.settings, self.agent.card
        self.claimed, self.head = claimed, claimed.writer.sequence
        assignment.free_body()
        self.appender = Appender(
            claimed.writer,
            claimed.authorship,
            self._lose,
            self._pass_on,
            self._note_arrival,
            ticks=resources.ticks,
            max_events=settings.emit_buffer_events,
            max_bytes=settings.emit_buffer_bytes,
        )
        task, run = assignment.key.task, assignment.run
        ids = RunIds(task, run.generation, recovered.checkpoint.ids)
        self.encoder, self.endings = _encoding(self.agent.name, claimed, (task, run.context, ids))
        self.output = Emitter(
            self.encoder,
            self.endings,
            self.appender,
            prices=resources.prices,
            used=recovered.used,
            may_answer=card.bare_message,
        )
        self.ctx = self._context()
        self._is_claimed = True
        if recovered.steps:
            self.output.steps = self.steps
        if recovered.known_children.known:
            self.started_children = Children(self, recovered.known_children)
        self._accept_requests()

    @property
    def is_at_work(self) -> bool:
        """Whether the agent is at work on the claimed run."""
        return self._is_claimed and not self.over.done()

    def _context(self) -> RunContext:
        assignment, claimed = self.assignment, self.claimed
        return RunContext(
            key=assignment.key,
            context=assignment.run.context,
            owner=assignment.run.owner,
            run=assignment.run.generation,
            attempt=claimed.authorship.attempt,
            message=claimed.recovered.message,
            metadata=claimed.recovered.metadata,
            deadline=claimed.deadline,
            checkpoint_data=claimed.recovered.checkpoint.data,
            traceparent=claimed.traceparent,
            _runtime=self,
        )

    def _accept_requests(self) -> None:
        resources = self.resources
        self.control = resources.bus.subjects.control(self.assignment.key)
        self.hold.holder = self
        if self.waiting and self.inputs.interrupts:
            self.interrupt(Interrupt.SUPERSEDED)
        if self.claimed.recovered.is_canceling:
            self.interrupt(Interrupt.CANCELED)

    def holder_reply(self) -> HolderReply:
        """Return the answer to who holds the task; any thread may ask."""
        by, resources = self.claimed.authorship, self.resources
        return HolderReply(
            writer=by.writer,
            worker=resources.worker,
            run=by.run,
            attempt=by.attempt,
            ends_within=resources.settings.cleanup_seconds + resources.timing.child_confirmation,
        )

    def start_agent(self) -> None:
        """Start the agent, unless it has been interrupted; `over` is done when it has ended."""
        if self.interrupted is Interrupt.NONE:
            agent_task = self.agent_task = asyncio.Task(
                drive(self.agent, self.ctx),
                loop=self.loop,
                context=clock.task_clock().agents_context(),
                eager_start=True,
            )
            if not agent_task.done():
                agent_task.add_done_callback(self._stopped)
                return
        self.over.set_result(None)

    def interrupt(self, why: Interrupt) -> None:
        """Stop the agent for the reason `why`, if it still runs."""
        if why <= self.interrupted or self.over.done():
            return
        is_first, self.interrupted = self.interrupted is Interrupt.NONE, why
        if why is Interrupt.LOST:
            if self._is_claimed:
                self.appender.abort()
            self.resources.leases.release(self.hold)
        if is_first and self.agent_task is not None:
            self._stop(self.agent_task)

    def _stop(self, agent_task: asyncio.Task[None]) -> None:
        agent_task.cancel()
        timeout = self.resources.settings.cleanup_seconds
        if self.interrupted is Interrupt.HANDED_BACK and self.asleep_until is None:
            timeout = self.resources.timing.hand_back
        self.loop.call_later(timeout, self._stopped, agent_task)

    def _stopped(self, agent_task: asyncio.Task[None]) -> None:
        if not agent_task.done():
            self.resources.abandoned.add(agent_task)
            agent_task.add_done_callback(self.resources.abandoned.discard)
        elif not agent_task.cancelled():
            # Retrieved, or asyncio would warn about it.
            agent_task.exception()
        if not self.over.done():
            self.over.set_result(None)

    # Methods, because each function made for an attempt would take 140 bytes more.
    def _lose(self, _: object) -> None:
        self.interrupt(Interrupt.LOST)

    def _pass_on(self, queued: list[QueuedMessage], refused: list[QueuedMessage]) -> None:
        self.inputs.overtaken(queued, refused)

    def _note_arrival(self, record: StepRecord) -> None:
        if self.used_waits is None:
            self.claimed.recovered.note_wait(record)
        else:
            self.used_waits.note(record)

    async def detach_children(self) -> None:
        """Stop following the child tasks; they continue, for the attempt that takes over."""
        if self.started_children is not None:
            await self.started_children.detach()

    # Few runs use these parts.
    @property
    def used(self) -> UsageTotals | None:
        """What the run has used so far, its child tasks' tokens included; None: nothing yet."""
        return self.output.used

    @property
    def usage(self) -> UsageTotals:
        """The same to add to."""
        return self.output.usage

    @property
    def inputs(self) -> Inputs:
        """The messages that arrive during the run, also if there are none yet."""
        if self._inputs is None:
            run, recovered = self.assignment.run, self.claimed.recovered
            self._inputs = Inputs(
                self.appender,
                (run.key.task, run.context),
                self.agent.card.follow_ups,
                EarlierInputs(
                    recovered.queued,
                    recovered.waiting,
                    is_answer=recovered.metadata.get(events.IS_ANSWER) is True,
                ),
                self.interrupt,
            )
        return self._inputs

    @property
    def waiting(self) -> list[QueuedMessage]:
        """The messages that are not answered, in the order of the log."""
        if self._inputs is None and not self.claimed.recovered.queued:
            return []
        return self.inputs.waiting

    @property
    def refuses_inputs(self) -> bool:
        """Whether the agent accepts no message now; any thread may ask."""
        has_no_question = self._inputs is None or self._inputs.refuses
        return self.agent.card.follow_ups == "reject" and has_no_question

    @property
    def children(self) -> Children:
        """The child tasks, also if there are none yet."""
        if self.started_children is None:
            self.started_children = Children(self, self.claimed.recovered.known_children)
        return self.started_children

    @property
    def steps(self) -> Steps:
        """The run's steps, also if there are none yet."""
        if self.output.steps is None:
            recovered, key = self.claimed.recovered, self.assignment.key
            log = AttemptSteps(self)
            self.output.steps = Steps(
                key, self.ctx.run, log, recovered.steps, recovered.asked_steps
            )
        return self.output.steps

    @property
    def waits(self) -> AttemptWaits:
        """The run's waits, also if there are none yet."""
        if self.used_waits is None:
            self.used_waits = AttemptWaits(self)
        return self.used_waits

    @property
    def files(self) -> Offload:
        """The task's files; large ones leave the log."""
        run, resources = self.assignment.run, self.resources
        owner = FileOwner(run.owner, run.context)
        return Offload(resources.files, run.key, owner, resources.settings.inline_bytes)

    @property
    def past(self) -> TaskPast:
        """What came before the attempt."""
        run = self.assignment.run
        return TaskPast(self.resources.bus, run.key, run.owner, run.context, self.head)

    @property
    def memory(self) -> AttemptMemory:
        """What the fleet remembers for the agent, and the task's own memory."""
        if self.used_memory is None:
            key, by, run = self.assignment.key, self.claimed.authorship, self.assignment.run
            self.used_memory = AttemptMemory(
                AgentMemory(self.resources.bus),
                MemoryScope(key.tenant, key.agent, run.owner, run.context, key.task),
                by.writer,
                self._check_held,
                is_first=by.run == by.attempt == 1,
                owner_seconds=self.resources.settings.owner_memory_seconds or None,
            )
            self.used_memory.span = self.claimed.span
        return self.used_memory

    def _check_held(self) -> None:
        if self.interrupted is Interrupt.LOST or self.over.done():
            raise RunOver(f"the run of task {self.assignment.key.task} has ended here")

    async def sleep(self, until: datetime) -> float:
        """Begin the run's next sleep, which ends the attempt, or return the seconds left of it.

        A sleep is recorded before its attempt ends, under an id that is the same in each attempt.
        The run request stays in the queue, which delivers it again at the time. So if any process
        is killed meanwhile, the next attempt finds in the log which sleeps there were.

        Raises:
            Misused: A step's function sleeps. Other attempts do not call it, and would count sleeps
                differently.
        """
        if step_scope() is not None:
            raise Misused(
                "a step's function can't use ctx.sleep, which ends the attempt: a step is not cut"
                f" in half; sleep between steps, or use asyncio.sleep{called_at()}"
            )
        name, known = self.output.new_id("sleep"), self.claimed.recovered.sleeps
        end, timing = known.get(name, until), self.resources.timing
        if _left(end) <= timing.waking:
            return _left(end)
        if name not in known:
            slept = {events.SLEEP: {"id": name, "until": timestamp(end)}}
            await self.appender.deliver(self.working(slept))
        if timing.keeps_sleepers:
            return _left(end)
        return await self.fall_asleep(end)

    async def fall_asleep(self, end: datetime) -> NoReturn:
        """End the attempt, and have the next one begin at `end`."""
        self.asleep_until = earliest(self.asleep_until, end)
        # An agent that has not paused yet is not a task that can be stopped.
        await asyncio.sleep(0)
        self.interrupt(Interrupt.HANDED_BACK)
        await self.loop.create_future()
        raise AssertionError("an attempt went on after it was released")

    def unshown_writes(self) -> Json:
        """Return the metadata for the next status: the agent's writes to its memory, if any."""
        return {} if self.used_memory is None else self.used_memory.take_unshown()

    @property
    def failures(self) -> int:
        """Number of failed attempts at the run if this one fails too."""
        return self.claimed.authorship.attempt - self.claimed.recovered.not_counted

    @property
    def raised(self) -> BaseException | None:
        """What the agent raised; None: nothing yet, or its cancellation.

        An agent can't handle that its steps have changed: it may have gone on with other effects.
        """
        if (steps := self.output.steps) is not None and steps.changed is not None:
            return steps.changed
        agent_task = self.agent_task
        if agent_task is None or not agent_task.done() or agent_task.cancelled():
            return None
        return agent_task.exception()

    def note_error(self, error_type: str) -> None:
        """Record in metrics and in the span that the attempt failed."""
        self.error_type = error_type
        if (span := self.claimed.span) is not None:
            span.note_error(error_type)

    @property
    def retryable(self) -> Retryable | None:
        """Why the run needs another attempt; None: it does not."""
        return None if (raised := self.raised) is None else self.agent.retry.reason(raised)

    def working(self, metadata: Json | None = None, message: Json | None = None) -> events.Draft:
        """Return a WORKING status of the task; it shows what the agent wrote to its memory."""
        if written := self.unshown_writes():
            metadata = {**written, **(metadata or {})}
        return events.status_update(self.ctx.task, self.ctx.context, WORKING, message, metadata)


def _encoding(
    agent: str, claimed: ClaimedRun, run: tuple[str, str, RunIds]
) -> tuple[Encoder, Endings]:
    """Return the encoder and the endings of `run`; they record texts if its span wants them."""
    state = claimed.recovered.shared_state()
    index, span = claimed.recovered.checkpoint.index, claimed.span
    calls = ObservedToolCalls(agent, None if span is None else span.tools)
    if span is None or (texts := span.texts) is None:
        return Encoder(*run, index, state, tool_calls=calls), Endings(*run)
    encoder = RecordingEncoder(*run, index, state, tool_calls=calls)
    endings = RecordingEndings(*run)
    encoder.texts = endings.texts = texts
    return encoder, endings


def _left(end: datetime) -> float:
    return (end - clock.now()).total_seconds()
