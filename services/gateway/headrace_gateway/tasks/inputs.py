"""Messages to tasks that exist: behind what waits for them, or handed in to what is at work."""

from contextlib import suppress
from dataclasses import replace
from functools import partial

from headrace.directory import Directory
from headrace.jetstream.connection import Bus
from headrace.jetstream.objects import FileOwner
from headrace.model import events
from headrace.model.errors import Fenced
from headrace.model.messages import GetTask, RunRequest, TaskFound
from headrace.model.task import AUTH_REQUIRED, INPUT_REQUIRED, TERMINAL, TaskKey
from headrace.state_client import StateClient
from headrace.tasks.continue_ import LogEnd, next_input
from headrace_gateway.feeds import Feeds
from headrace_gateway.refusals import ContextMismatch, GenerationMismatch, TaskBusy, TaskEnded
from headrace_gateway.server.auth.caller import Caller
from headrace_gateway.tasks.accepted import Accepted, FollowUp
from headrace_gateway.tasks.admission import WantedRuns
from headrace_gateway.tasks.handing_in import HandingIn, busy, new_name
from headrace_gateway.tasks.offload import InputOffload
from headrace_gateway.tasks.settle import Settling

_TERMS = frozenset({events.START_BY, events.PRIORITY, events.TRACEPARENT})
"""Metadata that says how a run is to be done, not what."""

ROUNDS = 5
"""How often an input is tried behind a tail that others move."""


class FollowUps:
    """Takes in messages to tasks that exist."""

    def __init__(  # noqa: PLR0917  # one of each
        self,
        bus: Bus,
        feeds: Feeds,
        state: StateClient,
        directory: Directory,
        runs: WantedRuns,
        settling: Settling,
    ) -> None:
        """Work over these."""
        self._bus, self._feeds, self._state, self._directory = bus, feeds, state, directory
        self._runs, self._settling = runs, settling
        self._handing_in, self._offload = HandingIn(bus), InputOffload(bus, feeds.links)

    async def take_in(self, caller: Caller, agent: str, asked: FollowUp) -> Accepted:
        """Append the message to a task, and ask workers to go on if it waits for input.

        To a task at work it is handed in: what becomes of it there is its agent's policy.

        Raises:
            TaskUnknown: no such task of this caller and agent.
            ContextMismatch: the task is of another context.
            GenerationMismatch: the task is not where the message wants it.
            TaskEnded: the task is over.
            TaskBusy: the task is being worked on, and takes none meanwhile.
            TooManyWaiting: as many runs wait for the agent as may.
            EventTooLarge, BusUnavailable, Unsettled: as `Intake.start`.
            StateUnavailable: the task can't be looked up.
        """
        name = new_name()
        for _ in range(ROUNDS):
            found = await self.look(caller, agent, asked)
            with suppress(Fenced):
                return await self.put(caller, found, asked, name)
            # Another input came first, through another gateway perhaps, or the run ended.
        raise TaskBusy(f"task {asked.task} takes other messages now")

    async def look(self, caller: Caller, agent: str, asked: FollowUp) -> TaskFound:
        """Return the task as it is, if the message may come behind that.

        Raises:
            TaskUnknown, ContextMismatch, GenerationMismatch, TaskEnded, StateUnavailable: as
                `take_in`.
        """
        found = await self._state.get(
            GetTask(tenant=caller.tenant, owner=caller.owner, agent=agent, task=asked.task)
        )
        if asked.context not in (None, found.task["contextId"]):
            raise ContextMismatch(f"task {asked.task} belongs to another context")
        # What is appended goes right behind what was found, or not at all: so this holds.
        if asked.if_generation not in (None, found.generation):
            raise GenerationMismatch(asked.task, found.generation)
        if found.state in TERMINAL:
            raise TaskEnded(f"task {asked.task} is over and takes no message")
        return found

    async def put(self, caller: Caller, found: TaskFound, asked: FollowUp, name: str) -> Accepted:
        """Put the message, known by `name`, behind what was `found`.

        Raises:
            Fenced: something else came behind it, or ended the run: look again.
            TaskBusy, TooManyWaiting, EventTooLarge, BusUnavailable, Unsettled: as `take_in`.
        """
        await self._settling.ready()
        if found.state == INPUT_REQUIRED:
            return await self._go_on(caller, found, asked, name)
        return await self._hand_in(caller, found, asked, name)

    async def _hand_in(
        self, caller: Caller, found: TaskFound, asked: FollowUp, name: str
    ) -> Accepted:
        task, context = found.task["id"], found.task["contextId"]
        card = self._directory.card(found.agent)
        if card is not None and card.follow_ups == "reject" and found.state != AUTH_REQUIRED:
            raise busy(task)
        key = TaskKey(caller.tenant, found.agent, task)
        # It waits for a run that has begun, and then goes on as that one did.
        asked = asked.without(_TERMS)
        belongs_to = FileOwner(caller.owner, context)
        async with (
            self._offload.offloaded(key, belongs_to, asked.message, asked.metadata) as offloaded,
            self._feeds.handed_on(await self._feeds.acquire(key)) as feed,
        ):
            said, beside = offloaded
            message = replace(asked, message=said, metadata=beside)
            generation = await self._settling.carry_out(
                key,
                context,
                lambda: self._handing_in.hand_in(key, found, message, name),
                lambda _: None,
            )
            if generation is None:
                raise Fenced(f"run of {task} ended before the message was in")
        return Accepted(key, context, found.log, generation, feed, found)

    async def _go_on(
        self, caller: Caller, found: TaskFound, asked: FollowUp, name: str
    ) -> Accepted:
        task, context, run = found.task["id"], found.task["contextId"], found.generation + 1
        key = TaskKey(caller.tenant, found.agent, task)
        end = LogEnd(key, found.sequence, found.generation)
        async with (
            self._runs.admitted(key) as admitted,
            self._offload.offloaded(
                key, FileOwner(caller.owner, context), asked.message, asked.metadata
            ) as (said, beside),
            self._feeds.handed_on(await self._feeds.acquire(key)) as feed,
        ):
            request = RunRequest(
                log=found.log, context=context, owner=caller.owner, traceparent=found.traceparent
            )
            following = next_input(self._bus, end, request, said, beside, writer=name)
            await self._settling.append(following, partial(self._runs.request, following, admitted))
        return Accepted(key, context, found.log, run, feed, found)
