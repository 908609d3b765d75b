"""Submissions: new tasks, and messages to existing tasks.

Each takes the same steps in the same order: check, admit its run, store its webhook and large
files, follow the log, append the input, request the run, hand the feed over. So a submission that
is not admitted leaves nothing behind, and an accepted one is in the log before its sender gets an
answer.
"""

import random
import secrets
import uuid
from contextlib import AbstractAsyncContextManager, nullcontext, suppress
from dataclasses import dataclass, replace
from itertools import chain
from typing import NoReturn, Protocol

from headrace import log_context, tracing
from headrace.directory import Directory
from headrace.jetstream.connection import Bus
from headrace.jetstream.objects import FileOwner
from headrace.links import Links
from headrace.log import last_entry, writer_of
from headrace.model import events
from headrace.model.agent_route import UNPINNED
from headrace.model.errors import Fenced, HeadraceError, LogFull, LogLost, OutcomeUnknown
from headrace.model.events import Json
from headrace.model.fork import ForkOf
from headrace.model.messages import TaskFound
from headrace.model.run import Run, RunTerms
from headrace.model.task import (
    AUTH_REQUIRED,
    INPUT_REQUIRED,
    SHARDS_PER_STREAM,
    TERMINAL,
    TaskKey,
    mint_task_id,
    thread_token,
)
from headrace.state_client import StateClient, TaskRead
from headrace.tasks.admission import AdmittedRun, RunLimits
from headrace.tasks.background_runs import BackgroundRuns
from headrace.tasks.begin import Input, asking, first_input
from headrace.tasks.continue_ import QueuedInput, behind_question, next_input
from headrace.tasks.fork import end_unfinished, unfinished_fork
from headrace.tasks.quotas import QuotaExceeded
from headrace.webhooks import TaskWebhook, WebhookProgress, Webhooks
from headrace_gateway.background_work import BackgroundWork
from headrace_gateway.feeds import FeedHolder, Feeds, HeldFeed
from headrace_gateway.refusals import (
    AgentUnknown,
    ContextMismatch,
    GenerationMismatch,
    TaskBusy,
    TaskEnded,
    Unsettled,
)
from headrace_gateway.request_span import note_task
from headrace_gateway.server.auth.caller import Caller
from headrace_gateway.server.open_requests import unrepeatable_request
from headrace_gateway.tasks.idempotency import Claim, EarlierInput, Idempotency, KeyedRequest
from headrace_gateway.tasks.ids import query_of
from headrace_gateway.tasks.message_files import MessageFiles
from headrace_gateway.tasks.queued_append import QueuedAppend
from headrace_gateway.tasks.settlement import Append, Settlement

ROUNDS = 5
"""Maximum number of tries to append an input while other writers append too."""

_FILES = frozenset({"raw", "url"})
"""Fields of parts that contain a file, or where it is."""


class ContextTurns(Protocol):
    """The runs in the context of a new task, which may have to wait for them."""

    may_refuse: bool
    """Whether `make_way` refuses the new task if there are `busy` ones."""

    async def at_work(self) -> list[str]:
        """Return the tasks that are working or waiting for a worker."""

    async def make_way(self, busy: list[str]) -> list[str]:
        """Return which of the `busy` tasks the new one must wait for."""


@dataclass(frozen=True, slots=True)
class Submission:
    """A message to an agent, which begins a task or continues one."""

    caller: Caller
    agent: str
    message: Json
    """An A2A v1.0 Message."""
    context: str | None = None
    """The context that the message names. A new task without one gets a new context."""
    metadata: Json | None = None
    """Metadata of the input."""
    task: str | None = None
    """The existing task; None begins a new one."""
    if_generation: int | None = None
    """The generation that the existing task must be at; None for any."""
    keyed: KeyedRequest | None = None
    """The request, if it has an Idempotency-Key."""
    webhook: TaskWebhook | None = None
    """Receives the task's events, from the input on."""
    turns: ContextTurns | None = None
    """What decides, for a new task with a key, which others it waits for."""


