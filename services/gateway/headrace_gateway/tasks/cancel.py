"""Cancelling a task: confirmed by CANCELED in the log, whoever writes it."""

import asyncio

from headrace.jetstream.connection import Bus
from headrace.model.messages import GetTask, TaskFound
from headrace.model.task import CANCELED, TERMINAL, TaskKey
from headrace.state_client import StateClient
from headrace.tasks.cancel import CANCEL, CLEANUP, HOLDER_TIMEOUT
from headrace.tasks.end import end_task, writer_of
from headrace.tasks.holder import ask_holder
from headrace_gateway.detached import Detached
from headrace_gateway.feeds import Feed, Feeds
from headrace_gateway.refusals import TaskEnded
from headrace_gateway.server.auth.caller import Caller


class Cancelling:
    """Cancels tasks, through their holder if it lives, over its head if it does not."""

    def __init__(self, bus: Bus, feeds: Feeds, state: StateClient, detached: Detached) -> None:
        """Work over these; what is begun goes on in `detached` when its client leaves."""
        self._bus, self._feeds, self._state = bus, feeds, state
        self._detached = detached

    async def cancel(self, caller: Caller, agent: str, task: str) -> TaskFound:
        """Return the task once its log says that it is over.

        It may have ended otherwise in the moment: then that is what is returned.

        Raises:
            TaskUnknown: no such task of this caller and agent.
            TaskEnded: the task was over before.
            BusUnavailable, StateUnavailable: try again.
        """
        return await self._detached.run(self._cancel(caller, agent, task))

    async def _cancel(self, caller: Caller, agent: str, task: str) -> TaskFound:
        query = GetTask(
            tenant=caller.tenant,
            owner=caller.owner,
            any_owner=caller.operates(agent, "CancelTask"),
            agent=agent,
            task=task,
        )
        found = await self._state.get(query)
        if found.state in TERMINAL:
            raise TaskEnded(f"task {task} is over")
        async with self._feeds.using(TaskKey(caller.tenant, found.agent, task)) as feed:
            await self._end(feed)
        return await self._state.get(query)

    async def _end(self, feed: Feed) -> None:
        while not feed.ended:
            if not (await self._holder_takes(feed.key) and await self._leg_ends(feed)):
                await end_task(self._bus, feed.key, CANCELED, writer_of("gateway"))
                return

    async def _holder_takes(self, key: TaskKey) -> bool:
        # No answer twice, and it counts as gone.
        for _ in range(2):
            holding = await ask_holder(self._bus, key, CANCEL, HOLDER_TIMEOUT)
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
