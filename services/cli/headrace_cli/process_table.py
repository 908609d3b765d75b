"""What the system says of a process: its parent and its command line."""

import subprocess
from dataclasses import dataclass
from pathlib import Path

_PROC = Path("/proc")


@dataclass(frozen=True, slots=True)
class Entry:
    """One living process."""

    parent: int
    command: str
    """Its command line, arguments joined by spaces; empty for one that ended and is not reaped."""


def look_up(pid: int) -> Entry | None:
    """Return the entry of `pid`; None if no such process lives."""
    entry = _from_proc(pid) if (_PROC / "self").exists() else _from_ps(pid)
    return entry if entry and entry.command else None


def _from_proc(pid: int) -> Entry | None:
    try:
        status = (_PROC / str(pid) / "stat").read_text()
        command = (_PROC / str(pid) / "cmdline").read_bytes()
    except OSError:
        return None
    # proc(5): pid (name) state parent …; the name may hold spaces and parentheses.
    parent = int(status.rpartition(")")[2].split()[1])
    return Entry(parent, command.replace(b"\0", b" ").decode(errors="replace").strip())


def _from_ps(pid: int) -> Entry | None:
    answer = subprocess.run(
        ["/bin/ps", "-ww", "-o", "ppid=,command=", "-p", str(pid)],
        capture_output=True,
        text=True,
        check=False,
    )
    parent, _, command = answer.stdout.strip().partition(" ")
    return Entry(int(parent), command.strip()) if parent else None
