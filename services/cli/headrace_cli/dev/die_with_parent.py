"""Start a program that the kernel ends when its parent ends, however the parent ends.

Run as a script, by path: ``python -I -S die_with_parent.py PARENT PROGRAM ARGUMENTS…`` becomes
PROGRAM under the same pid. Only Linux can do this; elsewhere the next `headrace dev` ends what the
last one left behind (`headrace_cli.dev.orphan_processes`).
"""

import ctypes
import os
import signal
import sys
from collections.abc import Sequence

_PR_SET_PDEATHSIG = 1  # prctl(2); the setting survives execve(2)


def wrapped(command: Sequence[str]) -> list[str]:
    """Return the command that runs `command` as a child that does not outlive this process."""
    return [sys.executable, "-I", "-S", __file__, str(os.getpid()), *command]


def become(parent: int, command: Sequence[str]) -> None:
    """Replace this process by `command`, to be killed with `parent`.

    SIGKILL, because a stopped process does not see SIGTERM, and because the next stack on the
    same data must not meet servers that are still shutting down.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # It ended before the kernel watched it.
        sys.exit(1)
    os.execv(command[0], list(command))  # noqa: S606  # the command is the caller's own, no shell


if __name__ == "__main__":
    become(int(sys.argv[1]), sys.argv[2:])
