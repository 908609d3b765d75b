"""Firings of schedules, each of which begins one task or records why it begins none.

A firing is recorded as beginning before its task begins, by compare-and-set. So of two firings at
once, on whatever replicas, the later one sees the other's task. A firing that is delivered again
finds its own record, and the task has the same id, so nothing happens twice.
"""

import logging
import time
import zlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import partial

from faststream.nats import NatsBroker, NatsMessage

from headrace.jetstream.connection import Bus
from headrace.jetstream.durables import FIRING_ACK_WAIT, of_firings
from headrace.jetstream.headers import DUE, DUE_SINCE, SCHEDULE_NEXT, SCHEDULER
from headrace.jetstream.next_firing import due_of_cron, last_of_cron, last_of_every
from headrace.log import last_entry, writer_of
from headrace.model.errors import UndecodableMessage
from headrace.model.events import read_time, timestamp
from headrace.model.go_duration import interval
from headrace.model.schedule import (
    MOST_QUEUED,
    Schedule,
    ScheduleFiring,
    ScheduleFirings,
    ScheduleKey,
)
from headrace.model.schedule_machine import (
    DueFiring,
    FiringCause,
    FiringCourse,
    FiringStep,
    ends_after,
    name_of,
    next_step,
)
from headrace.model.task import TaskKey
from headrace.schedules import Schedules
from headrace.tasks.cancel import cancel_task
from headrace_triggers.delivery import Deliveries, EventOutcome, FiringSource, FiringWaits
from headrace_triggers.firing import Firing, Firings, UndeliverableFiring
from headrace_triggers.pulled import pulled

_log = logging.getLogger(__name__)

_BATCH = 64
_LOOK_SOONEST, _LOOK_LATEST, _LOOK_SHARE = 1.0, 60.0, 20
"""A firing that waits for the task before looks again after this share of the seconds that it has
waited: many that wait must not keep the service busy."""

_FRACTIONS = 2**32

_OVERDUE = timedelta(seconds=10)
"""The longest that a schedule may have been due without a firing when it is changed: JetStream
fires late after an election. What it does not fire after an outage stays unfired."""


class TaskBeforeOpen(FiringWaits):
    """The firing waits until the task of the one before has ended."""


class FiringOvertaken(Exception):
    """A firing of the schedule has been recorded meanwhile. Look again."""


class RecordOfAnother(Exception):
    """The record is of no schedule yet, or of another one of the name."""


