"""The measured parts of pages are what the last recorded run measured."""

from pathlib import Path

import pytest

from tests.benchmarks import last_run
from tests.benchmarks.falls import MEASURED, recorded
from tests.benchmarks.measures import MEASURES


@pytest.mark.parametrize("page", last_run.PAGES, ids=lambda page: page.name)
def test_the_measured_part_is_made_of_the_recorded_run(page: Path) -> None:
    _, measured, _ = last_run.parts(page.read_text())
    expected = last_run.PAGES[page](last_run.load(last_run.WHOLE))
    assert measured == expected, "run: make bench"


def test_the_recorded_run_has_every_measure() -> None:
    run = last_run.load(last_run.WHOLE)
    assert [one["name"] for one in run["measures"]] == [one.name for one in MEASURES]


def test_the_recorded_small_run_has_what_is_compared_with_it() -> None:
    before = recorded(last_run.load(last_run.SMALL))
    assert before.keys() == {one.name for one in MEASURED}
    assert min(before.values()) > 0
