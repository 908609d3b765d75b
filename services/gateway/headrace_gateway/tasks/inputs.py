"""How inputs get into logs: as the beginning of a run, or queued while a run is active.

Large files are offloaded first. An append without an answer is settled in the background.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Container
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from typing import Self

from headrace.jetstream.connection import Bus
from headrace.jetstream.objects import FileOwner, FileStore, drop_links, offloaded_part, with_parts
from headrace.links import Links
from headrace.log import last_entry, replay
from headrace.log.logged_task import LoggedTask
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
from headrace.model.messages import Control, HolderReply, RunRequest, TaskFound
from headrace.model.task import TaskKey
from headrace.model.user_content import with_links
from headrace.tasks.admission import AdmittedRun, RunLimits
from headrace.tasks.background_runs import BackgroundRuns
from headrace.tasks.begin import Input, asking
from headrace.tasks.continue_ import QueuedInput, queue_input
from headrace.tasks.holder import ask_holder
from headrace.tasks.quotas import QuotaExceeded
from headrace.wait_for import ELECTION
from headrace_gateway.feeds import FeedHolder, HeldFeed
from headrace_gateway.refusals import GenerationMismatch, TaskBusy
from headrace_gateway.tasks.settle import InputAppends, Unsettled

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class AcceptedInput(FeedHolder):
    """An input that is in the log."""

    key: TaskKey
    context: str
    log: str
    generation: int
    """The input's generation: the run's name."""
    held: HeldFeed
    snapshot: TaskFound | None = None
    """For a follow-up: the Task just before the input."""
    before: LoggedTask | None = None
    """The same, to be continued by later entries, if it was read from its log."""
    again: bool = False
    """Whether the input had been accepted before, under the same Idempotency-Key."""
    return_immediately: bool = False
    """Whether its sender gets the Task as it is, without waiting for the run."""


@dataclass(frozen=True, slots=True)
class FollowUp:
    """A message to an existing task."""

    task: str
    message: Json
    """An A2A v1.0 Message."""
    context: str | None = None
    """The context that the message names."""
    metadata: Json | None = None
    if_generation: int | None = None
    """The generation that the task must be at; None for any."""

    def continued_by(self, version: str) -> "FollowUp":
        """Return the same message for the agent's `version`, to which it pins the task."""
        return replace(self, metadata={**(self.metadata or {}), events.VERSION: version})

    def stored_as(self, message: Json, metadata: Json | None) -> "FollowUp":
        """Return the same message with its files offloaded."""
        return replace(self, message=message, metadata=metadata)

    def without(self, keys: Container[str]) -> "FollowUp":
        """Return the same message without the given metadata keys."""
        metadata = self.metadata or {}
        return replace(self, metadata={k: v for k, v in metadata.items() if k not in keys})


class InputOffload:
    """Stores the files that are too large for a log in the object store."""

    def __init__(self, bus: Bus, links: Links | None) -> None:
        """Store files on `bus`; `links` converts the addresses that clients see."""
        self._files, self._inline = FileStore(bus), bus.settings.inline_bytes
        self._links = links

    def offloaded(
        self, key: TaskKey, belongs_to: FileOwner, message: Json, metadata: Json | None = None
    ) -> AbstractAsyncContextManager[tuple[Json, Json | None]]:
        """Return Message and metadata with links in place of large files, for a block that appends.

        If the message contains the public address of a file that this owner may read, the address
        becomes a link again, so that the agent gets the file. Other addresses stay unchanged. The
        metadata of an AG-UI input holds the conversation, including its files.

        If the block fails and the input is in no log, the files are dropped. Retention would not
        remove them, because it knows only the files of existing tasks.

        Raises:
            LogFull: the store is at its limit.
            BusUnavailable: the store cannot accept a file now.
        """
        if not _may_have_files(message, metadata):
            return nullcontext((message, metadata))
        return self._offloaded(key, belongs_to, message, metadata)

    @asynccontextmanager
    async def _offloaded(
        self, key: TaskKey, belongs_to: FileOwner, message: Json, metadata: Json | None
    ) -> AsyncIterator[tuple[Json, Json | None]]:
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
            offloaded = await with_parts(message, stored)
            yield offloaded, await with_links(metadata, self._inline, put, link_of)
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


