"""A program on a pseudo-terminal, as a person at a terminal runs it."""

import os
import pty
import re
import select
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress

_TIMEOUT = 60.0
_CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_CTRL_C, _CTRL_D = b"\x03", b"\x04"
_ON_TERMINAL = """
import fcntl, os, sys, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
os.execv(sys.argv[1], sys.argv[1:])
"""
"""Makes stdin the terminal that sends the program signals."""


class PseudoTerminal:
    """One program, and what it has written."""

    def __init__(self, process: subprocess.Popen[bytes], descriptor: int) -> None:
        """Read and write at `descriptor`, the terminal's other end."""
        self._process, self._descriptor = process, descriptor
        self.output = ""
        """All output, control sequences included."""

    @property
    def text(self) -> str:
        """The output without colours and carriage returns."""
        return _CONTROL.sub("", self.output).replace("\r", "")

    def until(self, text: str) -> None:
        """Return once the output contains `text`.

        Raises:
            AssertionError: it ended, or was silent for long, before that.
        """
        while text not in self.text:
            assert self._read(), f"no {text!r} in:\n{self.text}"

    def type(self, line: str) -> None:
        """Type a line."""
        os.write(self._descriptor, line.encode() + b"\n")

    def interrupt(self) -> None:
        """Press Ctrl-C."""
        os.write(self._descriptor, _CTRL_C)

    def end_input(self) -> None:
        """Press Ctrl-D."""
        os.write(self._descriptor, _CTRL_D)

    def end(self) -> int:
        """Return the exit code once it has ended."""
        while self._read():
            pass
        return self._process.wait(_TIMEOUT)

    def _read(self) -> bool:
        ready, _, _ = select.select([self._descriptor], [], [], _TIMEOUT)
        assert ready, f"silent after:\n{self.text}"
        with suppress(OSError):  # how Linux says that nobody has the terminal open
            data = os.read(self._descriptor, 65536)
            self.output += data.decode(errors="replace")
            return bool(data)
        return False


@contextmanager
def at_terminal(
    *arguments: str,
    program: Sequence[str] = (sys.executable, "-m", "headrace_cli"),
    **environment: str,
) -> Iterator[PseudoTerminal]:
    """Run ``headrace ARGUMENTS``, or another `program`'s, on a terminal of 80 columns."""
    own: Mapping[str, str] = {k: v for k, v in os.environ.items() if not k.startswith("HEADRACE_")}
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-c", _ON_TERMINAL, *program, *arguments],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env={**own, "TERM": "xterm", "COLUMNS": "80", **environment},
        start_new_session=True,
    )
    os.close(theirs)
    try:
        yield PseudoTerminal(process, ours)
    finally:
        process.kill()
        process.wait(_TIMEOUT)
        os.close(ours)
