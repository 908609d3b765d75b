"""A worker's entries in the directory: renewed while it serves, and deleted while it drains."""

import asyncio
import logging

from nats.errors import Error as NatsError

from headrace.background import keep_running
from headrace.directory import TIMING, Announcer, DirectoryTiming
from headrace.model.errors import BusUnavailable
from headrace.sdk.agent import Agents
from headrace.ticks import tick
from headrace.wait_for import reason
from headrace_worker.heartbeat_thread import HeartbeatThread

_log = logging.getLogger(__name__)

_LEAVING = 2.0
"""Timeout in seconds for removing the directory entries when the worker stops."""


class Registration:
    """Registration of a worker's agents in the directory, on the heartbeat thread."""

    def __init__(
        self,
        heartbeat_thread: HeartbeatThread,
        announcer: Announcer,
        agents: Agents,
        timing: DirectoryTiming = TIMING,
    ) -> None:
        """Register `agents` by `announcer`, which uses the thread's connection."""
        self._heartbeat_thread, self._announcer = heartbeat_thread, announcer
        self._agents, self._timing = agents, timing
        self._changing = asyncio.Lock()
        self._renewing: asyncio.Task[None] | None = None
        self._is_withdrawn = False

    async def announce(self) -> None:
        """Announce every agent, and renew its directory entry until `withdraw`.

        Raises:
            BusUnavailable: JetStream did not acknowledge.
        """
        await self._heartbeat_thread.call(self._replace(self._agents))

    async def replace(self, agents: Agents) -> None:
        """Announce `agents` and withdraw all others; nothing happens after `withdraw`.

        Raises:
            BusUnavailable: JetStream did not acknowledge; call it again.
        """
        await self._heartbeat_thread.call(self._replace(agents))

    async def withdraw(self) -> None:
        """Remove the directory entries; an entry that can't be removed in time expires.

        Their deletion is repeated until the heartbeat thread ends, because operators can ask a
        worker that drains only while its deletion marker exists.
        """
        try:
            async with asyncio.timeout(_LEAVING):
                await self._heartbeat_thread.call(self._withdraw())
        except (BusUnavailable, NatsError, TimeoutError) as error:
            _log.info("could not remove this worker from the directory: %s", reason(error))

    async def _replace(self, agents: Agents) -> None:
        async with self._changing:
            if self._is_withdrawn:
                return
            await self._stop_renewing()
            try:
                await self._exchange(agents)
            finally:
                self._renewing = keep_running(self._renew, "registration")

    async def _exchange(self, agents: Agents) -> None:
        gone = {agent.name for agent in self._agents} - {agent.name for agent in agents}
        self._agents = agents
        await self._announce()
        for name in gone:
            await self._announcer.withdraw(name)

    async def _withdraw(self) -> None:
        self._is_withdrawn = True
        async with self._changing:
            await self._stop_renewing()
            try:
                await self._delete()
            finally:
                self._renewing = keep_running(self._keep_deleting, "registration")

    async def _delete(self) -> None:
        await asyncio.gather(*(self._announcer.withdraw(agent.name) for agent in self._agents))

    async def _keep_deleting(self) -> None:
        while True:
            await tick(self._timing.renew_interval)
            try:
                await self._delete()
            except BusUnavailable as error:
                _log.info("could not renew this worker's deletion marker: %s", error)

    async def _stop_renewing(self) -> None:
        """Send no more renewals: one behind an entry's deletion would restore the entry.

        A renewal that is on its way is stored before what this connection sends from now on.
        """
        if self._renewing is not None:
            self._renewing.cancel()
            await asyncio.wait([self._renewing])

    async def _announce(self) -> None:
        for agent in self._agents:
            await self._announcer.announce(agent.card)

    async def _renew(self) -> None:
        loop = asyncio.get_running_loop()
        announced = loop.time()
        while True:
            await tick(self._timing.renew_interval)
            try:
                if loop.time() - announced > self._timing.announce_interval:
                    await self._announce()
                    announced = loop.time()
                await self._announcer.renew_all(agent.card for agent in self._agents)
            except BusUnavailable as error:
                _log.warning("could not renew this worker's directory entry: %s", error)
