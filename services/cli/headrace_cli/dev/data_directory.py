"""The folder that one development stack owns while it runs."""

import fcntl
import hashlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from headrace_cli.failures import CannotStart


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
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        lock.seek(0)
        raise CannotStart(
            f"another headrace dev (pid {lock.read().strip() or 'unknown'}) runs on {folder}: "
            "stop it, or choose another folder with HEADRACE_DATA_DIR"
        ) from None
    lock.truncate(0)
    lock.write(f"{os.getpid()}\n")
    lock.flush()


@contextmanager
def temporary_folder(folder: Path) -> Iterator[Path]:
    """Give an empty temporary folder to the stack on `folder`, for this user only; delete it after.

    Its name follows from `folder`, so the remains of a killed stack are found and deleted.

    Raises:
        CannotStart: something of that name is there and cannot be deleted.
    """
    digest = hashlib.sha256(str(folder).encode()).hexdigest()[:16]
    temporary = Path(tempfile.gettempdir()) / f"headrace-{os.getuid()}-{digest}"
    try:
        if temporary.exists() or temporary.is_symlink():
            shutil.rmtree(temporary)
        temporary.mkdir(mode=0o700)
    except OSError as refused:
        raise CannotStart(f"cannot keep temporary data in {temporary}: {refused}") from refused
    try:
        yield temporary
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
