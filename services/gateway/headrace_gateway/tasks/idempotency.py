"""Inputs under an Idempotency-Key: a repeated request returns the first one's result.

The record of a key names the task before its log begins. A gateway that finds a record without a
log (its gateway is busy or was killed) begins that log itself, by compare-and-set. So no gateway
waits for another, and exactly one task is created.
"""

import asyncio
import hashlib
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakValueDictionary

from headrace.jetstream.connection import Bus
from headrace.jetstream.kv import Bucket, KeyChanged
from headrace.log import find_generation, last_entry, replay
from headrace.log.read import next_stored
from headrace.model import json_text
from headrace.model.entry import Entry
from headrace.model.errors import BusUnavailable, Fenced, HeadraceError, LogLost, TaskUnknown
from headrace.model.events import Json
from headrace.model.fold import TaskFold
from headrace.model.messages import BusMessage, TaskFound
from headrace.model.task import TaskKey
from headrace.state_client import TaskRead
from headrace.wait_for import ELECTION
from headrace_gateway.background_work import BackgroundWork
from headrace_gateway.feeds import Feeds
from headrace_gateway.refusals import GenerationMismatch, KeyReused, TaskBusy, TaskEnded
from headrace_gateway.server.auth.caller import Caller
from headrace_gateway.server.open_requests import may_be_repeated
from headrace_gateway.tasks.inputs import AcceptedInput, FollowUp, generation_of_input
from headrace_gateway.tasks.settle import Unsettled
from headrace_gateway.tasks.submit import ROUNDS, Submissions

_TIMEOUT = ELECTION
_PAUSE = 0.05


class IdempotencyRecord(BusMessage):
    """The record of one request, and the place of its input in a log."""

    fingerprint: str
    """Hash of the request; a request with another hash may not use the key."""
    task: str
    context: str
    run: int
    """Generation of the input."""


@dataclass(frozen=True, slots=True)
class StoredRecord:
    """A record as stored in the bucket."""

    record: IdempotencyRecord
    age: float = field(default=0.0, compare=False)
    """Seconds since the record was made, by NATS's clock: a gateway's may be wrong."""


class IdempotencyRecords:
    """The bucket's records, by name (a subject token)."""

    def __init__(self, bus: Bus, seconds: int, now: Callable[[], float]) -> None:
        """Keep each record for `seconds`; `now` returns NATS's time, in seconds since 1970."""
        self._bucket, self._seconds = Bucket(bus, bus.streams.idempotency), seconds
        self._now = now

    async def claim(self, name: str, record: IdempotencyRecord) -> StoredRecord:
        """Create the record and return it, or another request's, if that one was first.

        Raises:
            BusUnavailable: the bucket does not answer, or is full.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + _TIMEOUT
        while True:
            try:
                await self._bucket.put(name, record.encode(), 0, seconds=self._seconds)
            except KeyChanged as moved:
                if (kept := await self.find(name)) is not None:
                    return kept
                if loop.time() > deadline:
                    raise BusUnavailable(str(moved)) from moved
            else:
                return StoredRecord(record)
            await asyncio.sleep(_PAUSE)

    async def find(self, name: str) -> StoredRecord | None:
        """Return the record of that name from the bucket's leader, or None.

        Raises:
            BusUnavailable: no leader answers.
        """
        found = await self._bucket.get(name)
        if found.data is None or found.written is None:
            return None
        record = IdempotencyRecord.decode(f"record {name}", found.data)
        return StoredRecord(record, max(self._now() - found.written.timestamp(), 0.0))


def begins_within(tombstone_seconds: float) -> float:
    """Return for how many seconds a record without a log proves that its task never began.

    A log is purged only after it began, and leaves a tombstone for `tombstone_seconds`. So an empty
    log younger than that never began. Half of the time is reserved for the append. Later the task
    may have run and been purged, and starting it would repeat its work.
    """
    return max(60.0, tombstone_seconds / 2)


@dataclass(frozen=True, slots=True)
class KeyedRequest:
    """A request under a key: its caller, agent and content."""

    caller: Caller
    agent: str
    key: str
    """The key as the client sent it."""
    fingerprint: str
    """Hash of the whole request."""

    @property
    def name(self) -> str:
        """The name of the key's record; keys are separate for each owner and agent."""
        whose = [self.caller.tenant, self.caller.owner, self.agent, self.key]
        return hashlib.sha256(json_text.encode(whose)).hexdigest()

    @property
    def writer(self) -> str:
        """The writer id, and the name of a queued message; the same on every gateway."""
        return f"key-{self.name[:24]}"


