"""The system's data about a process: its parent and its command line."""

import subprocess
from dataclasses import dataclass
from pathlib import Path

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
    """Return the entry of `pid`; None if no such process is alive."""
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