@dataclass(frozen=True, slots=True)
class Tick:
    """One firing of a schedule, as delivered."""

    key: ScheduleKey
    due_firing: DueFiring
    at: datetime
    """When JetStream stored it."""
    following: datetime | None = None
    """When the schedule fires next, if it says so."""
    is_again: bool = False
    """Whether it may have been delivered before."""

    @classmethod
    def of(cls, bus: Bus, message: NatsMessage) -> "Tick | None":
        """Read a delivered message. None: its schedule was not due when it was replaced.

        Raises:
            UndecodableMessage: it is no firing.
        """
        raw = message.raw_message
        key = ScheduleKey(*bus.subjects.key_of_schedule(raw.subject))
        schedule = Schedule.decode(raw.subject, raw.data)
        headers, at = raw.headers or {}, raw.metadata.timestamp
        following, since = read_time(headers.get(SCHEDULE_NEXT)), read_time(headers.get(DUE_SINCE))
        due: datetime | None = at
        cause = FiringCause.OWNER
        if SCHEDULER in headers:
            due, cause = _due(schedule, following, at), FiringCause.CLOCK
        elif since is not None:
            due, cause = _overdue(schedule, since, at), FiringCause.CLOCK
        elif (filled := read_time(headers.get(DUE))) is not None:
            due, cause = filled, FiringCause.BACK_FILL
        if due is None:
            return None
        name = name_of(schedule, due)
        if cause is FiringCause.OWNER:
            name = f"run/{raw.metadata.sequence.stream}"
        firing = DueFiring(name, schedule, due, cause)
        is_again = since is not None or raw.metadata.num_delivered > 1
        return cls(key, firing, at, following, is_again)

    @property
    def name(self) -> str:
        """Identifies it among the schedule's firings, however often JetStream stores it."""
        return self.due_firing.name

    @property
    def schedule(self) -> Schedule:
        """The definition as of the firing."""
        return self.due_firing.schedule

    @property
    def is_of_clock(self) -> bool:
        """Whether it fired at its time, instead of when its owner asked for it."""
        return self.due_firing.cause is FiringCause.CLOCK

    @property
    def source(self) -> FiringSource:
        """What fired."""
        return FiringSource(self.key.source, self.key.tenant, self.schedule.agent)

    @property
    def firing(self) -> Firing:
        """What begins its task."""
        schedule = self.schedule
        return Firing(
            source=self.source.name,
            key=self.name,
            tenant=self.key.tenant,
            owner=self.key.owner,
            agent=schedule.agent,
            parts=schedule.parts,
            event_streams=schedule.event_streams,
            context=schedule.context,
            priority=schedule.priority,
            # No answer came before: the clock fired.
            answers=None if schedule.answers is None else schedule.answers.answers("", 1),
            at=self.stated_at,
        )

    @property
    def stated_at(self) -> str:
        """The time that it is for, as its record and its task state it."""
        return timestamp(self.due_firing.due.astimezone(UTC))

    @property
    def jitter(self) -> float:
        """Its random delay, in seconds: the same in each delivery, to any replica."""
        if not self.is_of_clock:
            return 0.0
        whose = "/".join((*self.key.tokens, self.name))
        return self.schedule.jitter * zlib.crc32(whose.encode()) / _FRACTIONS

    def waited(self, now: float) -> float:
        """Return the seconds since JetStream stored it, at `now` by the server's clock."""
        return now - self.at.timestamp()

    def look_again(self, now: float) -> float:
        """Return the seconds until it looks again whether the task before has ended."""
        return min(max(self.waited(now) / _LOOK_SHARE, _LOOK_SOONEST), _LOOK_LATEST)

    def recorded(self, outcome: str, reason: str | None = None) -> ScheduleFiring:
        """Return its record; with a task unless there is a `reason` why it has none."""
        return ScheduleFiring.model_validate(
            {
                "key": self.name,
                "at": self.stated_at,
                "outcome": outcome,
                "task": None if reason else self.firing.task_key.task,
                "agent": self.schedule.agent,
                "reason": reason,
            }
        )


