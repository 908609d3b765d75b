"""Find live processes and stop them."""

import os
import signal
import subprocess
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from headrace_cli.dev.orphan_processes import look_up
from tests.support.waiting import until

_PROC = Path("/proc")

_STILL = "TtZX"
"""States of what is stopped, or has ended."""


def living(pids: Iterable[int]) -> list[int]:
    """Return those of `pids` whose process has not ended."""
    return [pid for pid in pids if look_up(pid)]


def freeze(pid: int) -> None:
    """Stop the process `pid`; return when none of its threads runs any more.

    A signal is sent before it takes effect: each thread runs on until the kernel gets to it.
    """
    os.kill(pid, signal.SIGSTOP)
    until(lambda: is_still(pid), f"process {pid} is stopped")


def is_still(pid: int) -> bool:
    """Tell whether no thread of the process `pid` runs: it is stopped, or has ended."""
    return all(state in _STILL for state in _states(pid))


def _states(pid: int) -> list[str]:
    if not (_PROC / "self").exists():
        command = ["/bin/ps", "-o", "state=", "-p", str(pid)]
        listed = subprocess.run(command, capture_output=True, text=True, check=False)
        return [line.strip()[0] for line in listed.stdout.splitlines()]
    states = list[str]()
    with suppress(FileNotFoundError):  # It has ended.
        for thread in (_PROC / str(pid) / "task").iterdir():
            with suppress(FileNotFoundError, ProcessLookupError):
                # proc(5): id (name) state …; the name may hold spaces and parentheses.
                states.append((thread / "stat").read_text().rpartition(")")[2].split()[0])
    return states
