"""HEADRACE_SEED decides what property tests draw, however the tests are split over processes."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[3]
_SUBJECTS = "unit/shared/model/test_subjects.py"
TEXTS = (
    f"{_SUBJECTS}::test_any_name_is_a_token_once_encoded_and_comes_back",
    f"{_SUBJECTS}::test_different_names_never_share_a_token",
)
LOGS = "unit/shared/model/test_fold.py::test_entries_fold_like_their_events"
OTHERS = ("unit/worker/test_encoder.py", "unit/shared/model/test_entry.py")
"""They load modules of ours, full of constants, and draw in the same process."""


def drawn(file: Path, *arguments: str, hashes: int, seed: int = 1) -> set[str]:
    """Run tests; return what each of them drew."""
    own = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST")}
    environment = own | {
        "HEADRACE_DRAWS": str(file),
        "HEADRACE_SEED": str(seed),
        "PYTHONHASHSEED": str(hashes),
    }
    options = ["-q", "-p", "no:cacheprovider", "-p", "tests.support.recorded_draws"]
    command = [sys.executable, "-m", "pytest", *options, *arguments]
    ran = subprocess.run(
        command, cwd=TESTS.parent, env=environment, capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stdout[-3000:]
    return set(file.read_text().splitlines())


FEW = [str(TESTS / name) for name in (*TEXTS, LOGS)]


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    """What a few tests draw by seed 1 in a process that runs nothing else."""
    return drawn(tmp_path_factory.mktemp("drawn") / "alone", *FEW, hashes=1)


def test_it_is_the_same_in_one_process_and_in_several_that_do_more(
    alone: set[str], tmp_path: Path
) -> None:
    more = [str(TESTS / name) for name in OTHERS]
    among = drawn(tmp_path / "among", "-n", "2", "--dist", "load", *more, *FEW, hashes=2)
    assert len(alone) == 3
    assert alone <= among


def seed_with(**environment: str) -> int:
    """Return the seed that a run with these variables has."""
    own = {name: value for name, value in os.environ.items() if not name.startswith("HEADRACE_")}
    code = "from tests.support.resuming_sizes import SEED; print(SEED)"
    command = [sys.executable, "-c", code]
    return int(subprocess.check_output(command, cwd=TESTS.parent, env=own | environment))


def test_a_run_has_the_seed_that_is_named_or_else_1_and_make_soak_a_new_one() -> None:
    assert seed_with() == seed_with() == 1
    assert seed_with(HEADRACE_SEED="7") == seed_with(HEADRACE_SEED="7", HEADRACE_SOAK="1") == 7
    assert seed_with(HEADRACE_SOAK="1") != seed_with(HEADRACE_SOAK="1")


def test_another_seed_draws_anew_as_make_soak_does(alone: set[str], tmp_path: Path) -> None:
    texts = [str(TESTS / name) for name in TEXTS]
    makefile = (TESTS.parent / "Makefile").read_text()
    [selected] = re.findall(r'HEADRACE_SOAK=1 .*? -m "(.*?)"', makefile)
    other = drawn(tmp_path / "other", "-m", selected, *texts, hashes=1, seed=2)
    assert len(other) == 2
    assert not alone & other
