"""Cancelling a task: confirmed by CANCELED in the log, whoever writes it."""

import asyncio
import secrets

from headrace import events
from headrace.bus import Bus
from headrace.cleaning_up import have_cleaned_up
from headrace.entry import Entry, Stamp
from headrace.errors import Fenced, TaskUnknown
from headrace.holders import ask_holder
from headrace.log import LogWriter, last_entry
from headrace.messages import Control, GetTask, TaskFound
from headrace.state_client import StateClient
from headrace.task import CANCELED, TERMINAL, TaskKey
from headrace.withdrawing import withdraw
from headrace_gateway.caller import Caller
from headrace_gateway.feeds import Feed, Feeds
from headrace_gateway.refusals import TaskEnded

_CANCEL = Control(ask="cancel")

HOLDER_TIMEOUT = 0.5
"""Seconds that a holder has to answer; no answer twice and it counts as gone."""

CLEANUP = 8.0
"""Seconds that a holder has to end the leg (its agent cleans up) before it is fenced."""


_WITHDRAWAL = 1.0
"""Seconds that a client waits for the queue to be cleared of what it has cancelled."""


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
            await self._end(feed, found.task["contextId"])
        return await self._state.get(query)

    async def _end(self, feed: Feed, context: str) -> None:
        while not feed.ended:
            if not (await self._holder_takes(feed.key) and await self._leg_ends(feed)):
                behind = await self._cancel_in_log(feed.key, context)
                # Nobody does what waits for it any more, so it counts as waiting no longer.
                await withdraw(self._bus, self._bus.subjects.runs_of_task(feed.key), _WITHDRAWAL)
                if behind is not None:
                    await have_cleaned_up(self._bus, feed.key, behind, context)
                return

    async def _holder_takes(self, key: TaskKey) -> bool:
        for _ in range(2):
            holding = await ask_holder(self._bus, key, _CANCEL, HOLDER_TIMEOUT)
            if holding is not None:
                return holding.accepted
        return False

    async def _leg_ends(self, feed: Feed) -> bool:
        """Wait until the task is over, or at work on another leg, whose holder is to be asked.

        False: it is neither, for too long or because it waits for its user.
        """
        reader, leg = feed.reader(feed.head), feed.leg
        try:
            async with asyncio.timeout(CLEANUP):
                while not feed.ended and feed.leg == leg:
                    if feed.rests:
                        return False
                    await reader.wait()
        except TimeoutError:
            return False
        return True

    async def _cancel_in_log(self, key: TaskKey, context: str) -> Entry | None:
        """Return the entry behind which it is canceled now; None: it was over."""
        writer_id = f"gateway-{secrets.token_hex(6)}"
        draft = events.status_update(key.task, context, CANCELED)
        while True:
            last = await last_entry(self._bus, key)
            if last is None:
                raise TaskUnknown(f"task not found: {key.task}")
            if last.ends_task:
                return None
            stamp = Stamp(
                last.stamp.log, last.last_generation + 1, writer_id, CANCELED, last.stamp.leg
            )
            try:
                await LogWriter.behind(self._bus, key, last).append([draft], stamp, 5.0)
            except Fenced:
                # The holder was quicker once more; the next read shows what it wrote.
                continue
            return last