class ScheduledTasks:
    """Takes firings from the stream and begins their tasks; any number of replicas may."""

    def __init__(
        self,
        bus: Bus,
        firings: Firings,
        deliveries: Deliveries,
        ack_wait: float = FIRING_ACK_WAIT,
        now: Callable[[], float] = time.time,
    ) -> None:
        """Begin tasks through `firings`; settle what was delivered with `deliveries`.

        `now` returns NATS' time, seconds since 1970: it has stamped the firings.
        """
        self._now = now
        self._bus, self._firings, self._deliveries = bus, firings, deliveries
        self._schedules, self._ack_wait = Schedules(bus), ack_wait

    def subscribe(self, broker: NatsBroker) -> None:
        """Take firings once `broker` has started."""
        config = of_firings(self._bus.subjects, self._ack_wait)
        stream = self._bus.streams.schedules
        pulled(self._bus, broker, stream, config, self._handle, batch=_BATCH, persistent=True)

    async def _handle(self, message: NatsMessage) -> None:
        try:
            tick = Tick.of(self._bus, message)
        except UndecodableMessage as error:
            _log.error("dropped a message that is not a firing: %s", error)
            await message.reject()
            return
        if tick is None:
            await message.ack()
            return
        delay = tick.jitter - tick.waited(self._now())
        if min(delay, tick.jitter) > 0:
            # A clock that is behind puts off nothing further.
            await message.nack(delay=min(delay, tick.jitter))
            return
        outcomes = list[EventOutcome]()
        source = replace(tick.source, note=outcomes.append)
        try:
            await self._deliveries.settle(message, source, partial(self.fire, tick))
        except TaskBeforeOpen:
            await message.nack(delay=tick.look_again(self._now()))
        for one in outcomes:
            if one.kind != "waits":
                # Otherwise the next firings would wait for its task.
                await self._settled(tick, "refused", one.reason)

    async def fire(self, tick: Tick) -> None:
        """Begin the task of `tick`, unless a rule of its schedule forbids it.

        Raises:
            TaskBeforeOpen: it must wait.
            UndeliverableFiring: no task can be made of it.
            HeadraceError: it should be delivered again.
        """
        while True:
            found = await self._schedules.get(tick.key)
            schedule = None if found is None else found.schedule
            firings = (await self._schedules.firings(tick.key)).of(tick.schedule.created)
            step = next_step(tick.due_firing, schedule, firings)
            if step.course is FiringCourse.BEGINS and await self._has_fired(tick, firings):
                step = FiringStep(FiringCourse.SETTLED)
            if step.course not in {FiringCourse.BEGINS, FiringCourse.BEGINNING}:
                await self._begin_nothing(tick, step, is_deleted=schedule is None)
                return
            try:
                if step.course is FiringCourse.BEGINS and not await self._may_begin(tick, firings):
                    return
                recorded = await self._record(tick, partial(_beginning, tick, firings))
            except FiringOvertaken:
                # Maybe by itself, so long ago that its record is gone.
                tick = replace(tick, is_again=True)
                continue
            if recorded.find(tick.name) is not None:
                break
        await self._begin(tick)

    async def _begin_nothing(self, tick: Tick, step: FiringStep, *, is_deleted: bool) -> None:
        """Take a firing out that begins no task, or has begun it."""
        match step.course:
            case FiringCourse.SKIPPED:
                await self._settled(tick, "skipped", step.reason)
            case FiringCourse.SETTLED:
                # It may have been cut off before its schedule ended.
                await self._end_after(tick, await self._leave_queue(tick))
            case _ if is_deleted:
                await self._schedules.withdraw_timer(tick.key)
            case _:
                await self._leave_queue(tick)
        if step.ends:
            await self._schedules.end(tick.key, tick.schedule.version, step.ends)

    async def _has_fired(self, tick: Tick, firings: ScheduleFirings) -> bool:
        """Return whether it has begun its task, so long ago that its record is gone."""
        is_first = tick.is_of_clock and not tick.is_again
        if is_first or tick.name in firings.waiting:
            return False
        return await last_entry(self._bus, tick.firing.task_key) is not None

    async def _may_begin(self, tick: Tick, firings: ScheduleFirings) -> bool:
        """Return whether the overlap rule lets it begin; end or wait for the task before.

        Raises:
            TaskBeforeOpen: it must wait.
            FiringOvertaken: another firing began meanwhile, or this one on another replica.
        """
        if firings.beginning >= MOST_QUEUED:
            # Its agent is away, or a quota is used up: then not all begin at once.
            await self._settled(tick, "skipped", f"{MOST_QUEUED} firings are beginning already")
            return False
        before = firings.before(tick.name)
        if before is None or await self._has_ended(tick.key.tenant, before):
            return True
        match tick.schedule.overlap:
            case "skip":
                await self._settled(tick, "skipped", f"task {before.task} has not ended")
                return False
            case "queue":
                await self._queue(tick, firings)
                return False
            case "replace":
                await cancel_task(
                    self._bus, _task_of(tick.key.tenant, before), writer_of("trigger")
                )
                return True

    async def _queue(self, tick: Tick, seen: ScheduleFirings) -> None:
        """Keep the firing as one that waits, or as skipped if too many wait.

        Raises:
            TaskBeforeOpen: it waits.
            FiringOvertaken: as `_beginning`.
        """
        firings = await self._record(tick, partial(_waiting, tick, seen))
        if tick.name in firings.waiting:
            raise TaskBeforeOpen
        await self._settled(tick, "skipped", f"{tick.schedule.max_queued} firings wait already")

    async def _leave_queue(self, tick: Tick) -> ScheduleFirings:
        return await self._record(tick, lambda firings: firings.without_waiting(tick.name))

    async def _record(
        self, tick: Tick, change: Callable[[ScheduleFirings], ScheduleFirings]
    ) -> ScheduleFirings:
        """Change what is recorded of the tick's schedule, and return it.

        Nothing is recorded of one that was deleted, nor replaced of another one of its name.
        """
        created = tick.schedule.created
        is_known = False

        def changed(firings: ScheduleFirings) -> ScheduleFirings:
            before = firings.of(created)
            after = change(before)
            if after == before:
                return firings
            if before is not firings and not is_known:
                raise RecordOfAnother
            return after

        while True:
            try:
                return (await self._schedules.record(tick.key, changed)).of(created)
            except RecordOfAnother:
                found = await self._schedules.get(tick.key)
            is_known = found is not None and found.schedule.created == created
            if not is_known:
                return ScheduleFirings(created=created)

    async def _has_ended(self, tenant: str, firing: ScheduleFiring) -> bool:
        last = await last_entry(self._bus, _task_of(tenant, firing))
        if last is None:
            # Deleted, or not begun yet.
            return firing.outcome == "began"
        return last.ends_task

    async def _begin(self, tick: Tick) -> None:
        try:
            await self._firings.begin(tick.firing)
        except UndeliverableFiring as unfit:
            await self._settled(tick, "refused", str(unfit))
            raise
        await self._settled(tick, "began")

    async def _settled(self, tick: Tick, outcome: str, reason: str | None = None) -> None:
        """Record the outcome of a firing, and end its schedule if that was its last one."""
        record = tick.recorded(outcome, reason)
        firings = await self._record(tick, partial(_having, tick, record))
        await self._end_after(tick, firings)

    async def _end_after(self, tick: Tick, firings: ScheduleFirings) -> None:
        if why := ends_after(tick.due_firing, tick.schedule, firings):
            await self._schedules.end(tick.key, tick.schedule.version, why)


