"""A worker's place in the directory: announced, renewed, withdrawn, on the heartbeat thread."""

import asyncio
import logging

from headrace.background import until_done
from headrace.directory import ANNOUNCE_EVERY, RENEW_EVERY, Announcer
from headrace.model.errors import BusUnavailable
from headrace.sdk.agent import Agents
from headrace.wait_for import reason
from headrace_worker.heartbeat_thread import HeartbeatThread

_log = logging.getLogger(__name__)

_LEAVING = 2.0
"""Seconds that a worker which stops waits for its places to be given up."""


class Registration:
    """Tells the fleet that this worker serves its agents."""

    def __init__(self, heartbeat_thread: HeartbeatThread, worker: str, agents: Agents) -> None:
        """Register `agents` for the worker instance `worker`."""
        self._heartbeat_thread, self._agents = heartbeat_thread, agents
        self._announcer = Announcer(heartbeat_thread.bus, worker)
        self._withdrawn = False

    async def announce(self) -> None:
        """Announce every agent, and keep its place until `withdraw`.

        Raises:
            BusUnavailable: JetStream did not acknowledge.
        """
        await self._heartbeat_thread.call(self._announce())
        self._heartbeat_thread.spawn(until_done(self._renew, "registration"))

    async def withdraw(self) -> None:
        """Give the places up at once; one that can't be given up soon expires by itself."""
        self._withdrawn = True
        try:
            async with asyncio.timeout(_LEAVING):
                await self._heartbeat_thread.call(self._withdraw())
        except (BusUnavailable, TimeoutError) as trouble:
            _log.info("could not sign off: %s", reason(trouble))

    async def replace(self, agents: Agents) -> None:
        """Announce `agents` from now on, and no others.

        Raises:
            BusUnavailable: JetStream did not acknowledge; call it again.
        """
        await self._heartbeat_thread.call(self._replace(agents))

    async def _announce(self) -> None:
        for agent in self._agents:
            await self._announcer.announce(agent.card)

    async def _replace(self, agents: Agents) -> None:
        gone = {agent.name for agent in self._agents} - {agent.name for agent in agents}
        self._agents = agents
        await self._announce()
        for name in gone:
            await self._announcer.withdraw(name)

    async def _withdraw(self) -> None:
        await asyncio.gather(*(self._announcer.withdraw(agent.name) for agent in self._agents))

    async def _renew(self) -> None:
        loop = asyncio.get_running_loop()
        announced = loop.time()
        while True:
            await asyncio.sleep(RENEW_EVERY)
            if self._withdrawn:
                return
            try:
                if loop.time() - announced > ANNOUNCE_EVERY:
                    await self._announce()
                    announced = loop.time()
                for agent in self._agents:
                    await self._announcer.renew(agent.name)
            except BusUnavailable as trouble:
                _log.warning("could not renew this worker's registration: %s", trouble)
