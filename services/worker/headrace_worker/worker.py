"""Worker: pulls runs of its agents, works on them, and hands back unfinished runs when it stops."""

import asyncio
import logging
import secrets
from collections.abc import Awaitable
from functools import partial

from nats.aio.msg import Msg
from nats.errors import Error as NatsError

from headrace.background import keep_running
from headrace.clock import use_task_clock
from headrace.directory import Announcer
from headrace.jetstream.connection import Bus, NewTransport, OnClosed
from headrace.jetstream.consumers import nak
from headrace.jetstream.server_clock import ServerClock, tasks_clock
from headrace.log import TailRule
from headrace.model.errors import BusUnavailable, NewerVersion, UndecodableMessage
from headrace.model.messages import Draining
from headrace.model.queues import RunQueue, version_of
from headrace.processes import ProcessAnswers
from headrace.sdk.agent import Agent, Agents
from headrace.sdk.runtime import Interrupt
from headrace.tasks.runs import ensure_queue
from headrace.ticks import tick
from headrace.wait_for import reason, wait_for
from headrace_worker.append_ticks import AppendTicks
from headrace_worker.appender import Appender
from headrace_worker.assignment import make_dead_letter, read_assignment
from headrace_worker.attempt import Attempt
from headrace_worker.concurrency import AdaptiveLimit, AgentConcurrency, ConcurrencyLimit, Permit
from headrace_worker.heartbeat_thread import HeartbeatThread
from headrace_worker.heartbeats import WorkerLeases
from headrace_worker.offload import WorkerFiles
from headrace_worker.poll import Puller, QueueWatch, Repair
from headrace_worker.registration import Registration
from headrace_worker.resources import WorkerResources
from headrace_worker.run_attempt import run_attempt
from headrace_worker.run_metrics import begin_at_zero
from headrace_worker.settings import WorkerSettings
from headrace_worker.timing import Timing
from headrace_worker.usage import Prices
from headrace_worker.watch import Watch

_log = logging.getLogger(__name__)

_DEREGISTER_TIMEOUT = 0.5

_HEALTH_CHECK = 0.5

_REPAIR_TIMEOUT = 1.0

_NEWER_PAUSE = 2.0
"""Seconds after which a run request that this release can't read is delivered again."""


