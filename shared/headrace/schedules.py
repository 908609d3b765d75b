"""The schedules of a fleet, stored in a stream whose messages JetStream itself fires.

A schedule's definition is on one subject until it is deleted, and its timer, JetStream's message
schedule, on another: both are stored together or not at all, so that no state in between remains.
Gateways do this for owners, by the transitions of `headrace.model.schedule_machine`. What fires is
a message on a further subject of the same stream, with a copy of the definition; the triggers
service begins a task from it.
"""

from base64 import b64decode
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial

from headrace import clock
from headrace.jetstream.api import (
    Json,
    MessageToStore,
    get_message,
    store_after,
    store_with_retries,
    stream_info,
    stream_state,
    until_answered,
)
from headrace.jetstream.connection import Bus
from headrace.jetstream.errors import Refused
from headrace.jetstream.headers import DUE, DUE_SINCE, MESSAGE_ID, ROLLUP
from headrace.jetstream.message_schedules import (
    DefinitionSubjects,
    FiringRule,
    ScheduleChanged,
    store_definition,
)
from headrace.jetstream.next_firing import (
    firings_of_cron,
    next_of_cron,
    next_of_every,
    start_of_every,
)
from headrace.jetstream.purge import purge
from headrace.model.errors import BusUnavailable, HeadraceError, UndecodableMessage
from headrace.model.events import timestamp
from headrace.model.messages import BusMessage
from headrace.model.schedule import (
    MOST_QUEUED,
    Overlap,
    Schedule,
    ScheduleFirings,
    ScheduleKey,
)
from headrace.model.schedule_machine import ended, last_times, paused, resumed, stated
from headrace.model.subjects import decode_token
from headrace.number_limit import NumberLimit
from headrace.wait_for import ELECTION

MOST_PER_OWNER = 500
"""Maximum number of schedules per owner."""

_ATTEMPTS = 10


class ScheduleUnknown(HeadraceError):
    """The caller has no such schedule."""

    code = "schedule_unknown"


class ScheduleUnreadable(HeadraceError):
    """This release can't read the schedule, or the record of its firings."""

    code = "schedule_unreadable"

    def __init__(self, key: ScheduleKey, sequence: int, why: str) -> None:
        """Name the schedule with `key`, which is stored at `sequence`."""
        super().__init__(f"this release can't read schedule {decode_token(key.name)!r}: {why}")
        self.key, self.sequence = key, sequence


class BackFillRefused(HeadraceError):
    """The schedule's times in a range are not known, or too many."""

    code = "invalid_input"


class TooManySchedules(HeadraceError):
    """The owner has the maximum number of schedules."""

    code = "too_many_schedules"


@dataclass(frozen=True, slots=True)
class StoredSchedule:
    """A schedule in the stream."""

    key: ScheduleKey
    schedule: Schedule
    sequence: int
    stored: datetime = field(compare=False)


type Listed = StoredSchedule | ScheduleUnreadable
"""A schedule of a list, or the error because of which it can't be read."""