def _beginning(tick: Tick, seen: ScheduleFirings, firings: ScheduleFirings) -> ScheduleFirings:
    """Return `firings` with that of `tick` as beginning, if no other one came since `seen`.

    Raises:
        FiringOvertaken: one did.
    """
    _check_not_overtaken(tick, seen, firings)
    return _having(tick, tick.recorded("beginning"), firings)


def _waiting(tick: Tick, seen: ScheduleFirings, firings: ScheduleFirings) -> ScheduleFirings:
    """Return `firings` with that of `tick` as waiting, if there is room. Raises as `_beginning`.

    What is recorded as waiting after its outcome would wait for ever.
    """
    _check_not_overtaken(tick, seen, firings)
    return firings.having_waiting(tick.name, tick.schedule.max_queued)


def _check_not_overtaken(tick: Tick, seen: ScheduleFirings, firings: ScheduleFirings) -> None:
    if firings.find(tick.name) != seen.find(tick.name):
        raise FiringOvertaken  # by itself, on another replica
    before, expected = firings.before(tick.name), seen.before(tick.name)
    if (before and before.key) != (expected and expected.key):
        raise FiringOvertaken


def _having(tick: Tick, record: ScheduleFiring, firings: ScheduleFirings) -> ScheduleFirings:
    following = None if tick.following is None else timestamp(tick.following.astimezone(UTC))
    return firings.having(record, following, tick.schedule.life)


def _due(schedule: Schedule, following: datetime | None, stored: datetime) -> datetime:
    """Return the time that a firing by the clock is for, if the next one is at `following`."""
    if schedule.at is not None:
        return datetime.fromisoformat(schedule.at)
    if following is None:
        return stored
    if schedule.every is not None:
        return following - interval(schedule.every)
    return due_of_cron(schedule.expression, schedule.time_zone, following, stored)


def _overdue(schedule: Schedule, since: datetime, replaced: datetime) -> datetime | None:
    """Return the last time after `since` at which a schedule was due before it was replaced."""
    if schedule.every is not None:
        due = last_of_every(schedule.every, since, replaced)
    else:
        due = last_of_cron(schedule.expression, schedule.time_zone, replaced)
    return due if due is not None and due > max(since, replaced - _OVERDUE) else None


def _task_of(tenant: str, firing: ScheduleFiring) -> TaskKey:
    return TaskKey(tenant, firing.agent or "", firing.task or "")
