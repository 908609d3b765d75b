"""Where a role's processor time goes while it is measured, by py-spy if that is installed."""

import shutil
import signal
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.benchmarks.contestants import Contestant

_TIMEOUT = 30.0


class ProfilerMissing(Exception):
    """There is no py-spy on the path."""


@contextmanager
def profiled(contestants: Sequence[Contestant], role: str | None) -> Iterator[list[Path]]:
    """Sample the processes of `role`; what they did is in the lent files when the block ends.

    Each line of a file is a stack, outermost first, and how often it was seen (py-spy's ``raw``).

    Raises:
        ProfilerMissing: no py-spy.
    """
    pids = [pid for one in contestants for pid in one.pids().get(role or "", [])]
    program = shutil.which("py-spy")
    if role and not program:
        raise ProfilerMissing("--profile needs py-spy on the PATH")
    files = [Path(f"profile-{role}-{at}.txt") for at in range(len(pids))]
    spies = [
        subprocess.Popen(_command(program or "", pid, file))
        for pid, file in zip(pids, files, strict=True)
    ]
    try:
        yield files
    finally:
        for spy in spies:
            spy.send_signal(signal.SIGINT)
            spy.wait(_TIMEOUT)


def _command(program: str, pid: int, file: Path) -> list[str]:
    return [
        *(program, "record", "--pid", str(pid), "--output", str(file)),
        *("--format", "raw", "--rate", "500", "--nonblocking", "--duration", "100000"),
    ]
