"""The official SDK's own server as a process, for the kit to be run against it, too."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.starting import start_process


@contextmanager
def official(log: Path) -> Iterator[str]:
    """Run it for the length of a block, and yield its URL."""
    command = [sys.executable, "-m", "tests.conformance.official"]
    process = start_process(command, log, stdout=subprocess.PIPE)
    try:
        assert process.stdout is not None
        with process.stdout as lines:
            url = lines.readline().decode().removeprefix("ready ").strip()
        assert url, log.read_text()
        yield url
    finally:
        process.kill()
        process.wait()
