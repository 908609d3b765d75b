"""Messages to tasks that exist: behind what waits for them, or queued at what is at work."""

import asyncio
import secrets
from collections.abc import AsyncIterator, Container
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial

from headrace.directory import Directory
from headrace.jetstream.connection import Bus
from headrace.jetstream.objects import FileOwner, FileStore, drop_links, offloaded_part, with_parts
from headrace.links import Links
from headrace.log import last_entry, replay
from headrace.model import events
from headrace.model.entry import Entry
from headrace.model.errors import (
    BusUnavailable,
    EventTooLarge,
    Fenced,
    FileUnknown,
    OutcomeUnknown,
    TaskUnknown,
)
from headrace.model.events import Json
from headrace.model.messages import Control, GetTask, Holding, RunRequest, TaskFound
from headrace.model.task import AUTH_REQUIRED, INPUT_REQUIRED, TERMINAL, TaskKey
from headrace.model.user_content import with_links
from headrace.state_client import StateClient
from headrace.tasks.continue_ import LogEnd, QueuedInput, next_input, queue_input
from headrace.tasks.holder import ask_holder
from headrace.wait_for import ELECTION
from headrace_gateway.feeds import Feed, Feeds
from headrace_gateway.refusals import ContextMismatch, GenerationMismatch, TaskBusy, TaskEnded
from headrace_gateway.server.auth.caller import Caller
from headrace_gateway.tasks.admission import AdmittedRuns
from headrace_gateway.tasks.settle import Settling, Unsettled


@dataclass(slots=True)
class Accepted:
    """An input that is in the log."""

    key: TaskKey
    context: str
    log: str
    generation: int
    """The input's generation: the run's name."""
    feed: Feed
    """Open: whoever holds this must release it (`Feeds.release`)."""
    snapshot: TaskFound | None = None
    """For a follow-up: the Task just before the input."""
    again: bool = False
    """Whether the input had been accepted before: this is what came of it."""


def new_writer() -> str:
    """Return a writer id for one entry."""
    return f"gateway-{secrets.token_hex(6)}"


@dataclass(frozen=True, slots=True)
class FollowUp:
    """A message to a task that exists."""

    task: str
    message: Json
    """An A2A v1.0 Message."""
    context: str | None = None
    """The context that the message says it belongs to."""
    metadata: Json | None = None
    if_generation: int | None = None
    """Generation that the task must be at; None: any."""

    def without(self, keys: Container[str]) -> "FollowUp":
        """Return the same message without these keys of its metadata."""
        metadata = self.metadata or {}
        return replace(self, metadata={k: v for k, v in metadata.items() if k not in keys})


class InputOffload:
    """Keeps the files that are too large for a log."""

    def __init__(self, bus: Bus, links: Links | None) -> None:
        """Keep them in the fleet's store; clients are shown them as `links` has it."""
        self._files, self._inline = FileStore(bus), bus.settings.inline_bytes
        self._links = links

    @asynccontextmanager
    async def offloaded(
        self, key: TaskKey, belongs_to: FileOwner, message: Json, metadata: Json | None = None
    ) -> AsyncIterator[tuple[Json, Json | None]]:
        """Yield Message and metadata with links for their large files, for a block that appends.

        The address of a file that the fleet has shown its owner becomes a link again, so that
        agents are given the file. Others' addresses stay what they are.
        The metadata of an AG-UI input holds the conversation, and its files with it. Where the
        block says that it is in no log, the files are dropped: nothing else would, for retention
        knows only those of tasks that there are.

        Raises:
            LogFull: the store is at its limit.
            BusUnavailable: it does not take a file now.
        """
        links = list[str]()

        async def put(content: bytes, media_type: str) -> str:
            links.append(await self._files.put(key, belongs_to, content, "", media_type))
            return links[-1]

        async def link_of(url: object) -> str | None:
            return await self._link_of(url, key.tenant, belongs_to)

        async def stored(part: Json) -> Json:
            one = await offloaded_part(self._files, key, belongs_to, part, self._inline)
            if one is not part:
                links.append(one["url"])
            elif (link := await link_of(part.get("url"))) is not None:
                return {**part, "url": link}
            return one

        try:
            said = await with_parts(message, stored)
            yield said, await with_links(metadata, self._inline, put, link_of)
        except BaseException as error:
            if not _may_be_in_a_log(error):
                await drop_links(self._files, key, links)
            raise

    async def _link_of(self, url: object, tenant: str, reader: FileOwner) -> str | None:
        link = None if self._links is None else self._links.stored(url)
        if link is None:
            return None
        try:
            await self._files.find(link, tenant, reader)
        except FileUnknown:
            return None
        return link


def _may_be_in_a_log(error: BaseException) -> bool:
    return isinstance(error, Unsettled | OutcomeUnknown | asyncio.CancelledError)


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
