"""Schedules: their expressions, and what is kept of their firings."""

import pytest

from headrace.model.schedule import KEPT_FIRINGS, Schedule, ScheduleFiring, ScheduleFirings


def schedule(**terms: object) -> Schedule:
    return Schedule.model_validate({"agent": "echo", "parts": [{"text": "hi"}], **terms})


@pytest.mark.parametrize(
    ("terms", "expression"),
    [
        ({"at": "2030-01-01T00:00:00Z"}, "@at 2030-01-01T00:00:00Z"),
        ({"every": "90s"}, "@every 90s"),
        ({"cron": "0 9 * * mon-fri"}, "0 0 9 * * mon-fri"),
        ({"cron": "*/10 * * * * *"}, "*/10 * * * * *"),
        ({"cron": "@daily"}, "@daily"),
    ],
)
def test_cron_without_seconds_fires_at_second_0(terms: dict[str, str], expression: str) -> None:
    assert schedule(**terms).expression == expression


def test_a_definition_is_what_a_caller_states_not_what_became_of_it() -> None:
    one = schedule(every="5m")
    assert one.is_defined_as(one.model_copy(update={"paused": True, "created": 1.0}))
    assert not one.is_defined_as(schedule(every="6m"))


def firing(key: str, outcome: str, task: str | None = None) -> ScheduleFiring:
    values = {"key": key, "at": "2030-01-01T00:00:00Z", "outcome": outcome, "task": task}
    return ScheduleFiring.model_validate(values)


def test_a_firing_that_is_recorded_again_counts_once_and_keeps_its_place() -> None:
    firings = ScheduleFirings()
    for outcome in ("beginning", "began", "began"):
        firings = firings.having(firing("a", outcome, "t-a"), "2030-01-01T00:00:01Z")
    firings = firings.having(firing("b", "skipped")).having(firing("a", "began", "t-a"))
    assert [(one.key, one.outcome) for one in firings.last] == [("a", "began"), ("b", "skipped")]
    assert (firings.began, firings.next) == (1, "2030-01-01T00:00:01Z")


def begun(*keys: str, firings: ScheduleFirings | None = None) -> ScheduleFirings:
    """Return `firings` with those of `keys`, each with its task."""
    firings = firings or ScheduleFirings()
    for key in keys:
        firings = firings.having(firing(key, "beginning", f"t-{key}"))
        firings = firings.having(firing(key, "began", f"t-{key}"))
    return firings


def test_only_the_last_firings_are_kept_and_all_are_counted() -> None:
    firings = begun(*(str(number) for number in range(KEPT_FIRINGS + 5)))
    assert firings.began == KEPT_FIRINGS + 5
    assert [one.key for one in firings.last] == [str(k) for k in range(5, KEPT_FIRINGS + 5)]


@pytest.mark.parametrize("outcome", ["began", "refused"])
def test_an_outcome_reported_after_more_firings_than_are_kept_is_ignored(
    outcome: str,
) -> None:
    late = begun("late")
    firings = begun(*(str(number) for number in range(KEPT_FIRINGS)), firings=late)
    assert firings.find("late") is None
    assert firings.began == KEPT_FIRINGS + 1
    assert firings.having(firing("late", outcome, "t-late")) == firings


def test_a_beginning_is_kept_and_counted_once_until_its_outcome_whatever_follows() -> None:
    late = ScheduleFirings().having(firing("late", "beginning", "t-late"))
    firings = begun(*(str(number) for number in range(KEPT_FIRINGS)), firings=late)
    for _ in range(2):
        firings = firings.having(firing("late", "beginning", "t-late"))
    assert (firings.began, firings.beginning, len(firings.last)) == (21, 1, 21)
    firings = firings.having(firing("late", "began", "t-late"))
    assert (firings.began, firings.beginning, len(firings.last)) == (21, 0, 20)


def test_a_beginning_is_not_skipped_any_more_and_counts_unless_it_is_refused() -> None:
    firings = ScheduleFirings().having(firing("a", "beginning", "t-a"))
    assert firings.having(firing("a", "skipped")) == firings
    assert (firings.began, firings.skipped) == (1, 0)
    assert firings.having(firing("a", "refused", "t-a")).began == 0


def test_the_firing_before_is_the_last_other_one_with_a_task() -> None:
    firings = begun("a")
    for one in (firing("b", "skipped"), firing("c", "beginning", "t")):
        firings = firings.having(one)
    before = firings.before("c")
    assert before is not None
    assert before.key == "a"
    assert ScheduleFirings().before("a") is None


def test_the_last_firing_with_a_task_is_kept_however_many_are_skipped_after_it() -> None:
    firings = begun("a")
    for number in range(KEPT_FIRINGS * 2):
        firings = firings.having(firing(str(number), "skipped"))
    before = firings.before("next")
    assert before is not None
    assert before.task == "t-a"
    assert (firings.skipped, len(firings.last)) == (KEPT_FIRINGS * 2, KEPT_FIRINGS + 1)


def test_a_firing_waits_until_its_outcome_is_recorded() -> None:
    firings = ScheduleFirings().having_waiting("a", 2).having_waiting("b", 2)
    assert firings.having_waiting("c", 2) == firings
    assert firings.having_waiting("a", 2) == firings
    assert firings.having(firing("a", "beginning", "t-a")).waiting == ["b"]
    assert firings.without_waiting("b").waiting == ["a"]
