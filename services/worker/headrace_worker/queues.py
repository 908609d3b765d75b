"""The queues of a worker's agents: found, and pulled from. Task state lets go of unused ones."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress

from nats.aio.msg import Msg
from nats.aio.subscription import Subscription

from headrace.background import keep_running
from headrace.jetstream.connection import Bus
from headrace.jetstream.consumers import consumer_info, consumer_names
from headrace.jetstream.errors import ErrorCode, Refused
from headrace.model.errors import BusUnavailable
from headrace.model.queues import RunQueue, agent_of
from headrace.tasks.queues import no_right_to
from headrace_worker.poll import Puller

_log = logging.getLogger(__name__)

LOOK_EVERY = 3.0
"""Seconds between looks for queues, also if nobody hints at one."""

_SETTLE = 0.005

type Serving = Callable[[str, str], Awaitable[Puller]]
"""Begins to pull for an agent from a consumer."""


class QueueWatch:
    """Pulls from every queue of the agents, as queues come and go."""

    def __init__(self, bus: Bus, agents: list[str], serve: Serving) -> None:
        """Look for queues of `agents`; `serve` begins to pull from one."""
        self._bus, self._agents, self._serve = bus, agents, serve
        self._stream = bus.streams.runs
        self._first = {RunQueue(agent).consumer for agent in agents}
        self._pullers: dict[str, Puller] = {}
        self._hints: dict[str, Subscription] = {}
        self._barred: set[str] = set()
        """Queues that the worker has no right to, said once."""
        self._hinted = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Pull from the first queue of every agent, and begin to look for others.

        Raises:
            BusUnavailable: the connection is closed.
        """
        for agent in self._agents:
            await self._welcome(agent)
        self._hinted.set()
        self._task = keep_running(self._watch, "queues")

    async def serve_others(self, agents: list[str]) -> None:
        """Look for queues of `agents` from now on: pull from new ones, and no more from others.

        Raises:
            BusUnavailable: JetStream does not answer; call it again.
        """
        for agent in agents:
            if agent not in self._agents:
                await self._welcome(agent)
        kept = set(agents)
        for agent in self._hints.keys() - kept:
            await self._bus.unsubscribe(self._hints.pop(agent))
        for name in [name for name in self._pullers if agent_of(name) not in kept]:
            await self._pullers.pop(name).drain()
        self._agents, self._first = agents, {RunQueue(agent).consumer for agent in agents}

    async def _welcome(self, agent: str) -> None:
        hints = self._bus.subjects.queue(agent)
        self._hints[agent] = await self._bus.subscribe(hints, self._on_hint)
        await self._begin(RunQueue(agent).consumer)

    async def drain(self) -> None:
        """Pull no more."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        for hints in self._hints.values():
            await self._bus.unsubscribe(hints)
        await asyncio.gather(*(puller.drain() for puller in self._pullers.values()))

    async def look_soon(self) -> None:
        """Have queues looked for without waiting for the next hint."""
        self._hinted.set()

    async def look(self) -> None:
        """Pull from queues that have come, and no more from those that are gone.

        Raises:
            BusUnavailable: JetStream does not answer.
        """
        names = await self._names()
        for name in names - self._pullers.keys() - self._barred:
            if await self._may_pull(name):
                _log.debug("a queue: %s", name)
                await self._begin(name)
        for name in self._others() - names:
            _log.debug("a queue is gone: %s", name)
            await self._pullers.pop(name).drain()

    async def _may_pull(self, name: str) -> bool:
        """Tell whether NATS hands out the queue's runs here; requests for others get no answer."""
        try:
            await consumer_info(self._bus, self._stream, name)
        except Refused as refused:
            if refused.number == ErrorCode.NOT_ENABLED_FOR_ACCOUNT:
                _log.error("%s", no_right_to(name))
                self._barred.add(name)
                return False
        return True

    async def _begin(self, name: str) -> None:
        self._pullers[name] = await self._serve(agent_of(name), name)

    async def _on_hint(self, _: Msg) -> None:
        await self.look_soon()

    async def _watch(self) -> None:
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(LOOK_EVERY):
                    await self._hinted.wait()
            # Hints come in crowds when a fleet starts.
            await asyncio.sleep(_SETTLE)
            self._hinted.clear()
            try:
                await self.look()
            except BusUnavailable as trouble:
                _log.debug("queues: %s", trouble)

    async def _names(self) -> set[str]:
        names = await consumer_names(self._bus, self._stream)
        return {name for name in names if agent_of(name) in self._agents}

    def _others(self) -> set[str]:
        return self._pullers.keys() - self._first
