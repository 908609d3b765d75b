"""The tests of the tutorial's steps, run on the files that its reader has by then."""

from pathlib import Path

import pytest

from tests.support import tutorial
from tests.support.document import pytest_in


@pytest.mark.parametrize("step", tutorial.STEPS, ids=lambda step: str(step.stem))
def test_the_tests_of_a_step_pass_as_it_says(step: Path, tmp_path: Path) -> None:
    tutorial.write_files(tmp_path, step)
    output = pytest_in(tmp_path)
    summary = output.splitlines()[-1].partition(" in ")[0]
    assert summary == tutorial.outputs(step)["python -m pytest -q"].strip(), output


def test_every_step_says_what_comes_next() -> None:
    following = [step.read_text().rsplit("Next: ", 1)[-1] for step in tutorial.STEPS[:-1]]
    assert len(following) == 4
    named = [text.partition("](")[2].partition(")")[0] for text in following]
    assert named == [step.name for step in tutorial.STEPS[1:]]
