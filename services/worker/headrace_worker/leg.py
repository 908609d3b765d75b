"""One attempt at one leg: take it, run the agent, end it, acknowledge the run.

Three things can interrupt the agent: somebody cancels the task, this worker has to hand its work
back, or the log turns out to be somebody else's. After the last the attempt is mute: it appends
nothing, acknowledges nothing and answers nobody.
"""

import asyncio
import logging
from datetime import UTC, datetime

from headrace import metrics
from headrace.jetstream.connection import TROUBLE
from headrace.model import events
from headrace.model.errors import BusUnavailable, Fenced, LogLost
from headrace.model.messages import Holding
from headrace_worker.agent import Agent
from headrace_worker.assignment import Assignment
from headrace_worker.cleaning_up import clean_up
from headrace_worker.conclusion import conclude
from headrace_worker.driving import drive
from headrace_worker.errors import Retryable
from headrace_worker.giving_up import why_overdue
from headrace_worker.holding import Behind, Ended, Held, Void
from headrace_worker.interrupt import Interrupt
from headrace_worker.leases import Claim, Hold
from headrace_worker.performance import Performance
from headrace_worker.seat import Seat
from headrace_worker.station import Station
from headrace_worker.taking import Taken, take
from headrace_worker.turn_taking import pause_before

_log = logging.getLogger(__name__)

HAND_BACK = 0.4
"""Seconds that an agent has to clean up, and its last append to end, when its run is handed back:
the process is about to end."""

_PATIENCE = 10.0
_FOREVER = 10 * 365 * 86400.0


