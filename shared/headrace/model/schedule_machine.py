"""The machine of schedules: their states and transitions, and what each firing does.

A schedule is absent, active, paused or ended. Its owner stores, pauses, resumes and deletes it; its
firings end it. Storing another definition gives it a new version; storing it again after its end
gives it a new life, too. A firing is named by the version and by the time that it is for, so it is
the same one however often and from wherever it comes: from the clock, after a pause, or by a
back-fill. From its time on, a firing is due, waits for its jitter or for the task before, and has
one outcome. A schedule for one time stays active until its firing has it.

This module does neither input nor output. `headrace.schedules` makes the transitions in the stream,
and the triggers service executes what firings do.
"""

from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum

from headrace.model.errors import HeadraceError
from headrace.model.events import timestamp
from headrace.model.schedule import Schedule, ScheduleFirings

_MICROSECONDS = 1_000_000


class ScheduleOver(HeadraceError):
    """The schedule has ended; store it again to restart it (one for one time: with a change)."""

    code = "schedule_over"


class ScheduleState(StrEnum):
    """Of a schedule that exists."""

    ACTIVE = "active"
    PAUSED = "paused"
    ENDED = "ended"


def state_of(schedule: Schedule) -> ScheduleState:
    """Return the state of a schedule."""
    if schedule.ended:
        return ScheduleState.ENDED
    return ScheduleState.PAUSED if schedule.paused else ScheduleState.ACTIVE


def stated(before: Schedule | None, definition: Schedule, now: datetime) -> Schedule:
    """Return the schedule after its owner has stored `definition`; `before`: nothing changes.

    An unchanged definition changes nothing, so that programs may store it whenever they start. Only
    one that has ended starts a new life; but not a schedule for one time, whose time has had its
    task.
    """
    version = int(now.timestamp() * _MICROSECONDS)
    if before is None:
        return definition.model_copy(update={"version": version, "life": version})
    has_ended = state_of(before) is ScheduleState.ENDED
    if before.is_defined_as(definition) and not (has_ended and before.at is None):
        return before
    version = max(version, before.version + 1)
    return definition.model_copy(
        update={
            # Of one that had ended, too: its dead letters since then go with it.
            "created": before.created,
            "paused": before.paused and not has_ended,
            "version": version,
            "life": version if has_ended else before.life,
        }
    )


def paused(before: Schedule, name: str) -> Schedule:
    """Return the schedule after a pause.

    Raises:
        ScheduleOver: It has ended.
    """
    return _switched(before, name, is_paused=True)


def resumed(before: Schedule, name: str) -> Schedule:
    """Return the schedule after it was resumed.

    Raises:
        ScheduleOver: It has ended.
    """
    return _switched(before, name, is_paused=False)


def _switched(before: Schedule, name: str, *, is_paused: bool) -> Schedule:
    if state_of(before) is ScheduleState.ENDED:
        raise ScheduleOver(f"schedule {name!r} has ended: {before.ended}")
    return before.model_copy(update={"paused": is_paused})


def ended(before: Schedule | None, version: int, why: str) -> Schedule | None:
    """Return the schedule after a firing of `version` has ended it. None: it does not end it.

    One that was changed meanwhile goes on.
    """
    if before is None or before.version != version or state_of(before) is ScheduleState.ENDED:
        return None
    return before.model_copy(update={"ended": why})


class FiringCause(StrEnum):
    """Who asked for a firing."""

    CLOCK = "clock"
    OWNER = "owner"
    BACK_FILL = "back-fill"


@dataclass(frozen=True, slots=True)
class DueFiring:
    """A firing from its time on."""

    name: str
    """Identifies it among those of its schedule."""
    schedule: Schedule
    """The definition as of its time."""
    due: datetime
    """The time that it is for."""
    cause: FiringCause


def name_of(schedule: Schedule, due: datetime) -> str:
    """Return the name of the firing for a time of a schedule."""
    return f"{schedule.version}/{timestamp(due.astimezone(UTC))}"


def last_times(schedule: Schedule, firings: ScheduleFirings) -> list[datetime]:
    """Return the times of the last firings of a schedule as it is defined."""
    own = f"{schedule.version}/"
    last = firings.of(schedule.created).last
    return [datetime.fromisoformat(one.at) for one in last if one.key.startswith(own)]


class FiringCourse(StrEnum):
    """How a firing goes on."""

    DROPPED = "dropped"
    """It begins no task and leaves no record: its schedule is gone, or paused until its one time is
    due again, or it is of an earlier definition or life."""
    SKIPPED = "skipped"
    """It begins no task, which is recorded."""
    BEGINS = "begins"
    """It begins its task, if the overlap rule lets it."""
    BEGINNING = "beginning"
    """Its beginning is recorded: it begins its task, whatever has become of the schedule."""
    SETTLED = "settled"
    """It has had its outcome."""


@dataclass(frozen=True, slots=True)
class FiringStep:
    """What a firing does next."""

    course: FiringCourse
    reason: str = ""
    """Why it begins no task."""
    ends: str = ""
    """Why the schedule ends, whatever comes of the firing. Empty: it does not."""


def next_step(firing: DueFiring, schedule: Schedule | None, firings: ScheduleFirings) -> FiringStep:
    """Return what a firing does, given the schedule and its record as they are now."""
    known = firings.find(firing.name)
    if known is not None and known.outcome == "beginning":
        return FiringStep(FiringCourse.BEGINNING)
    if known is not None and not (
        known.outcome == "skipped" and firing.cause is FiringCause.BACK_FILL
    ):
        return FiringStep(FiringCourse.SETTLED)
    if schedule is None or schedule.created != firing.schedule.created:
        return FiringStep(FiringCourse.DROPPED, "the schedule was deleted")
    if firing.cause is not FiringCause.CLOCK:
        return FiringStep(FiringCourse.BEGINS)
    return _step_of_clock(firing, schedule, firings)


def _step_of_clock(firing: DueFiring, schedule: Schedule, firings: ScheduleFirings) -> FiringStep:
    defined = firing.schedule
    if state_of(schedule) is ScheduleState.ENDED or schedule.life != defined.life:
        return FiringStep(FiringCourse.DROPPED, "the schedule has ended")
    if defined.at is not None and schedule.version != defined.version:
        return FiringStep(FiringCourse.DROPPED, "the schedule was changed before its task began")
    if state_of(schedule) is ScheduleState.PAUSED:
        # One time is not over with that: once resumed, it is due at once.
        course = FiringCourse.SKIPPED if defined.at is None else FiringCourse.DROPPED
        return FiringStep(course, "the schedule is paused")
    if defined.end is not None and firing.due >= datetime.fromisoformat(defined.end):
        return FiringStep(FiringCourse.DROPPED, ends="its end has passed")
    if why := has_begun_all(schedule, firings):
        return FiringStep(FiringCourse.DROPPED, ends=why)
    return FiringStep(FiringCourse.BEGINS)


def has_begun_all(schedule: Schedule, firings: ScheduleFirings) -> str:
    """Return why the schedule ends by its number of tasks. Empty: it does not."""
    begun, most = firings.began_in(schedule.life), schedule.max_firings
    return f"it has begun {begun} tasks" if most is not None and begun >= most else ""


def ends_after(firing: DueFiring, schedule: Schedule, firings: ScheduleFirings) -> str:
    """Return why the schedule ends once `firing` has its outcome. Empty: it goes on."""
    if firing.cause is FiringCause.CLOCK and firing.schedule.at is not None:
        return "it has fired"
    return has_begun_all(schedule, firings)
