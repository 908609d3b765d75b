"""The pages for users of other servers and frameworks: their files do what the pages say."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.architecture.tree import ROOT
from tests.support.document import blocks, examples, pytest_in

FRAMEWORKS = ROOT / "docs" / "frameworks"
HECTOR = ROOT / "docs" / "hector.md"
_PYTEST = "[pytest]\nasyncio_mode = auto\nasyncio_default_fixture_loop_scope = function\n"


@pytest.mark.parametrize("name", ["a2a-sdk", "langgraph", "pydantic-ai"])
def test_the_tests_of_a_framework_pass(name: str, tmp_path: Path) -> None:
    shown = blocks(FRAMEWORKS / f"{name}.md", "python")
    files = {block.title: block.code for block in shown if block.title}
    assert len(files) == 2
    for title, code in files.items():
        (tmp_path / title).write_text(code)
    (tmp_path / "pytest.ini").write_text(_PYTEST)
    output = pytest_in(tmp_path)
    assert output.splitlines()[-1].startswith("1 passed"), output


def test_options_of_the_outer_pytest_do_not_apply_to_that_of_a_document(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "test_one.py").write_text("def test_one(): ...\n")
    monkeypatch.setenv("PYTEST_ADDOPTS", "--verbose")
    output = pytest_in(tmp_path)
    assert output.splitlines()[-1].startswith("1 passed"), output


def test_hectors_file_loads_with_the_warning_that_the_guide_shows(tmp_path: Path) -> None:
    [file] = blocks(HECTOR, "yaml")
    (tmp_path / file.title).write_text(file.code)
    [(command, shown)] = examples(HECTOR, "sh")
    done = subprocess.run(
        [sys.executable, "-m", "headrace_cli", *command.split()[1:]],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stderr + done.stdout == shown
