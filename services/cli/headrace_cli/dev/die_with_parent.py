"""Start a program that the kernel ends when its parent ends, however the parent ends.

Run as a script, by path: ``python -I -S die_with_parent.py PARENT SLACK PROGRAM ARGUMENTS…``
becomes PROGRAM under the same pid. The kernel may delay its timers by SLACK nanoseconds, so that
they expire together; 0: by its default, 50,000. Only Linux can do this; elsewhere the next
`headrace dev` ends what the last one left behind (`headrace_cli.dev.orphan_processes`).
"""

import ctypes
import os
import signal
import sys
from collections.abc import Sequence

_PR_SET_PDEATHSIG, _PR_SET_TIMERSLACK = 1, 29  # prctl(2); the settings survive execve(2)


def wrapped(command: Sequence[str], timer_slack: int = 0) -> list[str]:
    """Return the command that runs `command` as a child that does not outlive this process.

    Its timers may be late by `timer_slack` nanoseconds; 0: by Linux' default.
    """
    parent, slack = str(os.getpid()), str(timer_slack)
    return [sys.executable, "-I", "-S", __file__, parent, slack, *command]


def become(parent: int, timer_slack: int, command: Sequence[str]) -> None:
    """Replace this process by `command`, to be killed with `parent`.

    SIGKILL, because a stopped process does not see SIGTERM, and because the next stack on the
    same data must not meet servers that are still shutting down.
    """
    if sys.platform == "linux":
        prctl = ctypes.CDLL(None).prctl
        prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        prctl(_PR_SET_TIMERSLACK, ctypes.c_ulong(timer_slack))
    if os.getppid() != parent:  # It ended before the kernel watched it.
        sys.exit(1)
    os.execv(command[0], list(command))  # noqa: S606  # the command is the caller's own, no shell


if __name__ == "__main__":
    become(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:])
