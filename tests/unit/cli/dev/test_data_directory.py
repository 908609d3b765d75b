import os
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


def test_a_folder_that_cannot_be_made_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with (
        pytest.raises(CannotStart, match=r"cannot keep data in .*: Not a directory"),
        data_directory.claimed(tmp_path / "file" / "data"),
    ):
        pass


def test_a_temporary_folder_is_empty_at_first_and_gone_afterwards(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.gettempdir", lambda: str(tmp_path))
    with data_directory.temporary_folder(Path("/data")) as storage:
        (storage / "left").touch()
        # As if this stack was killed and started again.
        with data_directory.temporary_folder(Path("/data")) as again:
            assert again == storage
            assert list(again.iterdir()) == []
    assert list(tmp_path.iterdir()) == []


def test_a_link_in_the_place_of_a_temporary_folder_is_not_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.gettempdir", lambda: str(tmp_path))
    with data_directory.temporary_folder(Path("/data")) as storage:
        name = storage
    (tmp_path / "precious").mkdir()
    (tmp_path / "precious" / "file").touch()
    name.symlink_to(tmp_path / "precious")
    with (
        pytest.raises(CannotStart, match="cannot keep temporary data"),
        data_directory.temporary_folder(Path("/data")),
    ):
        pass
    assert (tmp_path / "precious" / "file").exists()


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
