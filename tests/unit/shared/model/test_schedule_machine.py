"""The machine of schedules: what their owners and their firings make of them."""

from datetime import UTC, datetime, timedelta

import pytest

from headrace.model.schedule import Schedule, ScheduleFiring, ScheduleFirings
from headrace.model.schedule_machine import (
    DueFiring,
    FiringCause,
    FiringCourse,
    ScheduleOver,
    ScheduleState,
    ended,
    ends_after,
    name_of,
    next_step,
    paused,
    resumed,
    state_of,
    stated,
)

NOW = datetime(2026, 11, 29, 12, tzinfo=UTC)


def defined(text: str = "hi", /, **terms: object) -> Schedule:
    when = {} if "at" in terms else {"every": "1h"}
    return Schedule.model_validate(
        {"agent": "echo", "parts": [{"text": text}], "created": 1.0, **when, **terms}
    )


def made(**terms: object) -> Schedule:
    return stated(None, defined(**terms), NOW)


def ended_one(**terms: object) -> Schedule:
    one = made(**terms)
    over = ended(one, one.version, "it has fired")
    assert over is not None
    return over


def firing(
    schedule: Schedule, cause: FiringCause = FiringCause.CLOCK, due: datetime = NOW
) -> DueFiring:
    return DueFiring(name_of(schedule, due), schedule, due, cause)


def recorded(one: DueFiring, outcome: str) -> ScheduleFirings:
    firings, record = ScheduleFirings(), {"key": one.name, "at": "2026-11-29T12:00:00Z"}
    for each in ("skipped",) if outcome == "skipped" else ("beginning", outcome):
        task = None if each == "skipped" else "t"
        found = ScheduleFiring.model_validate(record | {"outcome": each, "task": task})
        firings = firings.having(found, life=one.schedule.life)
    return firings


def course(
    one: DueFiring, schedule: Schedule | None, firings: ScheduleFirings | None = None
) -> FiringCourse:
    return next_step(one, schedule, firings or ScheduleFirings()).course


def test_each_change_gives_a_schedule_a_new_version_even_if_the_clock_is_set_back() -> None:
    first = made()
    assert stated(first, defined(), NOW) is first
    second = stated(first, defined("hello"), NOW - timedelta(days=1))
    assert second.version == first.version + 1
    assert (second.life, second.created) == (first.life, first.created)


def test_what_has_ended_begins_a_new_life_when_it_is_stored_again() -> None:
    over = ended_one()
    again = stated(over, defined(), NOW)
    assert (state_of(again), again.life) == (ScheduleState.ACTIVE, again.version)
    assert again.life > over.life


def test_one_time_that_has_had_its_task_begins_a_new_life_only_with_a_change() -> None:
    at = "2026-11-29T11:00:00Z"
    over = ended_one(at=at)
    assert stated(over, defined(at=at), NOW) is over
    moved = stated(over, defined(at="2026-11-29T13:00:00Z"), NOW)
    assert (state_of(moved), moved.life) == (ScheduleState.ACTIVE, moved.version)


def test_a_paused_schedule_stays_paused_when_it_is_changed_unless_it_had_ended() -> None:
    waiting = paused(made(), "report")
    assert state_of(stated(waiting, defined("hello"), NOW)) is ScheduleState.PAUSED
    over = ended(waiting, waiting.version, "its end has passed")
    assert state_of(stated(over, defined(), NOW)) is ScheduleState.ACTIVE
    assert state_of(resumed(waiting, "report")) is ScheduleState.ACTIVE


@pytest.mark.parametrize("change", [paused, resumed])
def test_what_has_ended_is_neither_paused_nor_resumed(change: object) -> None:
    assert callable(change)
    with pytest.raises(ScheduleOver, match="schedule 'report' has ended: it has fired"):
        change(ended_one(), "report")


def test_a_firing_ends_only_the_definition_that_it_is_of() -> None:
    first = made()
    assert ended(stated(first, defined("hello"), NOW), first.version, "why") is None
    assert ended(ended_one(), first.version, "why") is None
    assert ended(None, first.version, "why") is None


def test_the_same_time_has_the_same_name_in_each_zone_and_another_in_each_version() -> None:
    first = made()
    in_kolkata = datetime.fromisoformat("2026-11-29T17:30:00+05:30")
    assert name_of(first, in_kolkata) == name_of(first, NOW)
    changed = stated(first, defined("hello"), NOW)
    assert name_of(changed, NOW) != name_of(first, NOW)


