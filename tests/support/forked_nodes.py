"""xdist's processes as forks of one that has imported all tests, instead of new ones.

Run as a script, with the address of `tests.support.fork_pytest` and what Python gets from execnet:
it asks for a fork that has this process's files, and ends with it.
"""

import os
import shlex
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

_FORKER = f"""\
import signal, sys
signal.signal(signal.SIGINT, signal.SIG_DFL)  # Ctrl-C ends it without a traceback.
sys.path[0] = {str(Path(__file__).parents[2])!r}
from tests.support.fork_pytest import main
main()
"""


class ForkedNodes:
    """The process that forks, and where it is asked to."""

    def __init__(self, paths: Sequence[str]) -> None:
        """Have it collect the tests of these paths, and wait until it has."""
        self._folder = tempfile.TemporaryDirectory()
        self._address = Path(self._folder.name, "forks")
        self._process = subprocess.Popen(
            [sys.executable, "-u", "-c", _FORKER, str(self._address), *paths],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        assert self._process.stdout is not None
        self.are_ready = bool(self._process.stdout.readline())
        """Whether it forks; it does not where collecting ended it."""

    @property
    def pid(self) -> int:
        """The id of the process that forks."""
        return self._process.pid

    @property
    def python(self) -> str:
        """The command that xdist is to start in Python's place."""
        return shlex.join([sys.executable, "-I", "-S", __file__, str(self._address)])

    def close(self) -> None:
        """End it; forks end with whoever asked for them."""
        self._process.communicate()
        self._folder.cleanup()


def ask(address: str, line: str) -> None:
    """Have `line` executed in a fork with this process's files, and wait until it ends."""
    with socket.socket(socket.AF_UNIX) as forker:
        forker.connect(address)
        socket.send_fds(forker, [line.encode()], [0, 1, 2])
        for number in (0, 1):  # Their other ends are to see when the fork closes them.
            os.close(number)
        forker.recv(1)


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the fork, which ends by it.
    ask(sys.argv[1], sys.argv[-1])
