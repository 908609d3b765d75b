"""The measured parts of pages are what the last recorded run measured."""

import re
from pathlib import Path

import pytest

from tests.architecture.tree import ROOT
from tests.benchmarks import last_run
from tests.benchmarks.falls import MEASURED, recorded
from tests.benchmarks.measures import MEASURES


@pytest.mark.parametrize("page", last_run.PAGES, ids=lambda page: page.name)
def test_the_measured_part_is_made_of_the_recorded_run(page: Path) -> None:
    _, measured, _ = last_run.parts(page.read_text())
    expected = last_run.PAGES[page](last_run.load(last_run.WHOLE))
    assert measured == expected, "run: make bench"


def test_every_goal_that_is_missed_beside_the_sdk_is_explained() -> None:
    """Each by its ratio; it changes with the run, and so may the reason."""
    _, measured, after = last_run.parts((ROOT / "docs" / "benchmarks.md").read_text())
    missed = re.findall(r"\| ([\d.]+) x \([^|]*\|[^|]*\|[^|]*\|[^|]*official SDK: missed", measured)
    explained = after.partition("## Which goals are missed")[2].partition("\n## ")[0]
    assert len(missed) == measured.count("official SDK: missed")
    assert [ratio for ratio in missed if not re.search(rf"\b{ratio}\b", explained)] == []


def test_the_recorded_run_has_no_measure_that_is_gone() -> None:
    """It had all of its time: `--record` refuses less. Newer ones come with the next."""
    run = [one["name"] for one in last_run.load(last_run.WHOLE)["measures"]]
    assert run == [one.name for one in MEASURES if one.name in run]


def test_the_recorded_small_run_has_what_is_compared_with_it() -> None:
    before = recorded(last_run.load(last_run.SMALL))
    assert before.keys() == {one.name for one in MEASURED}
    assert min(before.values()) > 0
