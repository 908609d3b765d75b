import os
import threading
from contextlib import ExitStack
from pathlib import Path

import pytest

from headrace_cli.dev import data_directory, dev_file
from headrace_cli.dev.dev_file import DevFile
from headrace_cli.failures import CannotStart


def test_one_stack_at_a_time_owns_a_folder(tmp_path: Path) -> None:
    refusal = rf"another headrace dev \(pid {os.getpid()}\) runs on {tmp_path}"
    with (
        data_directory.claimed(tmp_path),
        pytest.raises(CannotStart, match=refusal),
        data_directory.claimed(tmp_path),
    ):
        pass
    with data_directory.claimed(tmp_path) as folder:
        assert folder == tmp_path


def test_a_folder_of_a_stack_that_is_dying_is_owned_once_it_has_died(tmp_path: Path) -> None:
    dying = ExitStack()
    dying.enter_context(data_directory.claimed(tmp_path))
    died = threading.Timer(0.2, dying.close)
    died.start()
    with data_directory.claimed(tmp_path) as folder:
        assert folder == tmp_path
    died.join()


def test_a_folder_that_cannot_be_made_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with (
        pytest.raises(CannotStart, match=r"cannot keep data in .*: Not a directory"),
        data_directory.claimed(tmp_path / "file" / "data"),
    ):
        pass


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the system keeps temporary folders."""
    folder = tmp_path / "tmp"
    folder.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    return folder


def killed_in(folder: Path) -> Path:
    """Return the temporary folder of a stack that was killed; it contains a file."""
    with ExitStack() as stack:
        left = stack.enter_context(data_directory.temporary_folder(folder))
        (left / "left").touch()
        note = (folder / "temporary").read_bytes()
        saved = left.rename(folder / "saved")
    (folder / "temporary").write_bytes(note)
    return saved.rename(left)


def test_a_temporary_folder_is_of_this_user_only_and_gone_afterwards(
    tmp_path: Path, elsewhere: Path
) -> None:
    with data_directory.temporary_folder(tmp_path) as temporary:
        assert temporary.parent == elsewhere
        assert temporary.stat().st_mode & 0o777 == 0o700
        assert list(temporary.iterdir()) == []
        (temporary / "left").touch()
    assert list(elsewhere.iterdir()) == []
    assert [path.name for path in tmp_path.iterdir()] == ["tmp"]


def test_a_temporary_folders_name_can_not_be_taken_first(tmp_path: Path, elsewhere: Path) -> None:
    with data_directory.temporary_folder(tmp_path) as first:
        pass
    first.mkdir()
    (first / "somebodys").touch()
    with data_directory.temporary_folder(tmp_path) as second:
        assert second != first
    assert list(elsewhere.rglob("*")) == [first, first / "somebodys"]


@pytest.mark.usefixtures("elsewhere")
def test_what_a_killed_stack_left_is_deleted_by_the_next_one(tmp_path: Path) -> None:
    left = killed_in(tmp_path)
    assert (left / "left").exists()
    with data_directory.temporary_folder(tmp_path) as again:
        assert list(again.iterdir()) == []
        assert not left.exists()


@pytest.mark.usefixtures("elsewhere")
def test_a_link_in_the_place_of_what_is_left_is_not_followed(tmp_path: Path) -> None:
    left = killed_in(tmp_path)
    precious = left.rename(tmp_path / "precious")
    left.symlink_to(precious)
    with data_directory.temporary_folder(tmp_path):
        assert (precious / "left").exists()


@pytest.mark.parametrize("named", ["precious", "tmp/precious", "tmp/../precious", "missing"])
@pytest.mark.usefixtures("elsewhere")
def test_nothing_else_is_deleted_whatever_the_note_names(tmp_path: Path, named: str) -> None:
    precious = [tmp_path / "precious" / "file", tmp_path / "tmp" / "precious" / "file"]
    for file in precious:
        file.parent.mkdir()
        file.touch()
    (tmp_path / "temporary").write_text(str(tmp_path / named))
    with data_directory.temporary_folder(tmp_path):
        assert [file for file in precious if file.exists()] == precious


def test_where_no_temporary_folder_can_be_made_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "missing"))
    with (
        pytest.raises(CannotStart, match=r"cannot keep temporary data in .*: No such file"),
        data_directory.temporary_folder(tmp_path),
    ):
        pass


def test_the_file_is_read_as_it_was_written(tmp_path: Path) -> None:
    content = DevFile(
        processes=[{"role": "worker", "index": 1, "pid": 7, "port": None}],
        nats_url="nats://127.0.0.1:1",
        redis_url="redis://127.0.0.1:2/0",
    )
    dev_file.write(tmp_path, content)
    assert dev_file.read(tmp_path) == content


@pytest.mark.parametrize("text", ["", "{", "[]", '{"processes": [{"pid": "x"}]}'])
def test_a_file_that_cannot_be_read_is_none(tmp_path: Path, text: str) -> None:
    dev_file.path_in(tmp_path).write_text(text)
    assert dev_file.read(tmp_path) is None