def _may_have_files(message: Json, metadata: Json | None) -> bool:
    if metadata is not None and events.AGUI in metadata:
        return True
    for part in message["parts"]:  # noqa: SIM110 - each message has one, and a generator is a call
        if "raw" in part or "url" in part:
            return True
    return False


def _may_be_in_a_log(error: BaseException) -> bool:
    return isinstance(error, Unsettled | OutcomeUnknown | asyncio.CancelledError)


HOLDER_TIMEOUT = 2.0
"""Seconds that a holder has to append a message; then the gateway appends it."""

_APPENDS = 20
"""Maximum number of appends of one message while other writers append too."""


class QueuedInputs:
    """Queues messages to tasks with an active run: through the holder, or by a direct append.

    Either way the message is in the log as *queued*, under its own name, so any reader of the log
    can see whether it was accepted. A holder that is killed with the message loses nothing: its
    append and the gateway's compare-and-set cannot both succeed after the same last entry. A holder
    that is running finds the message in the log, continues after it, and does not queue the same
    name again.
    """

    def __init__(self, bus: Bus) -> None:
        """Queue messages on `bus`."""
        self._bus = bus

    async def add(
        self, key: TaskKey, found: TaskFound, follow_up: FollowUp, name: str
    ) -> int | None:
        """Return the message's generation in the log, or None if the run is over.

        After None, the caller must read the task again. A message that is added twice under the
        same `name` is queued once.

        Raises:
            TaskBusy: the agent accepts no messages during a run, or other writers keep appending.
            GenerationMismatch: the task is not at the generation that the message requires.
            EventTooLarge: the message does not fit a bus message.
            TaskUnknown: the task is gone.
            OutcomeUnknown: it is unknown whether the message has been stored.
        """
        control = Control(
            ask="input",
            input=name,
            message=follow_up.message,
            metadata=follow_up.metadata or {},
            if_generation=follow_up.if_generation,
            read_up_to=found.generation,
        )
        if (size := len(control.encode())) > self._bus.max_payload:
            raise EventTooLarge(size, self._bus.max_payload)
        try:
            holding = await ask_holder(self._bus, key, control, HOLDER_TIMEOUT)
            if holding is not None and holding.refused not in {"blocked", "new_run"}:
                return _answered(key.task, holding, size)
            return await self._append(key, found, follow_up, name)
        except BusUnavailable as error:
            # A holder may have received the request, and may still append the message later.
            raise OutcomeUnknown(str(error)) from error

    async def _append(
        self, key: TaskKey, found: TaskFound, follow_up: FollowUp, name: str
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
            if follow_up.if_generation not in (None, last.last_generation):
                raise GenerationMismatch(key.task, last.last_generation)
            looked = last.sequence
            queued = QueuedInput(name, context, follow_up.message, follow_up.metadata)
            try:
                return (await queue_input(self._bus, key, last, queued, ELECTION)).generation
            except Fenced:
                # Another writer appended first, possibly the holder with this message.
                continue
        raise TaskBusy(f"too many concurrent changes to task {key.task}")

    async def _find(self, key: TaskKey, name: str, after: int, last: Entry) -> int | None:
        """Return the generation of the message named `name` after stream sequence `after`."""
        async for batch in replay(self._bus, key, after, last.sequence):
            for entry in batch:
                if (generation := generation_of_input(entry, name)) is not None:
                    return generation
        return None


def generation_of_input(entry: Entry, name: str) -> int | None:
    """Return the generation of the input `name` in `entry`, as a run's input or queued."""
    if entry.stamp.writer == name:
        return entry.generation
    for generation, event in enumerate(entry.parsed(), entry.generation):
        if events.status_metadata(event).get(events.INPUT_ID) == name:
            return generation
    return None


def _answered(task: str, holding: HolderReply, size: int) -> int | None:
    """Return the generation from a holder's reply.

    Raises:
        TaskBusy, GenerationMismatch, EventTooLarge: the holder refused the message.
    """
    match holding.refused:
        case "generation":
            raise GenerationMismatch(task, holding.generation or 0)
        case "policy":
            raise TaskBusy("the task is active, and its agent accepts no messages while it runs")
        case "too_large":
            raise EventTooLarge(size, size)
        case _:
            return holding.generation


@dataclass(frozen=True, slots=True)
class QuotaQuestion:
    """What a task's user is asked instead of a run, at a quota that asks."""

    text: str

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Do nothing: no run was admitted."""


class InputWriter:
    """Puts inputs into logs, and requests their runs."""

    def __init__(
        self, bus: Bus, links: Links | None, limits: RunLimits, appends: InputAppends
    ) -> None:
        """Append on `bus` the inputs of runs that `limits` admit.

        `links` converts the addresses of files that clients see.
        """
        self._limits, self._appends = limits, appends
        self._requests, self._queued = BackgroundRuns(bus), QueuedInputs(bus)
        offload = InputOffload(bus, links)
        self.offloaded = offload.offloaded
        """Stores an input's files: see `InputOffload.offloaded`."""

    async def admit(self, key: TaskKey, owner: str) -> AdmittedRun | QuotaQuestion:
        """Admit a run for a block that appends its input.

        It comes first, so that a refused input stores no file.

        Raises:
            QuotaExceeded: a quota is used up.
            TooManyWaiting: the limit of waiting runs is reached.
            BusUnavailable: NATS does not answer.
        """
        await self._appends.ready(key)
        try:
            return await self._limits.admit(key, owner)
        except QuotaExceeded as exceeded:
            if not exceeded.asks:
                raise
            return QuotaQuestion(str(exceeded))

    async def append(self, task_input: Input, admitted: AdmittedRun | QuotaQuestion) -> None:
        """Append an input and request its run, or store the question with it.

        Raises:
            Fenced: another entry came first.
            EventTooLarge: the input does not fit a bus message.
            BusUnavailable: the log did not store it (LogFull: the stream is at its limit).
            Unsettled: it is unknown whether the log has stored it.
        """
        timeout = self._appends.timeout
        if isinstance(admitted, QuotaQuestion):
            attempt = partial(asking(task_input, admitted.text).append, timeout)
            await self._appends.carry_out(task_input.key, task_input.request.context, attempt)
            return

        async def begin() -> None:
            appended = await task_input.append(timeout)
            request, run = task_input.run_request(appended), task_input.stamp.run
            priority = task_input.priority
            self._requests.publish_soon(task_input.key, run, request, priority, admitted.settle)

        await self._appends.carry_out(task_input.key, task_input.request.context, begin)

    async def continue_run(
        self,
        key: TaskKey,
        owner: str,
        run: int,
        context: str,
        write: Callable[[], Awaitable[tuple[RunRequest, str]]],
    ) -> None:
        """Request `run` of a log that `write` writes up to the middle of that run.

        `write` returns the request and its priority. It may be called repeatedly.

        Raises:
            QuotaExceeded: a quota is used up; nothing was written.
            TooManyWaiting: the limit of waiting runs is reached; nothing was written.
            Unsettled: it is unknown whether the log is written.
            HeadraceError: as `write`.
        """
        await self._appends.ready(key)
        with await self._limits.admit(key, owner) as admitted:

            async def attempt() -> None:
                self._requests.publish_soon(key, run, *await write(), admitted.settle)

            await self._appends.carry_out(key, context, attempt)

    async def check(self, key: TaskKey, owner: str) -> None:
        """Check that an owner's message may be queued for the task's active run.

        Raises:
            QuotaExceeded: a quota is used up.
            BusUnavailable: NATS does not answer.
        """
        await self._limits.check(key, owner)
        await self._appends.ready(key)

    async def queue(self, key: TaskKey, found: TaskFound, follow_up: FollowUp, name: str) -> int:
        """Queue a message under `name` for the task's active run; return its generation.

        Raises:
            Fenced: the run has ended; read the task again.
            HeadraceError: as `QueuedInputs.add`.
            Unsettled: it is unknown whether the log has stored it.
        """
        attempt = partial(self._queued.add, key, found, follow_up, name)
        generation = await self._appends.carry_out(key, found.task["contextId"], attempt)
        if generation is None:
            raise Fenced(f"run of {key.task} ended before it read the message")
        return generation
