"""The folder that one development stack owns while it runs."""

import fcntl
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from stat import S_ISDIR
from typing import IO

from headrace_cli.failures import CannotStart

_NOTE = "temporary"
"""Name of the file that names the stack's temporary folder."""

_PREFIX = "headrace-"

_DYING = 1.0
"""Seconds that a killed stack may take to die on a busy machine, and to drop its lock."""


@contextmanager
def claimed(folder: Path) -> Iterator[Path]:
    """Make `folder`, own it until the block ends, and give its absolute path.

    The kernel drops the lock with the process, so nothing is left to clean up after a kill -9.

    Raises:
        CannotStart: another `headrace dev` owns it, or it cannot be made or written.
    """
    folder = folder.absolute()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = (folder / "dev.lock").open("a+")
    except OSError as refused:
        raise CannotStart(f"cannot keep data in {folder}: {refused.strerror}") from refused
    with lock:
        _lock(lock, folder)
        yield folder


def _lock(lock: IO[str], folder: Path) -> None:
    if not _is_locked_within(_DYING, lock):
        lock.seek(0)
        raise CannotStart(
            f"another headrace dev (pid {lock.read().strip() or 'unknown'}) runs on {folder}: "
            "stop it, or choose another folder with HEADRACE_DATA_DIR"
        )
    lock.truncate(0)
    lock.write(f"{os.getpid()}\n")
    lock.flush()


def _is_locked_within(seconds: float, lock: IO[str]) -> bool:
    """Lock the file, and return whether nobody else had it for so long."""
    end = time.monotonic() + seconds
    while True:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > end:
                return False
            time.sleep(0.05)
        else:
            return True


@contextmanager
def temporary_folder(folder: Path) -> Iterator[Path]:
    """Give a new temporary folder to the stack that owns `folder`, for this user only.

    It is deleted afterwards. A note in `folder` names it, so that what a killed stack has left is
    deleted by the next one.

    Raises:
        CannotStart: it can't be made.
    """
    note = folder / _NOTE
    _delete_left(note)
    try:
        # A new name each time: one that is known before can be taken by another user first.
        temporary = Path(tempfile.mkdtemp(prefix=_PREFIX))
        note.write_text(str(temporary))
    except OSError as refused:
        where = tempfile.gettempdir()
        raise CannotStart(f"cannot keep temporary data in {where}: {refused.strerror}") from refused
    try:
        yield temporary
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
        note.unlink(missing_ok=True)


def _delete_left(note: Path) -> None:
    try:
        left = Path(note.read_text())
        found = left.lstat()
    except (OSError, ValueError):
        return
    is_temporary = left.parent == Path(tempfile.gettempdir()) and left.name.startswith(_PREFIX)
    # The system may have deleted it, and another user may have made one of that name.
    if is_temporary and S_ISDIR(found.st_mode) and found.st_uid == os.getuid():
        shutil.rmtree(left, ignore_errors=True)