@dataclass(frozen=True, slots=True)
class AcceptedInput(FeedHolder):
    """An input that is in the log."""

    key: TaskKey
    context: str
    log: str
    generation: int
    """The input's generation: the run's name."""
    held: HeldFeed
    read: TaskRead | None = None
    """For an existing task: as it was just before the input."""
    is_replay: bool = False
    """Whether the input had been accepted before, under the same Idempotency-Key."""


@dataclass(frozen=True, slots=True)
class RunAppend:
    """An input to append, and the run to request for it."""

    input: Input
    admitted: AdmittedRun
    runs: BackgroundRuns
    timeout: float
    """Seconds after which the outcome counts as unknown."""

    @property
    def key(self) -> TaskKey:
        """The key of the log."""
        return self.input.log.key

    @property
    def context(self) -> str:
        """The task's context."""
        return self.input.run.context

    async def store(self) -> None:
        """Append the input and request its run, unless the input asks its sender first."""
        appended = await self.input.append(self.timeout)
        if self.input.question is None:
            self.runs.publish_soon(self.input.stored_run(appended), self.admitted.settle)


class RunAppends:
    """Admits runs, and appends the inputs that ask for them."""

    def __init__(
        self, bus: Bus, links: Links | None, limits: RunLimits, settlement: Settlement
    ) -> None:
        """Use these services.

        Args:
            bus: The connection.
            links: Convert the addresses of files that clients see.
            limits: Admit runs.
            settlement: Finds out what became of an append without an answer.
        """
        self._bus, self._limits, self._settlement = bus, limits, settlement
        self._files = MessageFiles(bus, links)
        self.runs = BackgroundRuns(bus)
        """Requests runs from workers."""

    async def admit(self, key: TaskKey, owner: str, *, asks: bool = True) -> AdmittedRun:
        """Admit a run for a block that appends its input; first, so that a refusal stores nothing.

        At a quota that asks, the run is a question to the task's user, if it `asks`.

        Raises:
            QuotaExceeded: a quota is used up.
            TooManyWaiting: the limit of waiting runs is reached.
            BusUnavailable: NATS does not answer, or the log's stream does not.
        """
        if self._settlement.open or not self._bus.answers:
            await self._settlement.ready(key)
        try:
            return await self._limits.admit(key, owner)
        except QuotaExceeded as exceeded:
            if not (asks and exceeded.asks):
                raise
            return AdmittedRun(None, [], question=str(exceeded))

    async def admit_queued(self, key: TaskKey, owner: str) -> None:
        """Check that a message may join the task's active run; raises as `admit`."""
        await self._limits.check(key, owner)
        await self._settlement.ready(key)

    def stored_files(
        self, key: TaskKey, sender: FileOwner, message: Json, metadata: Json | None
    ) -> AbstractAsyncContextManager[tuple[Json, Json | None]]:
        """Return Message and metadata with links in place of large files, for a block that appends.

        See `MessageFiles.stored`.
        """
        has_history = metadata is not None and events.AGUI in metadata
        if not has_history and _FILES.isdisjoint(chain(*message["parts"])):
            return nullcontext((message, metadata))
        return self._files.stored(key, sender, message, metadata)

    async def append_run(self, task_input: Input, admitted: AdmittedRun) -> None:
        """Append an input and request its run or, if that is a question, store it with the input.

        Raises:
            Fenced: another entry came first.
            HeadraceError: as `append`.
        """
        if admitted.question:
            task_input = asking(task_input, admitted.question)
        timeout = self._settlement.timeout
        await self.append(RunAppend(task_input, admitted, self.runs, timeout))

    async def append[Result](self, append: Append[Result]) -> Result:
        """Store an append and return its result; if that is unknown, have it settled.

        Raises:
            Unsettled: the outcome is not known yet; the gateway keeps trying.
            GatewayRestarting: the gateway has abandoned the request; nothing has happened.
            HeadraceError: as `Append.store`; nothing has happened, and nothing will.
        """
        request, health = unrepeatable_request(), self._settlement.health
        if request is not None:
            request.storing(append.key.task, append.context)
        try:
            result = await append.store()
        except OutcomeUnknown as unknown:
            # Started before the client gets the error, so that other gateways can find out first.
            self._settlement.begin(append)
            raise Unsettled(append.key.task, append.context) from unknown
        except HeadraceError as error:
            if request is not None:
                request.stored_nothing()
            if isinstance(error, LogFull):
                health.note_full(append.key)
            raise
        if health.full:
            health.note_stored(append.key)
        return result


