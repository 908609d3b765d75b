"""Inputs under an Idempotency-Key: sent again, they meet what came of them the first time.

The record of a key names the task before its log begins. So whoever finds a record without a log
(the gateway that made it is busy, or was killed) begins that log itself, by compare-and-set: nobody
waits for anybody, and exactly one task comes of it.
"""

import asyncio
import hashlib
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakValueDictionary

import orjson

from headrace.jetstream.connection import Bus
from headrace.jetstream.kv import Bucket, Moved
from headrace.log import find_generation, last_entry, replay
from headrace.log.read import next_stored
from headrace.model.entry import Entry
from headrace.model.errors import BusUnavailable, Fenced, HeadraceError, LogLost, TaskUnknown
from headrace.model.events import INPUT_ID, Json
from headrace.model.fold import TaskFold
from headrace.model.messages import BusMessage, TaskFound
from headrace.model.task import TaskKey
from headrace.wait_for import ELECTION
from headrace_gateway.detached import Detached
from headrace_gateway.feeds import Feeds
from headrace_gateway.refusals import GenerationMismatch, KeyReused, TaskBusy, TaskEnded
from headrace_gateway.server.auth.caller import Caller
from headrace_gateway.server.open_requests import may_be_repeated
from headrace_gateway.tasks.inputs import ROUNDS, Accepted, FollowUp
from headrace_gateway.tasks.settle import Unsettled
from headrace_gateway.tasks.submit import Submissions

_TIMEOUT = ELECTION
_PAUSE = 0.05


class Sent(BusMessage):
    """One request, and where what it asks for is or is to be."""

    fingerprint: str
    """Hash of the request: another one may not use the key."""
    task: str
    context: str
    run: int
    """Generation of the input."""


@dataclass(frozen=True, slots=True)
class StoredRecord:
    """A record as it is in the bucket."""

    sent: Sent
    sequence: int
    """Of the bucket's stream: what a change of the record expects."""
    age: float = field(default=0.0, compare=False)
    """Seconds since it was made."""


