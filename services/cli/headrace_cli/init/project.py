"""The files of a new project, written without touching any that exist."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from string import Template

from headrace_cli.failures import CannotStart

_SUFFIX = ".tmpl"
"""Keeps linters and test runners of this project away from the files of another."""

_DOTTED = {"gitignore": ".gitignore"}
"""Files whose template has no leading dot, because Git would follow it here."""


@dataclass(frozen=True, slots=True)
class Written:
    """What became of each file of the project, by name."""

    created: list[str]
    kept: list[str]
    """Those that existed."""


def create(folder: Path, *, force: bool) -> Written:
    """Write the project into `folder`, which is created with its parents.

    Args:
        folder: The project's folder; its name is the project's.
        force: Also write into a folder that is not empty. Existing files are kept.

    Raises:
        CannotStart: `folder` is a file, can't be written to, or is not empty.
    """
    written = Written([], [])
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if not force and any(folder.iterdir()):
            raise CannotStart(
                f"{folder} is not empty: choose another folder, or add the missing files with "
                f"--force, which changes no existing file"
            )
        for name, content in _contents(_project_name(folder)):
            fate = written.created if _write_new(folder / name, content) else written.kept
            fate.append(name)
    except FileExistsError:
        raise CannotStart(f"{folder} is a file: choose a folder") from None
    except OSError as error:
        raise CannotStart(f"can't write to {folder}: {error.strerror}") from None
    return written


def _contents(name: str) -> Iterator[tuple[str, str]]:
    templates = files("headrace_cli.init") / "template"
    for template in sorted(templates.iterdir(), key=lambda one: one.name):
        target = template.name.removesuffix(_SUFFIX)
        content = Template(template.read_text(encoding="utf-8")).substitute(name=name)
        yield _DOTTED.get(target, target), content


def _project_name(folder: Path) -> str:
    """Return the folder's name as a name of a Python project."""
    usual = re.sub(r"[^a-z0-9]+", "-", folder.resolve().name.lower()).strip("-")
    return usual or "agents"


def _write_new(path: Path, content: str) -> bool:
    """Write a file that does not exist; return whether it did not."""
    if path.is_symlink():  # A broken link does not exist, and opening it would create its target.
        return False
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(content)
    except FileExistsError:
        return False
    return True
