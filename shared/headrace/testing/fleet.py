"""A fleet in one process: the worker, the gateway's commands and task state, on NATS in memory."""

from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack
from typing import ClassVar, Self

from headrace.clock import use_task_clock
from headrace.directory import Announcer, Directory
from headrace.jetstream.connection import Bus
from headrace.jetstream.memory.server import MemoryServer
from headrace.jetstream.memory.transport import MemoryTransport
from headrace.jetstream.objects import FileStore
from headrace.model.case import Case
from headrace.model.events import Json
from headrace.model.task_report import TaskEvent
from headrace.model.user_message import MessageContent
from headrace.sdk.agent import Agent, Agents
from headrace.sdk.emit import File
from headrace.settings import BusSettings
from headrace.testing.ack_gate import AckGate
from headrace.testing.clock import FleetClock
from headrace.testing.gateway import GatewayTasks
from headrace.testing.replay import ReplayReport, replay
from headrace.testing.state import MemoryTaskState
from headrace.testing.task import FleetParts, FleetTask, TaskResult, body_of, message_of
from headrace_worker.settings import WorkerSettings
from headrace_worker.timing import Timing
from headrace_worker.worker import Worker


class TestFleet:
    """Runs agents in this process with a fleet's own code, without servers.

        async with TestFleet([shop]) as fleet:
            answer = await fleet.send("shop", "nails")

    Everything but NATS and task state's store, which are in memory, is the code that runs in
    production. Environment variables are not read.
    """

    __test__: ClassVar[bool] = False  # pytest would collect it as a test class.

    def __init__(
        self, agents: Iterable[Agent], *, timeout: float = 10.0, drain_seconds: float = 0.0
    ) -> None:
        """Serve `agents` in a ``with`` block.

        Args:
            agents: The agents; they may delegate to each other.
            timeout: Maximum seconds to wait for an event of a run.
            drain_seconds: Seconds that unfinished runs get when the block ends.
        """
        self._agents = agents if isinstance(agents, Agents) else Agents(agents)
        self._timeout = timeout
        self._settings = WorkerSettings.model_construct(
            drain_seconds=drain_seconds, emit_buffer_events=1, public_url="http://fleet.test"
        )
        self._stack = AsyncExitStack()
        self._gate = AckGate()

    async def __aenter__(self) -> Self:
        """Start the fleet."""
        self._clock = FleetClock(lambda: self._server.commands)
        self._stack.callback(self._clock.close)
        self._server = MemoryServer(now=self._clock.now)
        self._server.hold_ack = self._gate.hold
        self._stack.callback(self._server.close)
        self._bus = Bus(BusSettings.model_construct(), self._new_transport)
        try:
            await self._start()
        except BaseException:
            await self._stack.aclose()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        """Stop the fleet and its unfinished runs."""
        await self._stack.aclose()

    async def _start(self) -> None:
        await self._bus.connect("test")
        self._stack.push_async_callback(self._bus.close)
        directory = Directory(self._bus)
        self._state = state = MemoryTaskState(self._bus, directory)
        self._stack.push_async_callback(state.stop)
        await state.start()
        gateway = GatewayTasks(self._bus, directory)
        self._stack.push_async_callback(gateway.stop)
        await gateway.start()
        self._stack.push_async_callback(self._stop_worker)
        await self._start_worker()
        self._stack.push_async_callback(directory.stop)
        await directory.start()
        self._parts = FleetParts(gateway, FileStore(self._bus), self._gate, self._timeout)

    async def send(
        self,
        agent: str,
        message: MessageContent,
        *,
        files: Sequence[File] = (),
        context: str | None = None,
    ) -> TaskResult:
        """Send a message to an agent and return the result of its run.

        Args:
            agent: The agent's name.
            message: Text, an A2A Message, or A2A Parts.
            files: Files to attach to the message.
            context: The conversation (contextId) of the task. None: a new one.

        Raises:
            AgentUnknown: the fleet has no such agent.
            TimeoutError: the run emitted no event within the fleet's `timeout`.
        """
        task = await self.start(agent, message, files=files, context=context)
        return await task.result()

    async def start(
        self,
        agent: str,
        message: MessageContent,
        *,
        files: Sequence[File] = (),
        context: str | None = None,
        stepped: bool = False,
    ) -> FleetTask:
        """Send a message to an agent and return its task without waiting for a result.

        With `stepped`, the run pauses after each log message until `FleetTask.events` has yielded
        its events. Any other call on the task ends stepping.

        Raises:
            AgentUnknown: as `send`.
        """
        key, context = self._parts.gateway.place(agent, context)
        subject = self._parts.gateway.subject(key)
        if stepped:
            self._gate.close(subject)
        await self._parts.gateway.begin(key, context, message_of(message, files))
        return FleetTask(self._parts, key, context)

    async def stream(
        self,
        agent: str,
        message: MessageContent,
        *,
        files: Sequence[File] = (),
        context: str | None = None,
    ) -> AsyncIterator[TaskEvent]:
        """Send a message to an agent and yield its task's events step by step.

        The run pauses after each log message until the test requests the next event, so a test can
        act between two messages.

        Raises:
            AgentUnknown, TimeoutError: as `send`.
        """
        task = await self.start(agent, message, files=files, context=context, stepped=True)
        async for event in task.events():
            yield event

    async def publish(
        self, subject: str, content: bytes | str | Json, headers: Mapping[str, str] | None = None
    ) -> None:
        """Publish an event for agents that wait for it (`Subject`), on whatever stream.

        Args:
            subject: The subject.
            content: The body: bytes, text, or JSON.
            headers: The message's headers.
        """
        await self._state.publish(subject, headers or {}, body_of(content))

    async def replay(self, case: Case) -> ReplayReport:
        """Send a recorded case's inputs to its agent, and compare the output with the recorded one.

        The next input is sent when the run has ended or requires input, or, if it was recorded
        while the agent worked, after as many steps as then. The difference is logged, too.

        Raises:
            AgentUnknown, TimeoutError: as `send`.
            CaseInvalid: a file of an input was recorded without its content.
        """
        return await replay(self, case)

    async def advance(self, seconds: float) -> None:
        """Let `seconds` pass at once, for agents and the deadlines of tasks.

        Whatever is due in that time happens in order, each at its own time: an agent that sleeps
        for a minute sixty times does so in ``advance(3600)``. Returns when agents wait again.
        Outside of this call, time passes by itself.

        Not affected are clocks that an agent reads itself (``time``, ``datetime``), ``time.sleep``,
        and servers that an agent calls.

        Raises:
            ValueError: `seconds` is negative or not finite.
        """
        await self._clock.advance(seconds)

    async def kill_worker(self) -> None:
        """Kill the worker as ``kill -9`` does, and start another one, which takes over its runs.

        Output that was not yet in the log is lost. Unlike in a killed process, agents are cancelled
        and their ``finally`` blocks run, but they can't reach the fleet.
        """
        worker = self._worker
        for transport in self._workers_transports:
            transport.cut()
        await worker.abort()
        for agent in self._agents:
            await Announcer(self._bus, worker.id).withdraw(agent.name)
        await self._start_worker()
        self._server.expire_leases()

    def _new_transport(self) -> MemoryTransport:
        return MemoryTransport(self._server)

    def _workers_transport(self) -> MemoryTransport:
        transport = MemoryTransport(self._server)
        self._workers_transports.append(transport)
        return transport

    async def _start_worker(self) -> None:
        self._workers_transports: list[MemoryTransport] = []
        with use_task_clock(self._clock):
            self._worker = Worker(
                self._settings,
                self._agents,
                Timing(keeps_sleepers=True),
                new_transport=self._workers_transport,
            )
            await self._worker.start()

    async def _stop_worker(self) -> None:
        await self._worker.stop()