class Leg:
    """One attempt, from a pulled run to its acknowledgement."""

    def __init__(self, station: Station, agent: Agent, assignment: Assignment, seat: Seat) -> None:
        """Prepare to let `agent` do what `assignment` asks for, on `seat`."""
        self._station, self._agent, self._assignment = station, agent, assignment
        self._seat = seat
        self._interrupt = Interrupt.NONE
        self._hold: Hold | None = None
        self._performance: Performance | None = None
        self._acting: asyncio.Task[None] | None = None
        self._over: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def run(self) -> None:
        """Do it. Whatever goes wrong, the run stays in the queue or its log says how it ended."""
        hold = self._hold = self._station.leases.take(self._assignment.message.reply)
        try:
            await self._run(hold)
        except (Fenced, LogLost) as loss:
            _log.info("task %s is not ours any more: %s", self._assignment.key.task, loss)
        except (BusUnavailable, *TROUBLE) as trouble:
            _log.warning("task %s waits for another try: %s", self._assignment.key.task, trouble)
        finally:
            self._station.leases.release(hold)

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
        if self._performance is not None:
            self._performance.outbox.mute()
        if self._hold is not None:
            self._station.leases.release(self._hold)

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
        station, assignment = self._station, self._assignment
        taken = await take(station.bus, station.worker, assignment, self._agent.policy)
        match taken:
            case Taken():
                with metrics.RUNS_WORKING.labels(assignment.key.agent).track_inprogress():
                    await self._perform(hold, taken)
            case Held():
                _log.debug("task %s is well with %s", assignment.key.task, taken.by)
            case Behind():
                await self._wait_behind(taken)
            case Ended():
                await clean_up(station.bus, self._agent, assignment, taken.end)
            case Void():
                await self._drop(taken)

    async def _wait_behind(self, behind: Behind) -> None:
        run = self._assignment
        _log.debug("task %s waits for %s to be over", run.key.task, behind.task)
        pause = pause_before(run.message.metadata.timestamp)
        await run.give_back(self._station.bus, pause)

    async def _drop(self, void: Void) -> None:
        task, bus = self._assignment.key.task, self._station.bus
        if void.lost:
            _log.warning("a run of %s goes to the dead letters: %s", task, void.reason)
            await self._assignment.give_up(bus, void.reason)
        else:
            _log.debug("dropped a run of %s: %s", task, void.reason)
            await self._assignment.ack(bus)

    async def _perform(self, hold: Hold, taken: Taken) -> None:
        performance = Performance(
            self._station,
            self._agent,
            self._assignment,
            taken,
            seat=self._seat,
            lost=self.lose,
            superseded=self.supersede,
            interrupt=lambda: self._interrupt,
        )
        self._performance = performance
        hold.claim = self._claim(taken, performance)
        self._station.watch.add(performance)
        if performance.inputs.interrupts:
            self.supersede()
        if taken.past.is_canceling:
            self.cancel()
        overdue = self._mind(taken.deadline)
        try:
            await self._act(performance)
        finally:
            overdue.cancel()
            self._station.watch.remove(performance)
        await self._end(hold, performance)

    def _mind(self, deadline: datetime | None) -> asyncio.TimerHandle:
        left = (deadline - datetime.now(UTC)).total_seconds() if deadline else _FOREVER
        loop = asyncio.get_running_loop()
        return loop.call_later(left, self.interrupt, Interrupt.OVERDUE)

    def _claim(self, taken: Taken, performance: Performance) -> Claim:
        by = taken.authorship
        answer = Holding(
            writer=by.writer, worker=self._station.worker, leg=by.leg, attempt=by.attempt
        )
        control = self._station.bus.subjects.control(self._assignment.key)
        inputs = performance.inputs
        return Claim(control, answer, self.cancel, inputs.take_in, lambda: inputs.refuses)

    async def _act(self, performance: Performance) -> None:
        """Run the agent until it ends, or does not end in time after an interrupt."""
        if self._interrupt is not Interrupt.NONE:
            self._over.set_result(None)
            return
        acting = asyncio.Task(
            drive(self._agent, performance.context),
            loop=asyncio.get_running_loop(),
            eager_start=True,
        )
        performance.acting = acting
        if acting.done():
            self._over.set_result(None)
            return
        self._acting = acting
        acting.add_done_callback(self._stopped_acting)
        await self._over

    def _stop_acting(self, acting: "asyncio.Task[None]") -> None:
        acting.cancel()
        handing_back = self._interrupt is Interrupt.HANDED_BACK
        patience = HAND_BACK if handing_back else self._station.settings.cleanup_seconds
        asyncio.get_running_loop().call_later(patience, self._stopped_acting, acting)

    def _stopped_acting(self, acting: "asyncio.Task[None]") -> None:
        if not acting.done():
            self._station.abandoned.add(acting)
            acting.add_done_callback(self._station.abandoned.discard)
        elif not acting.cancelled():
            # Looked at, so that asyncio does not complain that nobody did.
            acting.exception()
        if not self._over.done():
            self._over.set_result(None)

    async def _end(self, hold: Hold, performance: Performance) -> None:
        match self._interrupt:
            case Interrupt.LOST:
                await performance.children.let_go()
                _log.info("task %s is not ours any more", self._assignment.key.task)
            case Interrupt.HANDED_BACK:
                await self._hand_back(hold, performance, None)
            case Interrupt.NONE if (again := performance.tries_again) is not None:
                await self._hand_back(hold, performance, again)
            case _:
                await self._conclude(performance)

    async def _hand_back(
        self, hold: Hold, performance: Performance, again: Retryable | None
    ) -> None:
        await performance.children.let_go()
        why, pause, patience = events.LEAVING, 0.0, HAND_BACK
        if again is not None:
            why, patience = events.TRYING_AGAIN, _PATIENCE
            own = performance.policy.pause(performance.failures)
            pause = own if again.after is None else again.after
            task, count = performance.key.task, performance.failures
            _log.warning("task %s: attempt %d failed, next in %g s: %s", task, count, pause, again)
        await performance.say_handed_back(why, patience)
        await self._station.leases.let_go(hold)
        await self._assignment.give_back(self._station.bus, pause)

    async def _conclude(self, performance: Performance) -> None:
        bus = self._station.bus
        if (reason := self._why_given_up(performance)) is not None:
            await self._assignment.keep_as_dead_letter(bus, reason)
        leg = await conclude(performance, self._interrupt)
        if self._interrupt is Interrupt.NONE and performance.is_given_up and self._agent.clean_up:
            leg = performance.outbox.offered
        if leg is not None:
            await self._assignment.ask_for(bus, leg)
        await self._assignment.ack(bus)

    def _why_given_up(self, performance: Performance) -> str | None:
        if self._interrupt is Interrupt.OVERDUE:
            return why_overdue(performance.policy, performance.past)
        if self._interrupt is Interrupt.NONE and performance.is_given_up:
            return "Given up: the last attempt failed"
        return None