class Worker:
    """A worker instance, created and used on one event loop."""

    def __init__(
        self,
        settings: WorkerSettings,
        agents: Agents,
        timing: Timing | None = None,
        new_transport: NewTransport | None = None,
    ) -> None:
        """Prepare to serve `agents`, over connections with a transport of `new_transport`."""
        self.id = f"worker-{secrets.token_hex(4)}"
        self._settings, self._agents = settings, agents
        self._bus = Bus(settings, new_transport)
        self._heartbeat_thread = HeartbeatThread(settings, f"{self.id} heartbeats", new_transport)
        timing = timing or Timing()
        self._leases = WorkerLeases(self._heartbeat_thread, timing)
        self._rule = TailRule(self._bus)
        self._watch = Watch(self._bus, self._rule, self._appenders)
        self._resources = WorkerResources(
            self.id,
            self._bus,
            self._leases,
            self._rule,
            settings,
            timing,
            AppendTicks(settings.append_linger, asyncio.get_running_loop()),
            Prices.read(settings.prices),
            WorkerFiles(self._bus),
        )
        announcer = Announcer(self._heartbeat_thread.bus, self.id)
        self._registration = Registration(self._heartbeat_thread, announcer, agents)
        self._limit = AdaptiveLimit(settings.concurrency)
        self._served = {agent.name: (agent, self._concurrency_of(agent)) for agent in agents}
        first = [_first_queue(agent) for agent in agents]
        self._queues = QueueWatch(self._bus, first, self._serve, timing.queue_interval)
        self._runs: dict[tuple[str, int], Attempt] = {}
        self._working: set[asyncio.Task[None]] = set()
        self._answering: set[asyncio.Task[None]] = set()
        self._background: list[asyncio.Task[None]] = []
        self._serves = False
        self._leaving: asyncio.Task[None] | None = None
        self._draining: asyncio.Task[None] | None = None
        self.drained = asyncio.Event()
        """Set when all active runs have ended after `drain`."""

    @property
    def is_ready(self) -> bool:
        """Whether its agents are announced and NATS answers."""
        return self._serves and self._bus.answers

    def on_closed(self, callback: OnClosed) -> None:
        """Call `callback`, from any thread, if one of its connections is closed for good."""
        for bus in (self._bus, self._heartbeat_thread.bus):
            bus.on_closed(callback)

    async def start(self) -> None:
        """Connect, announce the agents and start to pull.

        Raises:
            BusUnavailable: NATS was not available within the start-up timeout.
        """
        begin_at_zero(self._agents)
        server_clock = ServerClock(self._bus)
        # Whatever begins here inherits it: the connection that delivers runs, too.
        with use_task_clock(tasks_clock(server_clock)):
            await self._start(server_clock)

    async def _start(self, server_clock: ServerClock) -> None:
        await self._bus.connect(self.id)
        await self._heartbeat_thread.start()
        self._background = [keep_running(self._beat, "health probe")]
        # As for `drain`: the asker names one of the agents.
        await self._leases.start(self._bus.subjects.holds("*", self.id))
        await self._rule.start()
        self._background += [
            keep_running(self._watch.run, "watch"),
            keep_running(self._limit.run, "concurrency limit"),
            keep_running(server_clock.run, "clocks"),
        ]
        for agent in self._agents:
            await self._ensure_queue(agent)
        await self._queues.start()
        # Of whichever agent: a group of workers has an account that exports its agents' subjects.
        await self._bus.listen(self._bus.subjects.drain("*", self.id), self._on_drain)
        await ProcessAnswers(self._bus, "worker", self.id).start("*", self.id)
        await self._registration.announce()
        self._serves = True

    async def update(self, agents: Agents) -> None:
        """Serve `agents` from now on; active runs keep the agents that they started with.

        Raises:
            BusUnavailable: NATS does not answer; call it again.
        """
        begin_at_zero(agents)
        kept = {agent.name for agent in agents if self._is_served_alike(agent)}
        await self._queues.serve_others([_first_queue(a) for a in agents if a.name in kept])
        for agent in agents:
            if agent.name not in kept:
                await self._ensure_queue(agent)
            concurrency = (
                self._served[agent.name][1] if agent.name in kept else self._concurrency_of(agent)
            )
            self._served[agent.name] = (agent, concurrency)
        await self._registration.replace(agents)
        await self._queues.serve_others([_first_queue(agent) for agent in agents])
        self._agents = agents

    def drain(self) -> None:
        """Start no more runs, and set `drained` once all active ones have ended; then `stop`."""
        if self._draining is None:
            self._draining = asyncio.create_task(self._drain(), name="drain")

    async def stop(self) -> None:
        """Stop: give active runs time to end, and hand the rest back."""
        if self._draining is not None:
            self._draining.cancel()
        await self._leave()
        await self._finish()
        for task in self._background:
            task.cancel()
        await _briefly(self._rule.stop())
        await asyncio.gather(self._heartbeat_thread.stop(), self._bus.close())

    async def abort(self) -> None:
        """Stop as a process does that is killed: hand nothing back, append and answer nothing.

        For tests, which cut the worker's connections first.
        """
        self._serves = False
        for run in list(self._runs.values()):
            run.interrupt(Interrupt.LOST)
        for task in self._background:
            task.cancel()
        await _briefly(self._queues.drain(), self._rule.stop())
        await self._end_runs()
        await asyncio.gather(self._heartbeat_thread.stop(), self._bus.close())

    async def _drain(self) -> None:
        await self._leave()
        while self._working:
            _log.info("draining; %d runs are active", len(self._working))
            await asyncio.wait(self._working)
        self.drained.set()

    def _on_drain(self, msg: Msg) -> None:
        _log.info("asked to drain")
        self.drain()
        answer = Draining(runs=len(self._working)).encode()
        answering = asyncio.create_task(_briefly(self._bus.publish(msg.reply, answer)))
        self._answering.add(answering)
        answering.add_done_callback(self._answering.discard)

    async def _leave(self) -> None:
        """Leave the directory and stop pulling, once."""
        self._serves = False
        if self._leaving is None:
            self._leaving = asyncio.create_task(self._withdraw())
        await asyncio.shield(self._leaving)

    async def _withdraw(self) -> None:
        # At once: a run that was requested after the drain is another worker's.
        await asyncio.gather(_briefly(self._queues.drain()), self._registration.withdraw())

    def _is_served_alike(self, agent: Agent) -> bool:
        """Return whether the agent is served with the concurrency and from the queues as now."""
        served = {one.name: one for one in self._agents}.get(agent.name)
        return (
            served is not None
            and served.limits.concurrency == agent.limits.concurrency
            and _first_queue(served) == _first_queue(agent)
        )

    async def _ensure_queue(self, agent: Agent) -> None:
        await wait_for(
            f"the work queue of {agent.name}",
            partial(ensure_queue, self._bus, _first_queue(agent)),
            self._settings.startup_timeout,
        )

    def _concurrency_of(self, agent: Agent) -> AgentConcurrency:
        return AgentConcurrency(
            self._limit.limit,
            ConcurrencyLimit(agent.limits.concurrency or self._settings.concurrency),
        )

    async def _serve(self, name: str, consumer: str) -> Puller:
        agent, concurrency = self._served[name]
        puller: Puller
        forget = self._working.discard  # Bound once, not for each run.

        def deliver(msg: Msg) -> None:
            # The current version of the agent. An agent no longer served still ends runs delivered
            # to it.
            now, _ = self._served.get(name, (agent, concurrency))
            work = self._work(now, msg, puller)
            task = asyncio.Task(work, loop=asyncio.get_running_loop(), eager_start=True)
            if not task.done():
                self._working.add(task)
                task.add_done_callback(forget)

        repair, idle_after = self._repair(name, consumer), self._resources.timing.idle_queue
        puller = Puller(self._bus, consumer, deliver, concurrency, repair, idle_after=idle_after)
        await puller.start()
        return puller

    def _repair(self, agent: str, consumer: str) -> Repair:
        queue = RunQueue(agent, version=version_of(consumer))
        if consumer == queue.consumer:
            return partial(ensure_queue, self._bus, queue, _REPAIR_TIMEOUT)
        # Publishers create the other queues; this one may have been removed.
        return self._queues.look_soon

    async def _work(self, agent: Agent, msg: Msg, puller: Puller) -> None:
        permit = puller.permit()
        try:
            if (run := await self._attempt(agent, msg, permit)) is not None:
                # Not in a coroutine of its own, which would take 240 bytes while the run waits.
                try:
                    await run_attempt(run)
                finally:
                    del self._runs[run.assignment.name]
        except (BusUnavailable, NatsError) as error:
            _log.warning(
                "could not start a run on %s; it will be delivered again: %s", msg.subject, error
            )
        except Exception:  # noqa: BLE001  # the run is redelivered, and others continue
            _log.exception("a run on %s failed", msg.subject)
        finally:
            puller.done(permit)

    async def _attempt(self, agent: Agent, msg: Msg, permit: Permit) -> Attempt | None:
        """Return the attempt at the pulled run; None: this worker has it, or can't read it."""
        try:
            assigned = read_assignment(self._bus, msg)
        except NewerVersion as newer:
            _log.warning("left a run request to workers of a later release: %s", newer)
            await self._bus.connection.publish(msg.reply, nak(_NEWER_PAUSE))
            return None
        except UndecodableMessage as error:
            _log.warning("storing an unreadable run request as a dead letter: %s", error)
            await make_dead_letter(self._bus, msg, error.reason)
            return None
        if assigned.name in self._runs:
            _log.debug("ignored a second copy of a run of task %s", assigned.key.task)
            return None
        attempt = self._runs[assigned.name] = Attempt(self._resources, agent, assigned, permit)
        return attempt

    def _appenders(self) -> list[Appender]:
        """Return the appenders of the runs whose agents are at work."""
        return [run.appender for run in self._runs.values() if run.is_at_work]

    async def _finish(self) -> None:
        if self._working:
            _log.info(
                "stopping; %d runs have %g s to end",
                len(self._working),
                self._settings.drain_seconds,
            )
            await asyncio.wait(self._working, timeout=self._settings.drain_seconds)
        for run in list(self._runs.values()):
            run.interrupt(Interrupt.HANDED_BACK)
        if self._working:
            _log.info("handing %d runs over to other workers", len(self._working))
        await self._end_runs()

    async def _end_runs(self) -> None:
        """Wait for the interrupted runs, and leave those to the queue that take too long.

        Without NATS, one whose end is not acknowledged would try for ever to have it stored.
        """
        timeout = self._resources.timing.closing_timeout
        if self._working:
            await asyncio.wait(self._working, timeout=timeout)
        if self._working:
            _log.info("leaving %d runs to the queue", len(self._working))
            for task in self._working:
                task.cancel()
            await asyncio.wait(self._working, timeout=timeout)

    async def _beat(self) -> None:
        while True:
            self._leases.health.note_turn()
            await tick(_HEALTH_CHECK)


def warn_of(agents: Agents) -> None:
    """Log what operators should know about `agents`."""
    for agent in agents:
        for caution in agent.card.cautions:
            _log.warning("agent %s: %s", agent.name, caution)
        for note in agent.notes:
            _log.info("agent %s: %s", agent.name, note)


def _first_queue(agent: Agent) -> RunQueue:
    return RunQueue.first_of(agent.name, agent.card.pinned_version)


async def _briefly(*steps: Awaitable[None]) -> None:
    """Await steps that are optional if NATS does not answer."""
    try:
        async with asyncio.timeout(_DEREGISTER_TIMEOUT):
            await asyncio.gather(*steps)
    except (TimeoutError, NatsError) as error:
        _log.info("a shutdown step was skipped: %s", reason(error))
