"""The measured part of the benchmarks' page is what the last recorded run measured."""

from tests.benchmarks import last_run
from tests.benchmarks.falls import MEASURED, recorded
from tests.benchmarks.measures import MEASURES


def test_the_measured_part_is_made_of_the_recorded_run() -> None:
    _, measured, _ = last_run.parts(last_run.PAGE.read_text())
    expected = last_run.section(last_run.load(last_run.WHOLE))
    assert measured == expected, "run: make bench"


def test_the_recorded_run_has_every_measure() -> None:
    run = last_run.load(last_run.WHOLE)
    assert [one["name"] for one in run["measures"]] == [one.name for one in MEASURES]


def test_the_recorded_small_run_has_what_is_compared_with_it() -> None:
    before = recorded(last_run.load(last_run.SMALL))
    assert before.keys() == {one.name for one in MEASURED}
    assert min(before.values()) > 0
