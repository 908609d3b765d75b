"""One attempt at one run: take it, run the agent, end it, acknowledge the request.

Three things can interrupt the agent: somebody cancels the task, this worker has to hand its work
back, or the log turns out to be somebody else's. After the last the attempt is mute: it appends
nothing, acknowledges nothing and answers nobody.
"""

import asyncio
import logging
from contextlib import aclosing
from datetime import UTC, datetime

from headrace import metrics
from headrace.jetstream.connection import TROUBLE, Bus
from headrace.model import events
from headrace.model.entry import Entry
from headrace.model.errors import BusUnavailable, Fenced, LogLost
from headrace.model.events import Json
from headrace.model.fold import TaskFold
from headrace.model.messages import Holding
from headrace.sdk.agent import Agent
from headrace.sdk.context import RunContext, runtime_of
from headrace.sdk.emit import FILES
from headrace.sdk.ended import EndedTask
from headrace.sdk.errors import AgentExited, Retryable
from headrace.sdk.interrupt import Interrupt
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
from headrace_worker.completion import complete
from headrace_worker.concurrency import Permit
from headrace_worker.delegation.children import CONFIRMATION
from headrace_worker.execution import Execution, WorkerResources
from headrace_worker.heartbeats import Hold, HolderAnswers
from headrace_worker.recovery import events_before


async def drive(agent: Agent, ctx: RunContext) -> None:
    """Run `agent` until its function has ended.

    Raises:
        MalformedOutput: it said what can't be said.
        AgentExited: it tried to end the process.
        Exception: whatever else it raised.
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
"""Seconds that an agent's clean-up may take."""

PAUSES = (1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0)
"""Seconds between its tries."""


async def clean_up(bus: Bus, agent: Agent, assignment: Assignment, end: Entry) -> None:
    """Let `agent` clean up after the task that has ended with `end`; then the run is over.

    A clean-up that fails is tried again after each of `PAUSES`: what it wants to reach may be back
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
"""Seconds that an agent has to clean up, and its last append to end, when its run is handed back:
the process is about to end."""

_TIMEOUT = 10.0

_FOREVER = 10 * 365 * 86400.0


class Attempt:
    """One attempt, from a pulled run to its acknowledgement."""

    def __init__(
        self, resources: WorkerResources, agent: Agent, assignment: Assignment, permit: Permit
    ) -> None:
        """Prepare to let `agent` do what `assignment` asks for, on `permit`."""
        self._resources, self._agent, self._assignment = resources, agent, assignment
        self._permit = permit
        self._interrupt = Interrupt.NONE
        self._hold: Hold | None = None
        self._execution: Execution | None = None
        self._acting: asyncio.Task[None] | None = None
        self._over: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def run(self) -> None:
        """Do it. Whatever goes wrong, the run stays in the queue or its log says how it ended."""
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
        """Stop the agent for this reason, if it still runs."""
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
        """Stop the agent because somebody asked for it."""
        self.interrupt(Interrupt.CANCELED)

    def supersede(self) -> None:
        """Stop the agent because a newer message is to be answered."""
        self.interrupt(Interrupt.SUPERSEDED)

    def lose(self) -> None:
        """Stop the agent because the log is somebody else's."""
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
        """Run the agent until it ends, or does not end in time after an interrupt."""
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
            # Looked at, so that asyncio does not complain that nobody did.
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
