"""A fleet in one process: the worker, the gateway's commands and task state, on NATS in memory."""

from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import AsyncExitStack
from types import TracebackType
from typing import ClassVar, Self

from headrace.directory import Announcer, Directory
from headrace.jetstream.connection import Bus
from headrace.jetstream.memory.server import MemoryServer
from headrace.jetstream.memory.transport import MemoryTransport
from headrace.jetstream.objects import FileStore
from headrace.sdk.agent import Agent, Agents
from headrace.sdk.emit import File
from headrace.settings import BusSettings
from headrace.testing.gateway import GatewayTasks
from headrace.testing.result import TaskEvent
from headrace.testing.state import MemoryTaskState
from headrace.testing.stepping import AckGate
from headrace.testing.task import FleetParts, FleetTask, Sent, TaskResult, message_of
from headrace_worker.settings import WorkerSettings
from headrace_worker.worker import Worker


class TestFleet:
    """Runs agents in this process, on the code that a fleet runs, without servers.

        async with TestFleet([shop]) as fleet:
            answer = await fleet.send("shop", "nails")

    The log, its encoder and folds, claims, attempts, delegation and task state are production's;
    NATS and the store are in memory. Environment variables are not read.
    """

    __test__: ClassVar[bool] = False  # pytest would take it for a class of tests.

    def __init__(
        self, agents: Iterable[Agent], *, timeout: float = 10.0, drain_seconds: float = 0.0
    ) -> None:
        """Serve `agents` in a ``with`` block.

        Args:
            agents: The agents; they may delegate to each other.
            timeout: Seconds that a test waits for an event of a run at most.
            drain_seconds: Seconds that runs have to end when the block does.
        """
        self._agents = agents if isinstance(agents, Agents) else Agents(agents)
        self._timeout = timeout
        self._settings = WorkerSettings.model_construct(
            drain_seconds=drain_seconds, emit_buffer_events=1
        )
        self._stack = AsyncExitStack()
        self._gate = AckGate()

    async def __aenter__(self) -> Self:
        """Start the fleet."""
        self._server = MemoryServer()
        self._server.hold_ack = self._gate.hold
        self._stack.callback(self._server.close)
        self._bus = Bus(BusSettings.model_construct(), self._new_transport)
        try:
            await self._start()
        except BaseException:
            await self._stack.aclose()
            raise
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Stop the fleet; runs that are at work are stopped."""
        await self._stack.aclose()

    async def _start(self) -> None:
        await self._bus.connect("test")
        self._stack.push_async_callback(self._bus.close)
        directory = Directory(self._bus)
        state = MemoryTaskState(self._bus, directory)
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
        message: Sent,
        *,
        files: Sequence[File] = (),
        context: str | None = None,
    ) -> TaskResult:
        """Send a message to an agent and return what its task comes to.

        Args:
            agent: The agent's name.
            message: Text, an A2A Message, or A2A Parts.
            files: Files that come with it.
            context: The conversation (contextId) that the task belongs to. None: a new one.

        Raises:
            AgentUnknown: the fleet has no such agent.
            TimeoutError: the run took longer than the fleet's `timeout` without an event.
        """
        task = await self.start(agent, message, files=files, context=context)
        return await task.result()

    async def start(
        self,
        agent: str,
        message: Sent,
        *,
        files: Sequence[File] = (),
        context: str | None = None,
        stepped: bool = False,
    ) -> FleetTask:
        """Send a message to an agent and return its task, without waiting for it.

        `stepped`: the task's log gets no further than the messages whose events `events` has
        yielded, until something else is asked of the task.

        Raises:
            AgentUnknown: as `send`.
        """
        key, context = await self._parts.gateway.place(agent, context)
        subject = self._bus.subjects.event(key)
        if stepped:
            self._gate.close(subject)
        await self._parts.gateway.begin(key, context, message_of(message, files))
        return FleetTask(self._parts, key, context, subject)

    async def stream(
        self,
        agent: str,
        message: Sent,
        *,
        files: Sequence[File] = (),
        context: str | None = None,
    ) -> AsyncIterator[TaskEvent]:
        """Send a message to an agent and yield its task's events, step by step.

        The log gets no further than the message whose events have been yielded, so what the test
        does between two events happens between them.

        Raises:
            AgentUnknown, TimeoutError: as `send`.
        """
        task = await self.start(agent, message, files=files, context=context, stepped=True)
        async for event in task.events():
            yield event

    async def kill_worker(self) -> None:
        """Kill the worker as ``kill -9`` does, and start another, which takes its runs over.

        What the worker had not appended is lost. Its agents are cancelled, as Python can't do
        without: their ``finally`` blocks run, but reach nothing of the fleet.
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
        self._worker = Worker(self._settings, self._agents, new_transport=self._workers_transport)
        await self._worker.start()

    async def _stop_worker(self) -> None:
        await self._worker.stop()
