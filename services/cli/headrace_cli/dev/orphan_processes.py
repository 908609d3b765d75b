"""Kill the processes that a killed `headrace dev` left running, so that the next one can start.

On Linux the kernel has done so already, or is about to; other systems do not. The next stack must
not start before these processes are gone: they hold its ports and write its data.
"""

import os
import re
import signal
import subprocess
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from headrace_cli.dev import dev_file
from headrace_cli.dev.dev_file import Process, Role

_PROC = Path("/proc")

_ENDED = "ZX"
"""States of a process that has ended and that its parent has not waited for."""


@dataclass(frozen=True, slots=True)
class ProcessEntry:
    """One living process."""

    parent: int
    command: str
    """Its command line, arguments joined by spaces; briefly empty while it becomes another program.
    """


def look_up(pid: int) -> ProcessEntry | None:
    """Return the entry of `pid`; None if no such process is running."""
    return _from_proc(pid) if (_PROC / "self").exists() else _from_ps(pid)


def _from_proc(pid: int) -> ProcessEntry | None:
    try:
        status = (_PROC / str(pid) / "stat").read_text()
        command = (_PROC / str(pid) / "cmdline").read_bytes()
    except OSError:
        return None
    # proc(5): pid (name) state parent …; the name may hold spaces and parentheses.
    state, parent = status.rpartition(")")[2].split()[:2]
    text = command.replace(b"\0", b" ").decode(errors="replace").strip()
    return None if state in _ENDED else ProcessEntry(int(parent), text)


def _from_ps(pid: int) -> ProcessEntry | None:
    answer = subprocess.run(
        ["/bin/ps", "-ww", "-o", "state=,ppid=,command=", "-p", str(pid)],
        capture_output=True,
        text=True,
        check=False,
    )
    state, parent, command = (*answer.stdout.split(maxsplit=2), "", "", "")[:3]
    return None if not state or state[0] in _ENDED else ProcessEntry(int(parent), command.strip())


_MARKS: dict[Role, str] = {
    "gateway": "-m headrace_cli gateway",
    "worker": "-m headrace_cli worker",
    "task-state": "-m headrace_cli task-state",
    "triggers": "-m headrace_cli triggers serve",
    "nats": "nats-server",
    "redis": "valkey-server",
    "prometheus": "--storage.tsdb.path",
}
"""A part of the command line of each role's processes."""

_STACK = re.compile(r"(-m headrace_cli|/headrace) dev\b")
"""Matches the command line of a `headrace dev`."""

_INIT = 1
"""The process that inherits the children of a process that ended."""

_TIMEOUT = 5.0
"""Maximum seconds for a killed process to disappear."""


def end_orphans(data_dir: Path) -> list[int]:
    """Kill the last stack's processes on `data_dir`, wait for their end, and return their pids.

    The caller owns `data_dir`, so the stack that wrote its `dev.json` has ended.
    """
    content = dev_file.read(data_dir)
    orphans = [p["pid"] for p in content["processes"] if _is_orphan(p)] if content else []
    for pid in orphans:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    _wait_until_gone(orphans)
    return orphans


def _is_orphan(process: Process) -> bool:
    """Return whether the pid still belongs to that process, and not to a later one.

    The child of a living `headrace dev` belongs to a stack on other data.
    """
    entry = look_up(process["pid"])
    if entry is None or _MARKS[process["role"]] not in entry.command:
        return False
    if entry.parent == _INIT:
        return True
    parent = look_up(entry.parent)
    return parent is None or not _STACK.search(parent.command)


def _wait_until_gone(pids: list[int]) -> None:
    deadline = time.monotonic() + _TIMEOUT
    while any(look_up(pid) for pid in pids) and time.monotonic() < deadline:
        time.sleep(0.02)
