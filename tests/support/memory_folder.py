"""Where the tests keep their files: in memory, where there is room.

Their servers write to disk all the time, and wait for it: on a file system in memory the same tests
took two thirds of the processor time, and half of the time.
"""

import os
import re
from collections.abc import MutableMapping
from pathlib import Path

from tests.support import containers

SHARED_MEMORY = Path("/dev/shm")  # noqa: S108  # pytest makes a folder in it that is its user's own
MEMORY = Path("/proc/meminfo")
NEEDED = 4_000_000_000
"""Bytes: several times what all tests leave."""
_VARIABLE = "PYTEST_DEBUG_TEMPROOT"
"""In this folder pytest makes its own ones."""


def choose(environment: MutableMapping[str, str]) -> None:
    """Have pytest's folders made in memory, unless `environment` names another place for them.

    Containers share none of this machine's memory.
    """
    if not containers.are_wanted() and has_room(SHARED_MEMORY, MEMORY, NEEDED):
        environment.setdefault(_VARIABLE, str(SHARED_MEMORY))


def has_room(folder: Path, memory: Path, needed: int) -> bool:
    """Tell whether `folder` takes `needed` bytes and runs programs, and `memory` has as many."""
    try:
        system = os.statvfs(folder)
        available = re.search(r"^MemAvailable: +(\d+) kB$", memory.read_text(), re.MULTILINE)
    except OSError:
        return False
    free = system.f_bavail * system.f_frsize
    return (
        available is not None
        and min(free, int(available[1]) * 1024) >= needed
        and not system.f_flag & os.ST_NOEXEC
        and os.access(folder, os.W_OK)
    )
