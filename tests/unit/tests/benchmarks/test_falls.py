"""A ratio that fell by a quarter is reported, and nothing else is."""

import pytest

from tests.benchmarks import falls, report
from tests.benchmarks.contestants import HEADRACE, OFFICIAL
from tests.benchmarks.measure import Sample
from tests.benchmarks.rounds import Result


def costing(*microseconds: float) -> Result:
    """Return a result with such processor times, of two processes."""
    return Result(
        [Sample(1.0, 1) for _ in microseconds],
        [{"one": cost / 4, "other": cost * 3 / 4} for cost in microseconds],
    )


def short_runs(official: Result, headrace: Result) -> dict[str, dict[str, Result]]:
    return {"short-runs": {OFFICIAL: official, HEADRACE: headrace}}


def test_the_ratio_is_the_median_of_the_rounds_and_no_ratio_of_medians() -> None:
    [by_server] = short_runs(costing(300, 100, 400), costing(100, 100, 100)).values()
    assert falls.advantage(by_server) == 3
    [by_server] = short_runs(costing(300, 100, 400), costing(300, 100, 100)).values()
    assert falls.advantage(by_server) == 1


@pytest.mark.parametrize(("now", "fallen"), [(151, False), (149, True)])
def test_a_ratio_falls_if_less_than_three_quarters_are_left(now: float, *, fallen: bool) -> None:
    [verdict] = falls.judge(short_runs(costing(now), costing(100)), {"short-runs": 2.0})

    assert verdict.has_fallen is fallen
    assert verdict.line().endswith("fell by more than a quarter") is fallen
    assert f"{now / 100:.2f} times ours is the official SDK's, recorded 2.00" in verdict.line()


def test_a_run_that_is_recorded_is_not_judged() -> None:
    [verdict] = falls.judge(short_runs(costing(1), costing(100)), {})
    assert not verdict.has_fallen


def test_a_recorded_run_has_the_ratios_that_it_was_judged_by() -> None:
    results = short_runs(costing(300, 100, 400), costing(100, 100, 100))
    measured = [one for one in falls.MEASURED if one.name in results]
    before = falls.recorded(report.as_json(measured, results))
    assert before == {"short-runs": pytest.approx(3)}