class Schedules:
    """The stream's schedules. Every call raises BusUnavailable if NATS does not answer."""

    def __init__(self, bus: Bus, most_per_owner: int = MOST_PER_OWNER) -> None:
        """Use `bus`."""
        self._bus, self._stream = bus, bus.streams.schedules
        self._most_per_owner = most_per_owner

    async def put(self, key: ScheduleKey, schedule: Schedule) -> StoredSchedule:
        """Create the schedule, or replace its definition.

        One that is defined like this already stays as it is: its next firing is not postponed. One
        that has ended starts again, unless it is for one time.

        Raises:
            TooManySchedules: The owner has the maximum number of schedules.
            ExpressionRefused, TimeZoneRefused: JetStream refuses when it fires.
        """
        for _ in range(_ATTEMPTS):
            found = await self.get(key)
            streams = {"event_streams": self._bus.settings.event_streams}
            before = None if found is None else found.schedule
            after = stated(before, schedule.model_copy(update=streams), clock.now())
            try:
                if found is None:
                    return await self._add(key, after)
                if after is before:
                    return found
                return await self._store(key, after, found.sequence, *await self._replaced(found))
            except ScheduleChanged:
                continue
        raise _busy(key)

    async def _replaced(self, found: StoredSchedule) -> list[MessageToStore]:
        """Return what to store behind a change of a schedule, so that it loses no time.

        JetStream fires up to 0.3 s late, or after an election, and does not fire what is replaced
        meanwhile. The message is stored when the change is, so its time tells which time was due
        last. If JetStream has fired for that, it is the same firing.
        """
        one, since = found.schedule, found.stored
        if not one.is_active or one.at is not None:
            return []
        if one.every is not None:
            last = last_times(one, await self.firings(found.key))
            since = max([start_of_every(since), *last])
        subject = self._bus.subjects.firing(*found.key.tokens)
        return [MessageToStore(subject, one.encode(), {DUE_SINCE: since.isoformat()})]

    async def _add(self, key: ScheduleKey, schedule: Schedule) -> StoredSchedule:
        """Store a schedule that does not exist."""

        async def count() -> int:
            query = {"subjects_filter": self._bus.subjects.schedule(key.tenant, key.owner, "*")}
            ask = partial(stream_info, self._bus, self._stream, query)
            return len((await until_answered(self._bus, ask))["state"].get("subjects") or {})

        async def add() -> StoredSchedule:
            await self._purge_leftovers(key, self._bus.subjects.fired)
            return await self._store(key, schedule, 0)

        most = self._most_per_owner
        refusal = TooManySchedules(f"an owner may have at most {most} schedules; delete one")
        return await NumberLimit(most, count, refusal).add(add, self._withdraw)

    async def _withdraw(self, added: StoredSchedule) -> None:
        """Delete the schedule, unless another request has replaced it meanwhile."""
        subjects, tokens = self._bus.subjects, added.key.tokens
        subject, after = subjects.schedule(*tokens), added.sequence + 1
        await purge(self._bus, self._stream, subject, before=after)
        # Its timer is the next message.
        await purge(self._bus, self._stream, subjects.timer(*tokens), before=after + 1)
        await self._purge_all_leftovers(added.key)

    async def get(self, key: ScheduleKey) -> StoredSchedule | None:
        """Return the schedule. None: it does not exist.

        Raises:
            ScheduleUnreadable: This release can't read it.
        """
        query = {"last_by_subj": self._bus.subjects.schedule(*key.tokens)}
        return await self._ask(query)

    async def list(
        self, tenant: str, owner: str = "*", after: int = 0, limit: int = 100
    ) -> list[Listed]:
        """Return the first schedules after stream sequence `after`. Each costs a request.

        One that can't be read is in its place as the error that says so.

        Args:
            tenant: As a token.
            owner: As a token; ``*``: of all owners.
            after: 0 for all.
            limit: The maximum number.
        """
        pattern = self._bus.subjects.schedule(tenant, owner, "*")
        found = list[Listed]()
        while len(found) < limit:
            one: Listed | None
            try:
                one = await self._ask({"seq": after + 1, "next_by_subj": pattern})
            except ScheduleUnreadable as unreadable:
                one = unreadable
            if one is None:
                break
            found.append(one)
            after = one.sequence
        return found

    async def pause(self, key: ScheduleKey) -> Schedule:
        """Let the schedule fire no more until it is resumed.

        Raises:
            ScheduleUnknown: It does not exist.
            ScheduleOver: It has ended.
        """
        return await self._change(key, paused)

    async def resume(self, key: ScheduleKey) -> Schedule:
        """Let a paused schedule fire again: at its next time, counted from now.

        One for one time, which has passed meanwhile, fires at once.

        Raises:
            ScheduleUnknown, ScheduleOver: As `pause`.
        """
        return await self._change(key, resumed)

    async def end(self, key: ScheduleKey, version: int, why: str) -> None:
        """Keep the schedule, which has fired with the definition `version`, as ended.

        One that was defined again meanwhile stays as it is.
        """
        for _ in range(_ATTEMPTS):
            found = await self.get(key)
            after = None if found is None else ended(found.schedule, version, why)
            if found is None or after is None:
                return
            try:
                await self._store(key, after, found.sequence)
            except ScheduleChanged:
                continue
            return
        raise _busy(key)

    async def run_now(self, key: ScheduleKey, request: str) -> None:
        """Fire the schedule once, besides its own times, also if it is paused or has ended.

        A repetition with the same `request`, within two minutes, is the same firing.

        Raises:
            ScheduleUnknown: It does not exist.
        """
        found = await self.get(key)
        if found is None:
            raise _unknown(key)
        subject = self._bus.subjects.firing(*key.tokens)
        # Requests to one that was deleted are not repeated by this one.
        headers = {MESSAGE_ID: f"{'.'.join(key.tokens)}.{found.schedule.created}.{request}"}
        await store_with_retries(self._bus, subject, found.schedule.encode(), headers)

    async def back_fill(
        self, key: ScheduleKey, start: datetime, end: datetime, overlap: Overlap
    ) -> int:
        """Fire the schedule for each of its times from `start` to `end`, regardless of its own end.

        Return their number. Times for which it has begun a task as it is defined now, by the clock
        or back-filled, begin no second one.

        Raises:
            ScheduleUnknown: It does not exist.
            BackFillRefused: It does not fire by cron, or there are more than `MOST_QUEUED`.
        """
        found = await self.get(key)
        if found is None:
            raise _unknown(key)
        one = found.schedule
        if one.cron is None:
            raise BackFillRefused("cron: only schedules by cron can be back-filled")
        times = firings_of_cron(one.expression, one.time_zone, start, end, MOST_QUEUED + 1)
        if one.end is not None:
            over = datetime.fromisoformat(one.end)
            times = [due for due in times if due < over]
        if len(times) > MOST_QUEUED:
            raise BackFillRefused(f"to: at most {MOST_QUEUED} times can be back-filled at once")
        fired = one.model_copy(update={"overlap": overlap, "max_queued": MOST_QUEUED})
        subject, data = self._bus.subjects.firing(*key.tokens), fired.encode()
        for due in times:
            await store_with_retries(self._bus, subject, data, {DUE: timestamp(due, "seconds")})
        return len(times)

    async def delete(self, key: ScheduleKey) -> None:
        """Delete the schedule, its waiting firings and its history, if it exists."""
        # The definition first: what fires without one begins nothing.
        await purge(self._bus, self._stream, self._bus.subjects.schedule(*key.tokens))
        await self._purge_all_leftovers(key)

    async def withdraw_timer(self, key: ScheduleKey) -> None:
        """Delete the timer that was left by a deletion which was cut off."""
        await self._purge_leftovers(key, self._bus.subjects.timer)

    async def _purge_all_leftovers(self, key: ScheduleKey) -> None:
        """Delete what a deleted schedule leaves: its timer, waiting firings and history."""
        subjects = self._bus.subjects
        await self._purge_leftovers(key, subjects.timer, subjects.firing, subjects.fired)

    async def _purge_leftovers(self, key: ScheduleKey, *subjects: Callable[..., str]) -> None:
        """Delete what a deleted schedule has left on `subjects`, but nothing of a later one.

        Another process may store one of the same name at any time.
        """
        last = (await stream_state(self._bus, self._stream, ELECTION)).last
        if await self._message({"last_by_subj": self._bus.subjects.schedule(*key.tokens)}) is None:
            # All of one that is stored from here on comes later.
            for subject in subjects:
                await purge(self._bus, self._stream, subject(*key.tokens), before=last + 1)

    async def firings(self, key: ScheduleKey) -> ScheduleFirings:
        """Return what the schedule's last firings have done."""
        return (await self._firings(key))[0]

    async def next(
        self, stored: StoredSchedule, firings: ScheduleFirings | None = None
    ) -> datetime | None:
        """Return when the schedule fires next by the clock, without its jitter. None: never.

        None also for a time zone that this machine does not have.

        Args:
            stored: The schedule.
            firings: What its last firings have done. None: they are read if it takes them.
        """
        one, now = stored.schedule, clock.now()
        if not one.is_active:
            return None
        if one.at is not None:
            due: datetime | None = datetime.fromisoformat(one.at).astimezone(UTC)
        elif one.every is not None:
            firings = firings or await self.firings(stored.key)
            known = firings.of(one.created).next
            following = None if known is None else datetime.fromisoformat(known)
            due = next_of_every(one.every, stored.stored, following, now)
        else:
            due = next_of_cron(one.expression, one.time_zone, now)
        is_over = due is not None and one.end is not None and due >= datetime.fromisoformat(one.end)
        return None if is_over else due

    async def record(
        self, key: ScheduleKey, change: Callable[[ScheduleFirings], ScheduleFirings]
    ) -> ScheduleFirings:
        """Change what is recorded of the schedule's firings, and return it.

        `change` is called again if another process has changed it meanwhile.
        """
        subject = self._bus.subjects.fired(*key.tokens)
        for _ in range(_ATTEMPTS):
            firings, after = await self._firings(key)
            changed = change(firings)
            if changed == firings:
                return firings
            headers = {ROLLUP: "sub"}
            data = changed.encode()
            try:
                await store_after(self._bus, self._stream, subject, data, after, headers)
            except Refused as refused:
                if refused.has_other_sequence:
                    continue
                raise
            return changed
        raise _busy(key)

    async def _change(
        self, key: ScheduleKey, change: Callable[[Schedule, str], Schedule]
    ) -> Schedule:
        for _ in range(_ATTEMPTS):
            found = await self.get(key)
            if found is None:
                raise _unknown(key)
            changed = change(found.schedule, decode_token(key.name))
            if changed == found.schedule:
                return changed
            try:
                return (await self._store(key, changed, found.sequence)).schedule
            except ScheduleChanged:
                continue
        raise _busy(key)

    async def _store(
        self, key: ScheduleKey, schedule: Schedule, after: int, *behind: MessageToStore
    ) -> StoredSchedule:
        subjects, rule = self._bus.subjects, None
        if schedule.is_active:
            target = subjects.firing(*key.tokens)
            rule = FiringRule(schedule.expression, target, schedule.time_zone)
        at = DefinitionSubjects(subjects.schedule(*key.tokens), subjects.timer(*key.tokens))
        data = schedule.encode()
        sequence = await store_definition(self._bus, self._stream, at, data, after, rule, *behind)
        return StoredSchedule(key, schedule, sequence, clock.now())

    async def _firings(self, key: ScheduleKey) -> tuple[ScheduleFirings, int]:
        message = await self._message({"last_by_subj": self._bus.subjects.fired(*key.tokens)})
        if message is None:
            return ScheduleFirings(), 0
        try:
            return _decode(ScheduleFirings, message), message["seq"]
        except UndecodableMessage as error:
            raise ScheduleUnreadable(key, message["seq"], error.reason) from error

    async def _ask(self, query: Json) -> StoredSchedule | None:
        message = await self._message(query)
        if message is None:
            return None
        key = ScheduleKey(*self._bus.subjects.key_of_schedule(message["subject"]))
        stored = datetime.fromisoformat(message["time"])
        try:
            return StoredSchedule(key, _decode(Schedule, message), message["seq"], stored)
        except UndecodableMessage as error:
            raise ScheduleUnreadable(key, message["seq"], error.reason) from error

    async def _message(self, query: Json) -> Json | None:
        ask = partial(get_message, self._bus, self._stream, query)
        return await until_answered(self._bus, ask)


def _decode[Body: BusMessage](kind: type[Body], message: Json) -> Body:
    return kind.decode(message["subject"], b64decode(message.get("data") or ""))


def _unknown(key: ScheduleKey) -> ScheduleUnknown:
    return ScheduleUnknown(f"schedule {decode_token(key.name)!r} does not exist")


def _busy(key: ScheduleKey) -> BusUnavailable:
    return BusUnavailable(f"schedule {decode_token(key.name)!r} is being changed concurrently")