class SentRecords:
    """The bucket's records, by name (a subject token)."""

    def __init__(self, bus: Bus, seconds: int) -> None:
        """Keep records for so long."""
        self._bucket, self._seconds = Bucket(bus, bus.streams.idempotency), seconds

    async def claim(self, name: str, sent: Sent, *, behind: int = 0) -> StoredRecord:
        """Make the record, or change the one at sequence `behind`; return the one that is there.

        That is another one if somebody else was first.

        Raises:
            BusUnavailable: the bucket does not answer, or takes no more.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + _TIMEOUT
        while True:
            try:
                return StoredRecord(sent, await self._put(name, sent, behind))
            except Moved as moved:
                kept = await self.find(name)
                if kept is not None and kept.sequence != behind:
                    return kept
                if kept is None and behind:
                    behind = 0  # it expired meanwhile
                elif loop.time() > deadline:
                    raise BusUnavailable(str(moved)) from moved
            await asyncio.sleep(_PAUSE)

    async def find(self, name: str) -> StoredRecord | None:
        """Return the record of that name as the leader knows it; None: there is none.

        Raises:
            BusUnavailable: no leader answers.
        """
        found = await self._bucket.get(name)
        if found.data is None:
            return None
        return StoredRecord(Sent.decode(f"record {name}", found.data), found.sequence, found.age)

    async def _put(self, name: str, sent: Sent, behind: int) -> int:
        return await self._bucket.put(name, sent.encode(), behind, seconds=self._seconds)


def begins_within(tombstone_seconds: float) -> float:
    """Return for how many seconds a record without a log stands for a task that never began.

    A log is purged only after it began, and leaves a tombstone for `tombstone_seconds`. So an empty
    log younger than that never began. Half of the time is left for the append. Later the task may
    have run and been purged, and starting it would repeat its work.
    """
    return max(60.0, tombstone_seconds / 2)


@dataclass(frozen=True, slots=True)
class Keyed:
    """Who sends what to which agent under which key."""

    caller: Caller
    agent: str
    key: str
    """What the client says."""
    fingerprint: str
    """Hash of the whole request."""

    @property
    def name(self) -> str:
        """The key's record: every owner's keys are their own, for each agent."""
        whose = [self.caller.tenant, self.caller.owner, self.agent, self.key]
        return hashlib.sha256(orjson.dumps(whose)).hexdigest()

    @property
    def writer(self) -> str:
        """Who appends under the key, on whichever gateway, and the name of what is handed in."""
        return f"key-{self.name[:24]}"


class Idempotency:
    """Accepts inputs once per key, on whichever gateway they arrive."""

    def __init__(
        self,
        bus: Bus,
        feeds: Feeds,
        submissions: Submissions,
        records: SentRecords,
        detached: Detached,
    ) -> None:
        """Accept through `submissions` what `records` do not know; go on in `detached`."""
        self._detached = detached
        self._bus, self._feeds, self._submissions, self._records = bus, feeds, submissions, records
        self._begins = begins_within(bus.settings.tombstone_seconds)
        self._under_way = WeakValueDictionary[str, asyncio.Lock]()

    async def start(
        self, request: Keyed, message: Json, context: str | None, metadata: Json | None
    ) -> Accepted:
        """Make a task of `message`, or return the one that was made of it.

        Raises:
            KeyReused: the key stands for another request.
            TaskUnknown: what was made of it is past its retention.
            HeadraceError: as `Submissions.start`.
        """
        starting = self._start(request, message, context, metadata)
        return await self._detached.run(_repeatable(starting), self._submissions.give_back)

    async def _start(
        self, request: Keyed, message: Json, context: str | None, metadata: Json | None
    ) -> Accepted:
        async with self._one_at_a_time(request):
            caller = request.caller
            key, context = await self._submissions.place(caller, request.agent, context)
            sent = Sent(fingerprint=request.fingerprint, task=key.task, context=context, run=1)
            kept = await self._records.claim(request.name, sent)
            _check_same(kept, request)
            is_mine, sent = kept.sent.task == key.task, kept.sent
            key = TaskKey(key.tenant, key.agent, sent.task)
            for _ in range(ROUNDS):
                if not is_mine and (met := await self._met(request, sent)) is not None:
                    return met
                if sent.run > 1:
                    raise TaskBusy(f"task {key.task} waits no more for what was sent")
                if not is_mine and kept.age > self._begins:
                    raise _gone(key)
                try:
                    return await self._submissions.begin(
                        caller, key, sent.context, message, metadata
                    )
                except Fenced:
                    is_mine = False
            raise TaskBusy(f"task {key.task} is being started")

    async def again(self, request: Keyed) -> Accepted | None:
        """Return what came of the same request; None: it has not been taken in.

        Raises:
            KeyReused, TaskUnknown: as `start`.
            BusUnavailable: try again.
        """
        kept = await self._records.find(request.name)
        if kept is None:
            return None
        _check_same(kept, request)
        return await self._met(request, kept.sent)

    async def follow_up(self, request: Keyed, asked: FollowUp) -> Accepted:
        """Take the message in to its task, or return where it has been taken in.

        Raises:
            KeyReused, TaskUnknown: as `start`.
            HeadraceError: as `FollowUps.take_in`.
        """
        following = self._follow_up(request, asked)
        return await self._detached.run(_repeatable(following), self._submissions.give_back)

    async def _follow_up(self, request: Keyed, asked: FollowUp) -> Accepted:
        async with self._one_at_a_time(request):
            for _ in range(ROUNDS):
                with suppress(Fenced):
                    return await self._once(request, asked)
            raise TaskBusy(f"task {asked.task} is busy with other messages")

    async def _once(self, request: Keyed, asked: FollowUp) -> Accepted:
        """Look whether the message is there already, and put it there if not.

        Raises:
            Fenced: something else came first, this message perhaps: look again.
        """
        kept = await self._records.find(request.name)
        if kept is not None:
            _check_same(kept, request)
        found, refused = await self._look(request, asked)
        # After the look: what comes behind that is found by whoever puts it there.
        if kept is not None and (met := await self._met(request, kept.sent)) is not None:
            return met
        if found is None:
            raise refused or _gone(TaskKey(request.caller.tenant, request.agent, asked.task))
        if kept is None:
            await self._claim(request, found)
        return await self._submissions.follow_ups.put(request.caller, found, asked, request.writer)

    async def _look(
        self, request: Keyed, asked: FollowUp
    ) -> tuple[TaskFound | None, HeadraceError | None]:
        """Return the task or why the message can't come behind it, which need not matter."""
        try:
            return await self._submissions.follow_ups.look(
                request.caller, request.agent, asked
            ), None
        except (TaskEnded, GenerationMismatch) as refused:
            return None, refused

    async def _claim(self, request: Keyed, found: TaskFound) -> None:
        sent = Sent(
            fingerprint=request.fingerprint,
            task=found.task["id"],
            context=found.task["contextId"],
            run=found.generation + 1,
        )
        kept = await self._records.claim(request.name, sent)
        _check_same(kept, request)
        if kept.sent != sent:
            raise Fenced(
                f"task {sent.task}: another request with this Idempotency-Key is in progress"
            )

    @asynccontextmanager
    async def _one_at_a_time(self, request: Keyed) -> AsyncIterator[None]:
        # Between gateways the log decides; within one it need not come to that.
        lock = self._under_way.setdefault(request.name, asyncio.Lock())
        async with lock:
            yield

    async def _met(self, request: Keyed, sent: Sent) -> Accepted | None:
        """Return where what the record names has been taken in; None: nowhere."""
        key = TaskKey(request.caller.tenant, request.agent, sent.task)
        if sent.run == 1:
            first = await self._entry_after(key, 0)
            return None if first is None else await self._begun(key, sent, first)
        entry = await self._input(key, sent, request)
        return None if entry is None else await self._continued(key, sent, entry, request)

    async def _entry_after(self, key: TaskKey, sequence: int) -> Entry | None:
        while (stored := await next_stored(self._bus, key, sequence)) is not None:
            if stored.is_tombstone:
                raise _gone(key)
            if stored.entry is not None:
                return stored.entry
            sequence = stored.sequence
        return None

    async def _begun(self, key: TaskKey, sent: Sent, first: Entry) -> Accepted:
        if first.generation != 1:
            raise _gone(key)
        feed = await self._feeds.acquire(key)
        return Accepted(key, sent.context, first.stamp.log, 1, feed, again=True)

    async def _input(self, key: TaskKey, sent: Sent, request: Keyed) -> Entry | None:
        """Return the entry with what was sent; None: it has not been taken in."""
        last = await last_entry(self._bus, key)
        if last is None:
            raise _gone(key)
        if last.last_generation < sent.run:
            return None
        try:
            before = await find_generation(self._bus, key, sent.run, last)
            async for batch in replay(self._bus, key, before, last.sequence):
                for entry in batch:
                    if _place(entry, request) is not None:
                        return entry
        except LogLost:
            raise _gone(key) from None
        return None

    async def _continued(self, key: TaskKey, sent: Sent, entry: Entry, request: Keyed) -> Accepted:
        """Return what was taken in with `entry`, with the Task as it was just before."""
        snapshot = await self._before(key, entry)
        generation = _place(entry, request) or entry.generation
        feed = await self._feeds.acquire(key)
        return Accepted(
            key, sent.context, entry.stamp.log, generation, feed, snapshot=snapshot, again=True
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


async def _repeatable(accepting: Coroutine[Any, Any, Accepted]) -> Accepted:
    """Return what `accepting` does; who sends again under the same key meets what came of it.

    Raises:
        BusUnavailable: it is not known yet what came of it; sending again is safe.
    """
    may_be_repeated()
    try:
        return await accepting
    except Unsettled as unsettled:
        raise BusUnavailable(str(unsettled)) from unsettled


def _place(entry: Entry, request: Keyed) -> int | None:
    """Return the generation of what was sent, if it is in `entry`: an input, or queued."""
    if entry.stamp.writer == request.writer:
        return entry.generation
    for generation, event in enumerate(entry.parsed(), entry.generation):
        if event.get("statusUpdate", {}).get("metadata", {}).get(INPUT_ID) == request.writer:
            return generation
    return None


def _check_same(kept: StoredRecord, request: Keyed) -> None:
    if kept.sent.fingerprint != request.fingerprint:
        raise KeyReused("this Idempotency-Key was used for another request")


def _gone(key: TaskKey) -> TaskUnknown:
    return TaskUnknown(f"task {key.task} of this Idempotency-Key is past its retention")
