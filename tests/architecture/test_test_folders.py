"""Tests stand where their source does: who knows a module finds its tests without a search."""

from collections.abc import Iterable
from pathlib import PurePosixPath

import pytest

from tests.architecture.tree import ROOT, tracked

SOURCES = {
    "cli": "services/cli/headrace_cli",
    "deploy": "deploy",
    "gateway": "services/gateway/headrace_gateway",
    "shared": "shared/headrace",
    "task_state": "services/task-state/headrace_task_state",
    "tests": "tests",
    "triggers": "services/triggers/headrace_triggers",
    "worker": "services/worker/headrace_worker",
}
"""What each folder of `tests/unit` and of `tests/integration` is about."""

_WITHOUT_SOURCE = {
    "integration/worker/adapters/official",  # examples of others, on servers of their modules
    "unit/gateway/protocols/hector/golden",  # files that tests compare with
}


def misplaced(files: Iterable[str]) -> list[str]:
    """Return the folders of `files`, below tests, to which no folder of source corresponds."""
    folders = {str(PurePosixPath(file).parent) for file in files}
    return sorted(folder for folder in folders - _WITHOUT_SOURCE if not _has_source(folder))


def _has_source(folder: str) -> bool:
    kind, *parts = PurePosixPath(folder).parts
    if not parts:  # tests of several services have no other place
        return kind == "integration"
    source = SOURCES.get(parts[0])
    return source is not None and ROOT.joinpath(source, *parts[1:]).is_dir()


def _tests(kind: str) -> list[str]:
    tests = ROOT / "tests"
    named = [path.relative_to(tests).as_posix() for path in tracked() if tests in path.parents]
    return [name for name in named if name.startswith(f"{kind}/") and name != f"{kind}/__init__.py"]


@pytest.mark.parametrize("kind", ["unit", "integration"])
def test_each_folder_corresponds_to_one_of_the_source(kind: str) -> None:
    files = _tests(kind)
    assert len(files) > 80
    assert misplaced(files) == []


@pytest.mark.parametrize(
    "file", ["unit/test_a.py", "unit/agui/test_a.py", "integration/gateway/resume/test_a.py"]
)
def test_a_folder_of_its_own_making_is_seen(file: str) -> None:
    assert misplaced([file]) == [str(PurePosixPath(file).parent)]


def test_what_unit_tests_share_is_in_the_tests_support() -> None:
    modules = [name for name in _tests("unit") if name.endswith(".py")]
    helpers = [name for name in modules if not PurePosixPath(name).name.startswith("test_")]
    assert len(modules) > len(helpers)
    assert [name for name in helpers if not name.endswith("__init__.py")] == []