class Submissions:
    """Accepts submissions: appends their inputs to logs and requests runs from workers."""

    def __init__(  # noqa: PLR0913 - the services of all steps
        self,
        bus: Bus,
        feeds: Feeds,
        state: StateClient,
        directory: Directory,
        *,
        appends: RunAppends,
        idempotency: Idempotency,
        background: BackgroundWork,
    ) -> None:
        """Use these services.

        Args:
            bus: The connection.
            feeds: Follow the logs.
            state: Finds existing tasks.
            directory: Knows the agents, and which version of an agent a task gets.
            appends: Admit and append inputs.
            idempotency: Finds what became of an earlier request with the same key.
            background: Where submissions finish if their client disconnects.
        """
        self._bus, self._feeds, self._state, self._directory = bus, feeds, state, directory
        self._appends, self._idempotency, self._background = appends, idempotency, background
        self._webhooks = Webhooks(bus)
        self._shards = bus.settings.event_streams * SHARDS_PER_STREAM

    async def submit(self, submission: Submission) -> AcceptedInput:
        """Append the message to a new log or to its task's, and request its run.

        If a run of the task is active, the message is queued for it; the agent's policy decides
        what happens next. With a key, a repeated request gets what the first one got.

        Raises:
            AgentUnknown: no such agent.
            QuotaExceeded, TooManyWaiting: the run is not admitted.
            EventTooLarge: the message does not fit a bus message.
            TaskUnknown: no such task of this caller and agent, or it is past its retention.
            ContextMismatch: the task belongs to another context.
            GenerationMismatch: the task is not at the generation that the message requires.
            TaskEnded: the task is over.
            TaskBusy: a run is active, and the agent accepts no messages meanwhile; or the task is a
                fork whose past is still being copied; or other messages keep coming first.
            TooManyWebhooks: the task has the maximum number of webhooks.
            KeyReused: the key was used for another request.
            StateUnavailable: the task can't be looked up.
            BusUnavailable: the log did not store it (LogFull: the stream is at its limit).
            Unsettled: it is unknown whether the log has stored it.
        """
        if submission.task is not None:
            accepting = self._follow_up(submission, submission.task)
        elif submission.keyed is not None:
            accepting = self._start_once(submission, submission.keyed)
        else:
            place = self.place(submission.caller, submission.agent, submission.context)
            accepting = self.begin(submission, *place)
        return await self._background.run(accepting)

    def place(self, caller: Caller, agent: str, context: str | None) -> tuple[TaskKey, str]:
        """Return the key of a new task, and its context: `context`, or a new one if that is None.

        Raises:
            AgentUnknown: no such agent.
        """
        if agent not in self._directory.content.cards:
            raise AgentUnknown(f"agent {agent!r} does not exist")
        context = context or str(uuid.uuid4())
        # Random for placement, not secrecy: any open shard will do.
        shard = random.randrange(self._shards)  # noqa: S311
        task = mint_task_id(shard, thread_token(caller.owner, context))
        return TaskKey(caller.tenant, agent, task), context

    async def begin(self, submission: Submission, key: TaskKey, context: str) -> AcceptedInput:
        """Begin the log at `key` and request the first run.

        Raises:
            Fenced: the log has already begun.
            HeadraceError: as `submit`.
        """
        _note(key, context)
        caller, owner, metadata = submission.caller, submission.caller.owner, submission.metadata
        version = caller.chosen_version
        if not version and (route := self._directory.content.routes.get(key.agent)) is not None:
            version = route.version_for(key.agent, key.tenant, context)
        if version:
            metadata = {**(metadata or {}), events.VERSION: version}
        with await self._appends.admit(key, owner) as admitted:
            if submission.webhook is not None:
                await self._webhooks.put(key, submission.webhook)
            sender, by = FileOwner(owner, context), writer_of("gateway")
            async with (
                self._appends.stored_files(key, sender, submission.message, metadata) as stored,
                (held := await self._feeds.open_new(key)),
            ):
                first = first_input(self._bus, key, context, *stored, owner=owner, writer=by)
                await self._appends.append_run(first, admitted)
                return AcceptedInput(key, context, first.stamp.log, 1, held.hand_over())

    async def _start_once(self, submission: Submission, keyed: KeyedRequest) -> AcceptedInput:
        """Begin a task, or return the input with which an earlier request of this key began it."""
        async with self._idempotency.one_at_a_time(keyed):
            place = self.place(submission.caller, submission.agent, submission.context)
            if (turns := submission.turns) is not None and turns.may_refuse:
                if (replay := await self._replay_unless_refused(keyed, turns)) is not None:
                    return replay
                turns = None
            claim, busy = await self._claim(keyed, place, turns)
            for _ in range(ROUNDS):
                if (earlier := await self._idempotency.start_of(claim)) is not None:
                    return await self._replay(earlier)
                if busy and turns is not None:
                    submission, busy = await _behind(submission, turns, busy), []
                with suppress(Fenced):
                    return await self.begin(submission, claim.key, claim.record.context)
                claim.is_new = False  # Another gateway has begun the same task.
            raise TaskBusy(f"task {claim.key.task} is being started")

    async def _replay_unless_refused(
        self, keyed: KeyedRequest, turns: ContextTurns
    ) -> AcceptedInput | None:
        """Return the input of the same earlier request, if other tasks are at work; else None.

        A request that is refused must leave no claim: it may be sent again at any time, changed or
        not, whereas an old claim without a log may be that of a task past its retention.
        """
        if not (busy := await turns.at_work()):
            return None
        if (replay := await self.replay(keyed)) is None:
            await turns.make_way(busy)
        return replay

    async def _claim(
        self, keyed: KeyedRequest, place: tuple[TaskKey, str], turns: ContextTurns | None
    ) -> tuple[Claim, list[str]]:
        """Return the claim of a key, and the other tasks at work at that time."""
        if turns is None:
            return await self._idempotency.claim(keyed, *place), []
        # At the same time, as both wait for NATS.
        looking = self._background.start(turns.at_work())
        try:
            claim = await self._idempotency.claim(keyed, *place)
            busy = await looking
        finally:
            looking.cancel()
        # Another gateway may have begun this very task.
        return claim, [task for task in busy if task != claim.key.task]

    async def replay(self, keyed: KeyedRequest) -> AcceptedInput | None:
        """Return the input of the same earlier request; None: it was never accepted.

        Raises:
            KeyReused, TaskUnknown, BusUnavailable: as `submit`.
        """
        record = await self._idempotency.find(keyed)
        earlier = None if record is None else await self._idempotency.input_of(keyed, record)
        return None if earlier is None else await self._replay(earlier)

    async def _replay(self, earlier: EarlierInput) -> AcceptedInput:
        held = await self._feeds.open(earlier.key)
        place = earlier.key, earlier.context, earlier.log, earlier.generation
        read = None if earlier.before is None else TaskRead(earlier.before)
        return AcceptedInput(*place, held, read, is_replay=True)

    async def _follow_up(self, submission: Submission, task: str) -> AcceptedInput:
        keyed = submission.keyed
        name = f"input-{secrets.token_hex(12)}" if keyed is None else keyed.writer
        known = self._known(submission, task)
        async with nullcontext() if keyed is None else self._idempotency.one_at_a_time(keyed):
            for _ in range(ROUNDS):
                # A log that was not read at this time may be gone, as when its task was deleted.
                with suppress(Fenced, *([LogLost] if known else [])):
                    return await self._continue(submission, task, name, known)
                # Another input came first, possibly through another gateway, or the run ended.
                known = None
            raise TaskBusy(f"task {task} is busy with other messages")

    def _known(self, submission: Submission, task: str) -> TaskRead | None:
        """Return the task as this gateway last saw it, if it waited for its user.

        The append succeeds only right after that state, so nothing has to be read. None: the task
        must be read, also where more than the append depends on it.
        """
        if submission.keyed is not None or submission.webhook is not None:
            return None
        key = TaskKey(submission.caller.tenant, submission.agent, task)
        if (log := self._feeds.waiting_log(key)) is None:
            return None
        known = self._state.read_in(query_of(submission.caller, key), *log)
        if known is None or ForkOf.of(known.found.task.get("metadata")) is not None:
            return None
        try:
            self._check(submission, known.found)
        except (ContextMismatch, GenerationMismatch):
            return None  # The log may have gone on.
        return known

    async def _continue(
        self, submission: Submission, task: str, name: str, known: TaskRead | None
    ) -> AcceptedInput:
        """Append the message under `name`, unless the log already has it from an earlier request.

        `known` is the task, if it has not to be read.

        Raises:
            Fenced: another entry came first, or the run ended; try again.
            LogLost: the log is gone.
            HeadraceError: as `submit`.
        """
        keyed = submission.keyed
        record = None if keyed is None else await self._idempotency.find(keyed)
        read: TaskRead | HeadraceError
        try:
            read = known or await self._read(submission, task)
        except (TaskEnded, GenerationMismatch) as refused:
            read = refused  # Perhaps because of this very message, if the log has it.
        # Read the log after the task: an entry that comes later fences this append.
        earlier = record and keyed and await self._idempotency.input_of(keyed, record)
        if earlier:
            return await self._replay(earlier)
        if isinstance(read, HeadraceError):
            raise read
        found = read.found
        if keyed is not None and record is None:
            await self._idempotency.claim_input(keyed, found)
        key, context = TaskKey(submission.caller.tenant, found.agent, task), found.task["contextId"]
        _note(key, context)
        if found.state == INPUT_REQUIRED:
            return await self._next_run(submission, key, read, name)
        return await self._queue(submission, key, read, name)

    async def _read(self, submission: Submission, task: str) -> TaskRead:
        """Return the task as it is now, if it can accept the message.

        Raises:
            TaskUnknown, ContextMismatch, GenerationMismatch, TaskEnded, TaskBusy, StateUnavailable:
                as `submit`.
        """
        caller = submission.caller
        query = query_of(caller, TaskKey(caller.tenant, submission.agent, task))
        read = await self._state.read(query)
        found = read.found
        fork = ForkOf.of(found.task.get("metadata"))
        if fork is not None and found.generation < fork.complete:
            await self._refuse_unfinished(TaskKey(caller.tenant, found.agent, task))
        self._check(submission, found)
        return read

    @staticmethod
    def _check(submission: Submission, found: TaskFound) -> None:
        """Check that the task in this state can accept the message.

        Raises:
            ContextMismatch, GenerationMismatch, TaskEnded: as `submit`.
        """
        task = found.task["id"]
        if submission.context not in (None, found.task["contextId"]):
            raise ContextMismatch(f"task {task} belongs to another context")
        # The append succeeds only right after the state found here, so this check still holds then.
        if submission.if_generation not in (None, found.generation):
            raise GenerationMismatch(task, found.generation)
        if found.state in TERMINAL:
            raise TaskEnded(f"task {task} is over and accepts no messages")

    async def _refuse_unfinished(self, key: TaskKey) -> NoReturn:
        """Refuse a message to a fork whose past is incomplete, and end the fork if it stays so."""
        last = await last_entry(self._bus, key)
        is_unfinished = last and await unfinished_fork(self._bus, key, last)
        if last and is_unfinished and await end_unfinished(self._bus, key, last):
            raise TaskEnded(f"task {key.task} is over: its past was not copied completely")
        raise TaskBusy(f"the past of task {key.task} is still being copied")

    async def _next_run(
        self, submission: Submission, key: TaskKey, read: TaskRead, name: str
    ) -> AcceptedInput:
        """Append the message as the input of the task's next run."""
        found, logged, metadata = read.found, read.logged, submission.metadata
        version = self._directory.route(key.agent).continues(found.version)
        if version != found.version:
            metadata = {**(metadata or {}), events.VERSION: version or UNPINNED}
        if waiting := behind_question(found.task["status"]):
            metadata = {**(metadata or {}), **waiting}
        terms = RunTerms(version=found.version, traceparent=found.traceparent)
        context, owner = found.task["contextId"], submission.caller.owner
        run = Run(key, found.generation + 1, found.log, context, owner, terms)
        with await self._appends.admit(key, owner) as admitted:
            await self._attach(submission, key, found)
            sender = FileOwner(owner, context)
            async with (
                self._appends.stored_files(key, sender, submission.message, metadata) as stored,
                (held := await self._feeds.open_after(key, logged.entries if logged else ())),
            ):
                following = next_input(self._bus, run, found.sequence, *stored, writer=name)
                await self._appends.append_run(following, admitted)
                named = key, context, found.log, run.generation
                return AcceptedInput(*named, held.hand_over(), read)

    async def _queue(
        self, submission: Submission, key: TaskKey, read: TaskRead, name: str
    ) -> AcceptedInput:
        """Queue the message for the task's active run."""
        found, context, caller = read.found, read.found.task["contextId"], submission.caller
        card = self._directory.card(key.agent)
        if card is not None and card.follow_ups == "reject" and found.state != AUTH_REQUIRED:
            raise TaskBusy(f"task {key.task} is running; wait until it asks for input")
        await self._appends.admit_queued(key, caller.owner)
        # The message joins a run that has begun, so that run's terms apply.
        metadata = RunTerms.removed_from(submission.metadata or {})
        await self._attach(submission, key, found)
        sender = FileOwner(caller.owner, context)
        async with (
            self._appends.stored_files(key, sender, submission.message, metadata) as stored,
            (held := await self._feeds.open(key)),
        ):
            queued = QueuedInput(name, context, *stored)
            append = QueuedAppend(self._bus, key, found, queued, submission.if_generation)
            generation = await self._appends.append(append)
            return AcceptedInput(key, context, found.log, generation, held.hand_over(), read)

    async def _attach(self, submission: Submission, key: TaskKey, found: TaskFound) -> None:
        """Store the message's webhook, for the events after the state in `found`."""
        if submission.webhook is not None:
            progress = WebhookProgress(
                generation=found.generation, sequence=found.sequence, traceparent=found.traceparent
            )
            webhook = submission.webhook.model_copy(update={"progress": progress})
            await self._webhooks.put(key, webhook)


async def _behind(submission: Submission, turns: ContextTurns, busy: list[str]) -> Submission:
    """Return the submission, to begin after those of the `busy` tasks that it must wait for."""
    ahead = await turns.make_way(busy)
    if not ahead:
        return submission
    metadata = {**(submission.metadata or {}), events.WAIT_FOR: ahead}
    return replace(submission, metadata=metadata)


def _note(key: TaskKey, context: str) -> None:
    """Record the task in the log lines of its request and, if traces are exported, in its span."""
    if tracing.is_enabled():
        note_task(key.task, context)
    else:
        log_context.note_task(key.task)
