"""The tests' files are in memory only where that has room."""

import os
from pathlib import Path

import pytest

from tests.support import containers, memory_folder
from tests.support.memory_folder import choose, has_room

KILOBYTES = "MemTotal:       9000 kB\nMemAvailable:    4 kB\n"
ROOM = 4096


@pytest.fixture
def memory(tmp_path: Path) -> Path:
    """What the kernel says of a machine with 4 kB left."""
    file = tmp_path / "meminfo"
    file.write_text(KILOBYTES)
    return file


def test_a_folder_with_room_is_taken(tmp_path: Path, memory: Path) -> None:
    assert has_room(tmp_path, memory, ROOM)


def test_a_machine_without_that_memory_has_no_room(tmp_path: Path, memory: Path) -> None:
    assert not has_room(tmp_path, memory, ROOM + 1)


def test_a_folder_without_that_room_is_not_taken(tmp_path: Path, memory: Path) -> None:
    memory.write_text(f"MemAvailable: {2**60} kB\n")
    assert has_room(tmp_path, memory, ROOM)
    assert not has_room(tmp_path, memory, 2**62)


def test_a_folder_that_runs_no_programs_is_not_taken(
    tmp_path: Path, memory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fields = list(os.statvfs(tmp_path))
    fields[8] = os.ST_NOEXEC
    monkeypatch.setattr(os, "statvfs", lambda _: os.statvfs_result(fields))
    assert not has_room(tmp_path, memory, ROOM)


def test_a_machine_without_such_a_folder_has_no_room(tmp_path: Path, memory: Path) -> None:
    assert not has_room(tmp_path / "none", memory, ROOM)
    assert not has_room(tmp_path, tmp_path / "none", ROOM)


@pytest.mark.parametrize(
    ("given", "in_containers", "chosen"),
    [
        ({}, False, "/in-memory"),
        ({"PYTEST_DEBUG_TEMPROOT": "/elsewhere"}, False, "/elsewhere"),
        ({}, True, None),
    ],
    ids=["unless named", "named", "containers"],
)
def test_pytest_makes_its_folders_there(
    given: dict[str, str],
    in_containers: bool,  # noqa: FBT001  # a parameter of the test
    chosen: str | None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(memory_folder, "SHARED_MEMORY", Path("/in-memory"))
    monkeypatch.setattr(memory_folder, "has_room", lambda *_: True)
    monkeypatch.setattr(containers, "are_wanted", lambda: in_containers)
    environment = dict(given)
    choose(environment)
    assert environment.get("PYTEST_DEBUG_TEMPROOT") == chosen
