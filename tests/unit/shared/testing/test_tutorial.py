"""The tests of the tutorial's steps, run on the files that its reader has by then."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import tutorial

_TEST = "python -m pytest -q"


@pytest.mark.parametrize("step", tutorial.STEPS, ids=lambda step: str(step.stem))
def test_the_tests_of_a_step_pass_as_it_says(step: Path, tmp_path: Path) -> None:
    tutorial.write_files(tmp_path, step)
    plugins = ("-p", "pytest_asyncio.plugin", "-p", "headrace.pytest_plugin")
    done = subprocess.run(
        [sys.executable, *_TEST.split()[1:], *plugins],
        cwd=tmp_path,
        env={**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    summary = done.stdout.splitlines()[-1]
    assert summary.partition(" in ")[0] == tutorial.outputs(step)[_TEST].strip(), done.stdout


def test_every_step_says_what_comes_next() -> None:
    following = [step.read_text().rsplit("Next: ", 1)[-1] for step in tutorial.STEPS[:-1]]
    assert len(following) == 4
    named = [text.partition("](")[2].partition(")")[0] for text in following]
    assert named == [step.name for step in tutorial.STEPS[1:]]
