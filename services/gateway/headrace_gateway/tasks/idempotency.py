"""Inputs under an Idempotency-Key: a repeated request returns the first one's result.

The record of a key names the task before its log begins. A gateway that finds a record without a
log (its gateway is busy or was killed) begins that log itself, by compare-and-set. So no gateway
waits for another, and exactly one task is created.
"""

import asyncio
import hashlib
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from weakref import WeakValueDictionary

from headrace.jetstream.connection import Bus
from headrace.jetstream.kv import Bucket, KeyChanged
from headrace.log import find_generation, last_entry, replay
from headrace.log.read import next_stored
from headrace.model import json_text
from headrace.model.entry import Entry
from headrace.model.errors import BusUnavailable, Fenced, LogLost, TaskUnknown
from headrace.model.fold import TaskFold
from headrace.model.messages import BusMessage, TaskFound
from headrace.model.task import TaskKey
from headrace.tasks.continue_ import generation_of_input
from headrace.wait_for import ELECTION
from headrace_gateway.refusals import KeyReused, TaskBusy, Unsettled
from headrace_gateway.server.auth.caller import Caller
from headrace_gateway.server.open_requests import may_be_repeated

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


@dataclass(slots=True)
class Claim:
    """A task that a request under a key is to create."""

    request: KeyedRequest
    record: IdempotencyRecord
    age: float
    """Seconds since the record was made."""
    is_new: bool
    """Whether this call made the record, so that nothing can have begun the task."""

    @property
    def key(self) -> TaskKey:
        """The key of the task's log."""
        return TaskKey(self.request.caller.tenant, self.request.agent, self.record.task)


@dataclass(frozen=True, slots=True)
class EarlierInput:
    """An input that the log has from an earlier request."""

    key: TaskKey
    context: str
    log: str
    generation: int
    before: TaskFound | None = None
    """For a message to an existing task: the task just before it."""


class Idempotency:
    """Finds what became of earlier requests under the same key, on whichever gateway they were."""

    def __init__(self, bus: Bus, records: IdempotencyRecords) -> None:
        """Read logs on `bus`."""
        self._bus, self._records = bus, records
        self._begins = begins_within(bus.settings.tombstone_seconds)
        self._under_way = WeakValueDictionary[str, asyncio.Lock]()

    @asynccontextmanager
    async def one_at_a_time(self, request: KeyedRequest) -> AsyncIterator[None]:
        """Wait until the block is the only one for the key; repeating the request is safe in it.

        Raises:
            BusUnavailable: the outcome of the block's append is not known yet.
        """
        may_be_repeated()
        # Between gateways the log decides; this lock avoids that contention within one gateway.
        lock = self._under_way.setdefault(request.name, asyncio.Lock())
        async with lock:
            try:
                yield
            except Unsettled as unsettled:
                raise BusUnavailable(str(unsettled)) from unsettled

    async def claim(self, request: KeyedRequest, key: TaskKey, context: str) -> Claim:
        """Return the claim to begin the task at `key`, or the one that this request made before.

        Raises:
            KeyReused: the key was used for another request.
            BusUnavailable: try again.
        """
        record = IdempotencyRecord(
            fingerprint=request.fingerprint, task=key.task, context=context, run=1
        )
        kept = await self._records.claim(request.name, record)
        _check_same(kept, request)
        return Claim(request, kept.record, kept.age, kept.record.task == key.task)

    async def claim_input(self, request: KeyedRequest, found: TaskFound) -> None:
        """Record that this request's message follows the state in `found`.

        Raises:
            KeyReused: the key was used for another request.
            Fenced: another gateway has recorded the same request meanwhile; find its input.
            BusUnavailable: try again.
        """
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

    async def find(self, request: KeyedRequest) -> IdempotencyRecord | None:
        """Return the record of the same earlier request, or None if there was none.

        Raises:
            KeyReused: the key was used for another request.
            BusUnavailable: try again.
        """
        kept = await self._records.find(request.name)
        if kept is None:
            return None
        _check_same(kept, request)
        return kept.record

    async def start_of(self, claim: Claim) -> EarlierInput | None:
        """Return the input that has begun the claimed task; None: it may begin.

        Raises:
            TaskBusy: the claim is for a message that its task no longer waits for.
            TaskUnknown: the task is past its retention.
        """
        if claim.is_new:
            return None
        if (earlier := await self.input_of(claim.request, claim.record)) is not None:
            return earlier
        if claim.record.run > 1:
            raise TaskBusy(f"task {claim.key.task} no longer waits for this input")
        self._check_may_begin(claim)
        return None

    async def check_unfinished(self, claim: Claim) -> None:
        """Check that the claimed task may begin, or be completed if it has begun.

        Raises:
            TaskUnknown: the task is past its retention.
        """
        if not claim.is_new and await self._first_entry(claim.key) is None:
            self._check_may_begin(claim)

    def _check_may_begin(self, claim: Claim) -> None:
        if claim.age > self._begins:
            raise _gone(claim.key)

    async def input_of(
        self, request: KeyedRequest, record: IdempotencyRecord
    ) -> EarlierInput | None:
        """Return the record's input, or None if the log does not have it.

        Raises:
            TaskUnknown: the task is past its retention.
        """
        key = TaskKey(request.caller.tenant, request.agent, record.task)
        if record.run == 1:
            first = await self._first_entry(key)
            if first is None:
                return None
            if first.generation != 1:
                raise _gone(key)
            return EarlierInput(key, record.context, first.stamp.log, 1)
        entry = await self._entry_of(key, record, request)
        if entry is None:
            return None
        before = await self._before(key, entry)
        generation = generation_of_input(entry, request.writer) or entry.generation
        return EarlierInput(key, record.context, entry.stamp.log, generation, before)

    async def _first_entry(self, key: TaskKey) -> Entry | None:
        sequence = 0
        while (stored := await next_stored(self._bus, key, sequence)) is not None:
            if stored.is_tombstone:
                raise _gone(key)
            if stored.entry is not None:
                return stored.entry
            sequence = stored.sequence
        return None

    async def _entry_of(
        self, key: TaskKey, record: IdempotencyRecord, request: KeyedRequest
    ) -> Entry | None:
        """Return the entry with the request's message, or None if the log has none."""
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


def _check_same(kept: StoredRecord, request: KeyedRequest) -> None:
    if kept.record.fingerprint != request.fingerprint:
        raise KeyReused("this Idempotency-Key was used for another request")


def _gone(key: TaskKey) -> TaskUnknown:
    return TaskUnknown(f"task {key.task} of this Idempotency-Key is past its retention period")