class Idempotency:
    """Accepts inputs once per key, on whichever gateway they arrive."""

    def __init__(
        self,
        bus: Bus,
        feeds: Feeds,
        submissions: Submissions,
        records: IdempotencyRecords,
        background: BackgroundWork,
    ) -> None:
        """Accept requests without a record through `submissions`; finish them in `background`."""
        self._background = background
        self._bus, self._feeds, self._submissions, self._records = bus, feeds, submissions, records
        self._begins = begins_within(bus.settings.tombstone_seconds)
        self._under_way = WeakValueDictionary[str, asyncio.Lock]()

    async def start(
        self, request: KeyedRequest, message: Json, context: str | None, metadata: Json | None
    ) -> AcceptedInput:
        """Create a task from `message`, or return the one that this request created before.

        Raises:
            KeyReused: the key was used for another request.
            TaskUnknown: the task that this request created is past its retention.
            HeadraceError: as `Submissions.start`.
        """
        starting = self._start(request, message, context, metadata)
        return await self._background.run(_repeatable(starting))

    async def _start(
        self, request: KeyedRequest, message: Json, context: str | None, metadata: Json | None
    ) -> AcceptedInput:
        async with self._one_at_a_time(request):
            key, kept, is_mine = await self._claim_start(request, context)
            record = kept.record
            for _ in range(ROUNDS):
                if not is_mine and (accepted := await self._accepted(request, record)) is not None:
                    return accepted
                if record.run > 1:
                    raise TaskBusy(f"task {key.task} no longer waits for this input")
                if not is_mine and kept.age > self._begins:
                    raise _gone(key)
                try:
                    return await self._submissions.begin(
                        request.caller, key, record.context, message, metadata
                    )
                except Fenced:
                    is_mine = False
            raise TaskBusy(f"task {key.task} is being started")

    async def begin_task(
        self, request: KeyedRequest, begin: Callable[[TaskKey, str], Awaitable[None]]
    ) -> tuple[TaskKey, str]:
        """Return the key and the context of the task that this request creates, by `begin`.

        `begin` gets both. It is called by each repetition, also on several gateways at a time, and
        does what is left to do.

        Raises:
            KeyReused, TaskUnknown: as `start`.
            HeadraceError: as `begin`.
        """
        return await self._background.run(_repeatable(self._begin_task(request, begin)))

    async def _begin_task(
        self, request: KeyedRequest, begin: Callable[[TaskKey, str], Awaitable[None]]
    ) -> tuple[TaskKey, str]:
        async with self._one_at_a_time(request):
            key, kept, is_mine = await self._claim_start(request, None)
            is_old = not is_mine and kept.age > self._begins
            # Also reports that the task is past its retention.
            if not is_mine and await self._entry_after(key, 0) is None and is_old:
                raise _gone(key)
            await begin(key, kept.record.context)
            return key, kept.record.context

    async def _claim_start(
        self, request: KeyedRequest, context: str | None
    ) -> tuple[TaskKey, StoredRecord, bool]:
        """Return the key and the record of the task to create, and whether this call made them."""
        key, context = await self._submissions.place(request.caller, request.agent, context)
        record = IdempotencyRecord(
            fingerprint=request.fingerprint, task=key.task, context=context, run=1
        )
        kept = await self._records.claim(request.name, record)
        _check_same(kept, request)
        is_mine = kept.record.task == key.task
        return TaskKey(key.tenant, key.agent, kept.record.task), kept, is_mine

    async def again(self, request: KeyedRequest) -> AcceptedInput | None:
        """Return the result of the same earlier request, or None if it was never accepted.

        Raises:
            KeyReused, TaskUnknown: as `start`.
            BusUnavailable: try again.
        """
        kept = await self._records.find(request.name)
        if kept is None:
            return None
        _check_same(kept, request)
        return await self._accepted(request, kept.record)

    async def follow_up(self, request: KeyedRequest, follow_up: FollowUp) -> AcceptedInput:
        """Append the message to its task, or return where it was appended before.

        Raises:
            KeyReused, TaskUnknown: as `start`.
            HeadraceError: as `Submissions.follow_up`.
        """
        following = self._follow_up(request, follow_up)
        return await self._background.run(_repeatable(following))

    async def _follow_up(self, request: KeyedRequest, follow_up: FollowUp) -> AcceptedInput:
        async with self._one_at_a_time(request):
            for _ in range(ROUNDS):
                with suppress(Fenced):
                    return await self._once(request, follow_up)
            raise TaskBusy(f"task {follow_up.task} is busy with other messages")

    async def _once(self, request: KeyedRequest, follow_up: FollowUp) -> AcceptedInput:
        """Append the message unless the log already has it.

        Raises:
            Fenced: another entry came first, possibly this message; try again.
        """
        kept = await self._records.find(request.name)
        if kept is not None:
            _check_same(kept, request)
        read: TaskRead | HeadraceError
        try:
            read = await self._submissions.find(request.caller, request.agent, follow_up)
        except (TaskEnded, GenerationMismatch) as refused:
            read = refused  # Perhaps because of this message, if the log has it.
        # Read the log after the task: an entry that comes later fences this gateway's append.
        if (
            kept is not None
            and (accepted := await self._accepted(request, kept.record)) is not None
        ):
            return accepted
        if isinstance(read, HeadraceError):
            raise read
        if kept is None:
            await self._claim(request, read.found)
        return await self._submissions.append(request.caller, read, follow_up, request.writer)

    async def _claim(self, request: KeyedRequest, found: TaskFound) -> None:
        record = IdempotencyRecord(
            fingerprint=request.fingerprint,
            task=found.task["id"],
            context=found.task["contextId"],
            run=found.generation + 1,
        )
        kept = await self._records.claim(request.name, record)
        _check_same(kept, request)
        if kept.record != record:
            raise Fenced(
                f"task {record.task}: another request with this Idempotency-Key is in progress"
            )

    @asynccontextmanager
    async def _one_at_a_time(self, request: KeyedRequest) -> AsyncIterator[None]:
        # Between gateways the log decides; this lock avoids that contention within one gateway.
        lock = self._under_way.setdefault(request.name, asyncio.Lock())
        async with lock:
            yield

    async def _accepted(
        self, request: KeyedRequest, record: IdempotencyRecord
    ) -> AcceptedInput | None:
        """Return where the record's input was appended, or None if it was not."""
        key = TaskKey(request.caller.tenant, request.agent, record.task)
        if record.run == 1:
            first = await self._entry_after(key, 0)
            return None if first is None else await self._start_accepted(key, record, first)
        entry = await self._input(key, record, request)
        return None if entry is None else await self._input_accepted(key, record, entry, request)

    async def _entry_after(self, key: TaskKey, sequence: int) -> Entry | None:
        while (stored := await next_stored(self._bus, key, sequence)) is not None:
            if stored.is_tombstone:
                raise _gone(key)
            if stored.entry is not None:
                return stored.entry
            sequence = stored.sequence
        return None

    async def _start_accepted(
        self, key: TaskKey, record: IdempotencyRecord, first: Entry
    ) -> AcceptedInput:
        if first.generation != 1:
            raise _gone(key)
        held = await self._feeds.open(key)
        return AcceptedInput(key, record.context, first.stamp.log, 1, held, again=True)

    async def _input(
        self, key: TaskKey, record: IdempotencyRecord, request: KeyedRequest
    ) -> Entry | None:
        """Return the entry with the request's message, or None if it was not appended."""
        last = await last_entry(self._bus, key)
        if last is None:
            raise _gone(key)
        if last.last_generation < record.run:
            return None
        try:
            before = await find_generation(self._bus, key, record.run, last)
            async for batch in replay(self._bus, key, before, last.sequence):
                for entry in batch:
                    if generation_of_input(entry, request.writer) is not None:
                        return entry
        except LogLost:
            raise _gone(key) from None
        return None

    async def _input_accepted(
        self, key: TaskKey, record: IdempotencyRecord, entry: Entry, request: KeyedRequest
    ) -> AcceptedInput:
        """Return the input in `entry`, with the Task as it was just before."""
        snapshot = await self._before(key, entry)
        generation = generation_of_input(entry, request.writer) or entry.generation
        held = await self._feeds.open(key)
        return AcceptedInput(
            key, record.context, entry.stamp.log, generation, held, snapshot=snapshot, again=True
        )

    async def _before(self, key: TaskKey, entry: Entry) -> TaskFound:
        fold, state, sequence = TaskFold(), "", 0
        try:
            async for batch in replay(self._bus, key, 0, entry.sequence):
                for one in batch:
                    if one.sequence < entry.sequence:
                        fold.apply_entry(one)
                        state, sequence = one.stamp.state, one.sequence
        except LogLost:
            raise _gone(key) from None
        return TaskFound(
            task=fold.task(None),
            agent=key.agent,
            log=entry.stamp.log,
            generation=entry.generation - 1,
            sequence=sequence,
            state=state,
        )


async def _repeatable[Result](accepting: Coroutine[Any, Any, Result]) -> Result:
    """Return the result of `accepting`; a repeat under the same key gets the same result.

    Raises:
        BusUnavailable: the outcome is not known yet; repeating the request is safe.
    """
    may_be_repeated()
    try:
        return await accepting
    except Unsettled as unsettled:
        raise BusUnavailable(str(unsettled)) from unsettled


def _check_same(kept: StoredRecord, request: KeyedRequest) -> None:
    if kept.record.fingerprint != request.fingerprint:
        raise KeyReused("this Idempotency-Key was used for another request")


def _gone(key: TaskKey) -> TaskUnknown:
    return TaskUnknown(f"task {key.task} of this Idempotency-Key is past its retention period")