@pytest.mark.parametrize(
    ("outcome", "cause", "found"),
    [
        ("beginning", FiringCause.CLOCK, FiringCourse.BEGINNING),
        ("began", FiringCause.CLOCK, FiringCourse.SETTLED),
        ("skipped", FiringCause.CLOCK, FiringCourse.SETTLED),
        ("refused", FiringCause.BACK_FILL, FiringCourse.SETTLED),
        ("began", FiringCause.BACK_FILL, FiringCourse.SETTLED),
        ("skipped", FiringCause.BACK_FILL, FiringCourse.BEGINS),
    ],
)
def test_a_firing_that_is_known_has_one_outcome(
    outcome: str, cause: FiringCause, found: FiringCourse
) -> None:
    one = made()
    due = firing(one, cause)
    assert course(due, one, recorded(due, outcome)) is found


def test_a_beginning_goes_on_whatever_becomes_of_its_schedule() -> None:
    one = made()
    due = firing(one)
    for now in (None, paused(one, "report"), ended_one(), stated(one, defined("hello"), NOW)):
        assert course(due, now, recorded(due, "beginning")) is FiringCourse.BEGINNING


@pytest.mark.parametrize("cause", list(FiringCause))
def test_a_firing_of_a_schedule_that_was_deleted_begins_nothing(cause: FiringCause) -> None:
    one = made()
    assert course(firing(one, cause), None) is FiringCourse.DROPPED
    another = stated(None, defined(created=2.0), NOW + timedelta(seconds=1))
    assert course(firing(one, cause), another) is FiringCourse.DROPPED


@pytest.mark.parametrize("cause", [FiringCause.OWNER, FiringCause.BACK_FILL])
def test_what_an_owner_requests_begins_although_the_schedule_is_paused_or_over(
    cause: FiringCause,
) -> None:
    for one in (paused(made(), "report"), ended_one()):
        assert course(firing(one, cause), one) is FiringCourse.BEGINS


def test_a_firing_of_an_earlier_life_begins_nothing() -> None:
    one = made()
    again = stated(ended_one(), defined(), NOW + timedelta(seconds=1))
    assert course(firing(one), again) is FiringCourse.DROPPED
    assert course(firing(one), ended_one()) is FiringCourse.DROPPED


def test_a_change_drops_the_firing_for_one_time_and_no_other() -> None:
    once = {"at": "2026-11-29T12:00:00Z"}
    for terms, found in ((dict[str, str](), FiringCourse.BEGINS), (once, FiringCourse.DROPPED)):
        one = made(**terms)
        assert course(firing(one), stated(one, defined("hello", **terms), NOW)) is found


def test_a_paused_schedule_skips_its_times_and_keeps_one_time() -> None:
    once = {"at": "2026-11-29T12:00:00Z"}
    for terms, found in ((dict[str, str](), FiringCourse.SKIPPED), (once, FiringCourse.DROPPED)):
        one = made(**terms)
        assert course(firing(one), paused(one, "report")) is found


def test_a_firing_at_the_end_begins_nothing_and_one_before_it_does_however_late() -> None:
    one = made(end="2026-11-29T12:00:00Z")
    step = next_step(firing(one), one, ScheduleFirings())
    assert (step.course, step.ends) == (FiringCourse.DROPPED, "its end has passed")
    assert course(firing(one, due=NOW - timedelta(seconds=1)), one) is FiringCourse.BEGINS


def test_a_schedule_ends_with_the_last_task_of_its_life() -> None:
    one = made(max_firings=1)
    due = firing(one)
    firings = recorded(due, "began")
    assert ends_after(due, one, firings) == "it has begun 1 tasks"
    step = next_step(firing(one, due=NOW + timedelta(hours=1)), one, firings)
    assert (step.course, step.ends) == (FiringCourse.DROPPED, "it has begun 1 tasks")
    over = ended(one, one.version, "it has begun 1 tasks")
    again = stated(over, defined(max_firings=1), NOW)
    assert course(firing(again), again, firings) is FiringCourse.BEGINS
    assert ends_after(firing(again), again, firings) == ""


def test_one_time_ends_with_its_own_firing_only() -> None:
    one = made(at="2026-11-29T12:00:00Z")
    assert ends_after(firing(one), one, ScheduleFirings()) == "it has fired"
    assert ends_after(firing(one, FiringCause.OWNER), one, ScheduleFirings()) == ""
