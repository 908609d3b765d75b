"""The project's own files, as the architecture tests look at them."""

import subprocess
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


def tracked() -> list[Path]:
    """Return every file that is under version control, and still there."""
    listing = subprocess.run(
        ["git", "ls-files", "-z"],  # noqa: S607  # whichever git made the clone
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    return [path for name in listing.split("\0") if name and (path := ROOT / name).is_file()]
