"""`headrace init`: which files it writes, and which it leaves alone."""

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from headrace_cli.main import main

FILES = {
    ".gitignore",
    "README.md",
    "headrace.yaml",
    "pyproject.toml",
    "shop.py",
    "test_shop.py",
}


def init(*arguments: object) -> Result:
    return CliRunner().invoke(main, ["init", *map(str, arguments)])


def test_a_project_is_created_with_its_parents(tmp_path: Path) -> None:
    folder = tmp_path / "new" / "My Shop!"
    done = init(folder)
    assert done.exit_code == 0
    assert {path.name for path in folder.iterdir()} == FILES
    assert 'name = "my-shop"\n' in (folder / "pyproject.toml").read_text()
    assert f"  cd '{folder}'\n" in done.output


def test_the_current_folder_is_not_entered_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    done = init(".")
    assert done.exit_code == 0
    assert "  cd " not in done.output
    assert "  headrace dev " in done.output


def test_a_folder_that_is_not_empty_is_refused(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    done = init(tmp_path)
    assert done.exit_code == 1
    assert done.output.startswith(f"Error: {tmp_path} is not empty: ")
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


def test_force_adds_what_is_missing_and_changes_nothing(tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text("mine")
    (tmp_path / "README.md").symlink_to("nowhere")
    done = init("--force", tmp_path)
    assert done.exit_code == 0
    assert f"kept {tmp_path / 'shop.py'}\n" in done.output
    assert f"kept {tmp_path / 'README.md'}\n" in done.output
    assert (tmp_path / "shop.py").read_text() == "mine"
    assert not (tmp_path / "nowhere").exists()
    assert {path.name for path in tmp_path.iterdir()} == FILES


@pytest.mark.parametrize("place", ["taken", "taken/deeper"])
def test_a_file_is_no_folder(tmp_path: Path, place: str) -> None:
    (tmp_path / "taken").write_text("mine")
    done = init(tmp_path / place)
    assert done.exit_code == 1
    assert done.output.startswith("Error: ")
    assert len(done.output.splitlines()) == 1
    assert (tmp_path / "taken").read_text() == "mine"
