"""Cancelling a task: confirmed by CANCELED in the log, whoever writes it."""

import asyncio
import secrets

from headrace import events
from headrace.bus import Bus
from headrace.entry import Stamp
from headrace.errors import BusUnavailable, Fenced, TaskUnknown, UndecodableMessage
from headrace.log import LogWriter, last_entry
from headrace.messages import Control, GetTask, Holding, TaskFound
from headrace.state_client import StateClient
from headrace.task import CANCELED, TERMINAL, TaskKey
from headrace_gateway.caller import Caller
from headrace_gateway.feeds import Feed, Feeds
from headrace_gateway.refusals import TaskEnded

HOLDER_TIMEOUT = 0.5
"""Seconds that a holder has to answer; no answer twice and it counts as gone."""

CLEANUP = 8.0
"""Seconds that a holder has to end the leg (its agent cleans up) before it is fenced."""


class Cancelling:
    """Cancels tasks, through their holder if it lives, over its head if it does not."""

    def __init__(self, bus: Bus, feeds: Feeds, state: StateClient) -> None:
        """Work over these."""
        self._bus, self._feeds, self._state = bus, feeds, state

    async def cancel(self, caller: Caller, agent: str, task: str) -> TaskFound:
        """Return the task once its log says that it is over.

        It may have ended otherwise in the moment: then that is what is returned.

        Raises:
            TaskUnknown: no such task of this caller and agent.
            TaskEnded: the task was over before.
            BusUnavailable, StateUnavailable: try again.
        """
        query = GetTask(tenant=caller.tenant, owner=caller.owner, agent=agent, task=task)
        found = await self._state.get(query)
        if found.state in TERMINAL:
            raise TaskEnded(f"task {task} is over")
        key = TaskKey(caller.tenant, found.agent, task)
        async with self._feeds.using(key) as feed:
            if not (await self._holder_takes(key) and await self._ends(feed)):
                await self._cancel_in_log(key, found.task["contextId"])
        return await self._state.get(query)

    async def _holder_takes(self, key: TaskKey) -> bool:
        for _ in range(2):
            try:
                return await self._ask_holder(key)
            except BusUnavailable:
                continue
        return False

    async def _ask_holder(self, key: TaskKey) -> bool:
        subject = self._bus.subjects.control(key)
        msg = await self._bus.request(subject, Control(ask="cancel").encode(), HOLDER_TIMEOUT)
        try:
            return Holding.decode(subject, msg.data).accepted
        except UndecodableMessage:
            return False

    async def _ends(self, feed: Feed) -> bool:
        reader = feed.reader(feed.head)
        try:
            async with asyncio.timeout(CLEANUP):
                while not feed.ended:
                    await reader.wait()
        except TimeoutError:
            return False
        return True

    async def _cancel_in_log(self, key: TaskKey, context: str) -> None:
        writer_id = f"gateway-{secrets.token_hex(6)}"
        draft = events.status_update(key.task, context, CANCELED)
        while True:
            last = await last_entry(self._bus, key)
            if last is None:
                raise TaskUnknown(f"no task {key.task}")
            if last.ends_task:
                return
            stamp = Stamp(
                last.stamp.log, last.last_generation + 1, writer_id, CANCELED, last.stamp.leg
            )
            try:
                await LogWriter.behind(self._bus, key, last).append([draft], stamp, 5.0)
            except Fenced:
                # The holder was quicker once more; the next read shows what it wrote.
                continue
            return
