"""Where roles' processor time goes while they are measured, by py-spy if that is installed."""

import shutil
import signal
import subprocess
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.benchmarks.contestants import Contestant

_TIMEOUT = 30.0

_SHOWN = 12
"""Functions of each process in the summary."""


class ProfilerMissing(Exception):
    """There is no py-spy on the path."""


@contextmanager
def profiled(contestants: Sequence[Contestant], roles: Sequence[str]) -> Iterator[list[Path]]:
    """Sample the processes of `roles`; what they did is in the lent files when the block ends.

    Each line of a file is a stack, outermost first, and how often it was seen (py-spy's ``raw``).

    Raises:
        ProfilerMissing: no py-spy.
    """
    pids = [
        (role, at, pid)
        for one in contestants
        for role in roles
        for at, pid in enumerate(one.pids().get(role, []))
    ]
    program = shutil.which("py-spy")
    if roles and not program:
        raise ProfilerMissing("--profile needs py-spy on the PATH")
    files = [Path(f"profile-{role}-{at}.txt") for role, at, _ in pids]
    spies = [
        subprocess.Popen(_command(program or "", pid, file))
        for (_, _, pid), file in zip(pids, files, strict=True)
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
        # Only of threads that run Python: by their registers, a loop that waits looks busy.
        *("--format", "raw", "--rate", "250", "--gil", "--function", "--duration", "100000"),
    ]


def summary(name: str, stacks: Iterable[str]) -> Iterator[str]:
    """Yield lines with the functions in which a process was seen most often.

    The shares are of its samples: in the function itself, and including what it calls.
    """
    itself, with_calls = Counter[str](), Counter[str]()
    for line in stacks:
        stack, _, seen = line.rpartition(" ")
        functions = [frame.partition(":")[0].replace(" (", ", ") for frame in stack.split(";")]
        itself[functions[-1]] += int(seen)
        with_calls.update(dict.fromkeys(functions, int(seen)))
    total = itself.total()
    yield f"{name}: {total} samples"
    for function, own in itself.most_common(_SHOWN):
        share, whole = 100 * own / total, 100 * with_calls[function] / total
        yield f"  {share:5.1f} %  with its calls {whole:5.1f} %  {function}"
