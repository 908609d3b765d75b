"""The project's own files, as the architecture tests look at them."""

import ast
import gc
import os
import subprocess
from collections.abc import Sequence
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

SOURCE_ROOTS = (
    Path("examples"),
    Path("shared"),
    Path("services/cli"),
    Path("services/gateway"),
    Path("services/task-state"),
    Path("services/triggers"),
    Path("services/worker"),
)
"""Folders that hold one import package each; the first, single files too."""


def modules(root: Path = ROOT) -> list[Path]:
    """Return every module of the packages, and every example, of the project or a copy of it."""
    return sorted(
        path for source_root in SOURCE_ROOTS for path in (root / source_root).rglob("*.py")
    )


def modules_of_tests() -> list[Path]:
    """Return every module below `tests`, but for those of JavaScript's packages."""
    found = list[Path]()
    for folder, folders, files in os.walk(ROOT / "tests"):
        folders[:] = [name for name in folders if name != "node_modules"]
        found += [Path(folder, name) for name in files if name.endswith(".py")]
    return sorted(found)


@cache
def parsed(source: str) -> ast.Module:
    """Return a module's tree, parsed once for all tests of this folder; none changes it.

    A tree has thousands of nodes, through which garbage collections would go while they come.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        return ast.parse(source)
    finally:
        if was_enabled:
            gc.enable()


@cache
def tracked() -> Sequence[Path]:
    """Return every file that is under version control, and still there."""
    listing = subprocess.run(
        ["git", "ls-files", "-z"],  # noqa: S607  # whichever git made the clone
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    return [path for name in listing.split("\0") if name and (path := ROOT / name).is_file()]
