"""Messages to tasks that exist: behind what waits for them, or queued at what is at work."""

import secrets
from contextlib import suppress
from dataclasses import replace
from functools import partial

from headrace.directory import Directory
from headrace.jetstream.connection import Bus
from headrace.jetstream.objects import FileOwner
from headrace.log import last_entry, replay
from headrace.model import events
from headrace.model.entry import Entry
from headrace.model.errors import BusUnavailable, EventTooLarge, Fenced, OutcomeUnknown, TaskUnknown
from headrace.model.messages import Control, GetTask, Holding, RunRequest, TaskFound
from headrace.model.task import AUTH_REQUIRED, INPUT_REQUIRED, TERMINAL, TaskKey
from headrace.state_client import StateClient
from headrace.tasks.continue_ import LogEnd, QueuedInput, next_input, queue_input
from headrace.tasks.holder import ask_holder
from headrace.wait_for import ELECTION
from headrace_gateway.feeds import Feeds
from headrace_gateway.refusals import ContextMismatch, GenerationMismatch, TaskBusy, TaskEnded
from headrace_gateway.server.auth.caller import Caller
from headrace_gateway.tasks.accepted import Accepted, FollowUp
from headrace_gateway.tasks.admission import AdmittedRuns
from headrace_gateway.tasks.offload import InputOffload
from headrace_gateway.tasks.settle import Settling

HOLDER_TIMEOUT = 2.0
"""Seconds that a holder has to put a message into the log; then the gateway does."""

_APPENDS = 20
"""Times that a message is appended while others append, too."""


class QueuedInputs:
    """Messages to tasks at work: into the log, by its holder or over the holder's head.

    Either way one stands there as *queued*, under a name of its own, so whoever looks at the log
    knows whether it was accepted. That makes a holder that dies with the message in its hands no
    trouble: its append and this gateway's compare-and-set cannot both succeed behind the same tail.
    A holder that lives finds the message there, goes on behind it, and queues none of that name
    itself.
    """

    def __init__(self, bus: Bus) -> None:
        """Queue them on `bus`."""
        self._bus = bus

    async def add(self, key: TaskKey, found: TaskFound, asked: FollowUp, name: str) -> int | None:
        """Return the message's generation in the log; None: the run is over, so look again.

        Added again under the same `name`, it is the same message.

        Raises:
            TaskBusy: the agent takes none while it is at work, or others keep appending.
            GenerationMismatch: the task is not where the message wants it.
            EventTooLarge: it does not fit a bus message.
            TaskUnknown: the task is gone.
            OutcomeUnknown: it is not known whether the holder or the log has taken it.
        """
        control = Control(
            ask="input",
            input=name,
            message=asked.message,
            metadata=asked.metadata or {},
            if_generation=asked.if_generation,
        )
        if (size := len(control.encode())) > self._bus.max_payload:
            raise EventTooLarge(size, self._bus.max_payload)
        try:
            holding = await ask_holder(self._bus, key, control, HOLDER_TIMEOUT)
            if holding is not None and holding.refused != "blocked":
                return _answered(key.task, holding, size)
            return await self._append(key, found, asked, name)
        except BusUnavailable as trouble:
            # A holder may have been asked, and append it however late.
            raise OutcomeUnknown(str(trouble)) from trouble

    async def _append(
        self, key: TaskKey, found: TaskFound, asked: FollowUp, name: str
    ) -> int | None:
        looked, context = found.sequence, found.task["contextId"]
        for _ in range(_APPENDS):
            last = await last_entry(self._bus, key)
            if last is None:
                raise TaskUnknown
            if (generation := await self._find(key, name, looked, last)) is not None:
                return generation
            if last.ends_run:
                return None
            if asked.if_generation not in (None, last.last_generation):
                raise GenerationMismatch(key.task, last.last_generation)
            looked, queued = (
                last.sequence,
                QueuedInput(name, context, asked.message, asked.metadata),
            )
            try:
                return (await queue_input(self._bus, key, last, queued, ELECTION)).generation
            except Fenced:
                # By the holder, with this message perhaps.
                continue
        raise TaskBusy(f"too many concurrent changes to task {key.task}")

    async def _find(self, key: TaskKey, name: str, after: int, last: Entry) -> int | None:
        """Return where the message named `name` stands behind stream sequence `after`."""
        async for batch in replay(self._bus, key, after, last.sequence):
            for entry in batch:
                for generation, event in enumerate(entry.parsed(), entry.generation):
                    metadata = event.get("statusUpdate", {}).get("metadata", {})
                    if metadata.get(events.INPUT_ID) == name:
                        return generation
        return None


def _answered(task: str, holding: Holding, size: int) -> int | None:
    """Return what a holder answered.

    Raises:
        TaskBusy, GenerationMismatch, EventTooLarge: it refused.
    """
    match holding.refused:
        case "generation":
            raise GenerationMismatch(task, holding.generation or 0)
        case "policy":
            raise TaskBusy("the task is active, and its agent accepts no messages meanwhile")
        case "too_large":
            raise EventTooLarge(size, size)
        case _:
            return holding.generation


def busy(task: str) -> TaskBusy:
    """Return why a message is refused that the task takes only when it waits for input."""
    return TaskBusy(f"task {task} is being worked on; wait until it asks for input")


def new_name() -> str:
    """Return a name for one message."""
    return f"input-{secrets.token_hex(12)}"


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
        runs: AdmittedRuns,
        settling: Settling,
    ) -> None:
        """Work over these."""
        self._bus, self._feeds, self._state, self._directory = bus, feeds, state, directory
        self._runs, self._settling = runs, settling
        self._queued, self._offload = QueuedInputs(bus), InputOffload(bus, feeds.links)

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
            EventTooLarge, BusUnavailable, Unsettled: as `Submissions.start`.
            StateUnavailable: the task can't be looked up.
        """
        name = new_name()
        for _ in range(ROUNDS):
            found = await self.look(caller, agent, asked)
            with suppress(Fenced):
                return await self.put(caller, found, asked, name)
            # Another input came first, through another gateway perhaps, or the run ended.
        raise TaskBusy(f"task {asked.task} is busy with other messages")

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
        return await self._queue(caller, found, asked, name)

    async def _queue(
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
                lambda: self._queued.add(key, found, message, name),
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
