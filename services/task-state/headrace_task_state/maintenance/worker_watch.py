"""Give the runs of a dead worker back to the queue, instead of waiting for their leases to expire.

A killed process's connections close at once, and requests to it are answered *no responders*. So
each worker is asked twice a second which runs it holds. If there is no response several times in a
row, or a worker that froze answers nothing for as long as a lease would last, its runs are released
to the queue, which delivers them to another worker at once.

The sweep and the check of holders then know the tasks of these runs, and ask nobody about them.

This decides nothing: a worker that gets such a run contacts its holder, and leaves it if that
answers. A worker that is not asked, or has not answered yet, keeps its runs by their leases alone.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping

from headrace.jetstream.connection import Bus
from headrace.jetstream.consumers import nak, queue_of
from headrace.model.errors import BusUnavailable, NobodyListens, UndecodableMessage
from headrace.model.messages import Holds, HoldsQuery
from headrace.model.queues import agent_of
from headrace.ticks import tick
from headrace_task_state.maintenance.held_tasks import HeldTasks
from headrace_task_state.maintenance.timing import WatchTiming

_log = logging.getLogger(__name__)

_TRIES = 5
"""Attempts to give a run back: while its queue elects a leader, it is not confirmed."""


class WorkerWatch:
    """Watches all workers. The replica with the first range does so; two at once are harmless."""

    def __init__(
        self,
        bus: Bus,
        agents_by_worker: Callable[[], Mapping[str, tuple[str, ...]]],
        timing: WatchTiming,
        held: HeldTasks,
    ) -> None:
        """Watch the live workers of `agents_by_worker`; keep `held` up to date."""
        self._bus, self._agents_by_worker = bus, agents_by_worker
        self._timing, self._held = timing, held
        self._live: Mapping[str, tuple[str, ...]] = {}
        self._watched: dict[str, asyncio.Task[None]] = {}

    async def run(self) -> None:
        """Run until cancelled."""
        try:
            while True:
                self._live = self._agents_by_worker()
                for name, agents in self._live.items():
                    if name not in self._watched:
                        self._begin(name, agents)
                await tick(self._timing.directory_interval)
        finally:
            for watching in self._watched.values():
                watching.cancel()

    def _begin(self, name: str, agents: tuple[str, ...]) -> None:
        watched = WatchedWorker(self._bus, name, agents, self._timing, self._held)

        async def watch() -> None:
            try:
                while name in self._live or watched.may_hold_runs:
                    await watched.look()
            finally:
                watched.forget()

        watching = self._watched[name] = asyncio.create_task(watch(), name=f"watch {name}")
        watching.add_done_callback(lambda done: self._ended(name, done))

    def _ended(self, name: str, watching: "asyncio.Task[None]") -> None:
        del self._watched[name]
        if not watching.cancelled() and (error := watching.exception()) is not None:
            _log.error("watching %s failed", name, exc_info=error)


class WatchedWorker:
    """A worker, the runs that it holds, and how many questions it has left unanswered."""

    def __init__(
        self, bus: Bus, name: str, agents: tuple[str, ...], timing: WatchTiming, held: HeldTasks
    ) -> None:
        """Watch the worker `name`, which serves `agents`; record in `held` the tasks it holds."""
        self._bus, self._name, self._agents, self._timing = bus, name, agents, timing
        self._subject = bus.subjects.holds(agents[0], name)
        self._holds: dict[int, str] = {}
        self._held, self._tasks = held, dict[int, str]()
        self._number = 0
        self._has_answered = False
        self._absent = self._silent = 0

    @property
    def may_hold_runs(self) -> bool:
        """Whether it has answered, and has not been found dead since."""
        return self._has_answered

    @property
    def answers(self) -> bool:
        """Whether it has answered the last question."""
        return self._has_answered and not self._absent and not self._silent

    async def look(self) -> None:
        """Ask once, act on what the answer is, and wait until the next question is due."""
        timing, pause = self._timing, self._timing.interval
        query = HoldsQuery(after=self._number).encode()
        try:
            answer = await self._bus.request(self._subject, query, self._timing.answer)
            self._apply(Holds.decode(self._subject, answer.data))
            pause = timing.interval if self._holds else timing.without_runs
        except NobodyListens:
            self._absent += 1
        except UndecodableMessage as error:
            _log.warning("%s", error)
            self.forget()
        except BusUnavailable:
            self._silent += 1
            pause = 0.0  # It has waited for the answer.
        if was_cut_off(self._bus, timing):
            # The workers may have been, too, and be on their way back.
            self._absent = self._silent = 0
            pause = timing.interval
        if self._absent >= timing.absences or self._silent >= timing.silences:
            await self._give_back()
        await tick(pause if self._has_answered else timing.directory_interval)

    def _apply(self, answer: Holds) -> None:
        self._has_answered = True
        self._absent = self._silent = 0
        # First: the worker may hold the next run of the same task already.
        self._release_tasks(list(self._tasks) if answer.whole else answer.released)
        if answer.whole:
            self._holds.clear()
        self._holds.update(answer.taken)
        for number in answer.released:
            self._holds.pop(number, None)
        for number, task in answer.tasks.items():
            if number in answer.taken and self._is_task_of_its_agents(task):
                self._tasks[number] = task
                self._held.record(task, self)
        self._number = answer.number

    def _release_tasks(self, numbers: Iterable[int]) -> None:
        for number in numbers:
            if (task := self._tasks.pop(number, None)) is not None:
                self._held.release(task, self)

    def forget(self) -> None:
        """Know nothing of it any more."""
        self._release_tasks(list(self._tasks))
        self._holds, self._number, self._has_answered = {}, 0, False
        self._absent = self._silent = 0

    async def _give_back(self) -> None:
        """Release its runs to the queue, and start over: it may have been frozen or cut off."""
        is_gone, holds = self._absent >= self._timing.absences, list(self._holds.values())
        self.forget()
        if holds:
            what = "is gone" if is_gone else "does not answer"
            _log.warning("%s %s; giving back its %d runs", self._name, what, len(holds))
            await asyncio.gather(*(self._release(reply) for reply in holds))

    async def _release(self, reply: str) -> None:
        if not self._is_of_its_agents(reply):
            _log.warning("%s names a run that is not its: %s", self._name, reply)
            return
        for _ in range(_TRIES):
            try:
                # The server confirms it. If the run has left the worker, nothing else happens.
                await self._bus.request(reply, nak(), self._timing.answer)
            except BusUnavailable:
                await asyncio.sleep(self._timing.interval)
            else:
                return

    def _is_task_of_its_agents(self, subject: str) -> bool:
        """Return whether it can be the control subject of a task of the worker's agents.

        A worker must not have task state leave the runs of others alone.
        """
        agent = subject.split(".")[-2:-1]
        return bool(agent) and agent[0] in self._agents

    def _is_of_its_agents(self, reply: str) -> bool:
        """Return whether it is a reply subject of a run of the worker's agents, and nothing else.

        A worker must not have task state publish what it may not publish itself.
        """
        try:
            stream, consumer = queue_of(reply)
        except ValueError:
            return False
        return stream == self._bus.streams.runs and agent_of(consumer) in self._agents


def was_cut_off(bus: Bus, timing: WatchTiming) -> bool:
    """Return whether NATS does not answer this process, or does again for a short time only."""
    back = asyncio.get_running_loop().time() - bus.back_since
    return not bus.answers or back < timing.after_reconnect
