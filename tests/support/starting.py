"""Start processes that end with the tests, also when the tests are killed."""

import subprocess
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import IO

from headrace_cli.dev.die_with_parent import wrapped

_STARTER = ThreadPoolExecutor(max_workers=1, thread_name_prefix="starter")
"""The kernel ends a process with the thread that started it; this one stays with the tests."""


def start_process(
    command: Sequence[str],
    log: Path,
    *,
    stdin: int = subprocess.DEVNULL,
    stdout: int | IO[bytes] | None = None,
    folder: Path | None = None,
    environment: Mapping[str, str] | None = None,
) -> subprocess.Popen[bytes]:
    """Start `command` in a process group of its own, in `folder`, with `environment` only.

    What it writes to stderr is added to `log`; to stdout likewise, unless `stdout` says otherwise.
    """
    with log.open("ab") as lines:
        return _STARTER.submit(
            subprocess.Popen,
            wrapped(command),
            stdin=stdin,
            stdout=lines if stdout is None else stdout,
            stderr=lines,
            cwd=folder,
            env=environment,
            process_group=0,
        ).result()
