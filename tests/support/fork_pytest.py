"""Fork the processes that share the tests from one that has imported them: the program that forks.

Its arguments are the address of a socket, and paths; its stdin is a pipe. It collects the tests of
the paths once, listens at the address, says so on stdout, and ends with the pipe. Whoever connects
sends the descriptors of its stdin, stdout and stderr, and the line that xdist has a new Python
execute; a fork executes it with them. To import all tests was most of what each process did before
its first one.

`tests.support.forked_nodes` is the other end.
"""

import gc
import os
import select
import signal
import socket
import sys
from contextlib import suppress
from functools import partial

import pytest

from tests.support.fork_server import QuickEnd

READY = b"ready\n"
LONGEST_LINE = 4096
"""Bytes of what a fork is to execute."""

FILES = 3
"""Stdin, stdout and stderr."""


def collect(paths: list[str]) -> None:
    """Import the tests of these paths, and what pytest needs, without a word.

    Errors are left to the forks, each of which collects what pytest's options select.
    """
    said = [os.dup(number) for number in (1, 2)]
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for number in (1, 2):
        os.dup2(nowhere, number)
    pytest.main(["--collect-only", "-qq", "-p", "no:cacheprovider", *paths])
    for number, file in zip((1, 2), said, strict=True):
        os.dup2(file, number)
        os.close(file)
    os.close(nowhere)


def fork_for_each(listener: socket.socket) -> str | None:
    """Fork until stdin ends: None; in each fork, return the line that it is to execute."""
    while listener.fileno() in select.select([listener.fileno(), 0], [], [])[0]:
        asker, _ = listener.accept()
        line, files, _, _ = socket.recv_fds(asker, LONGEST_LINE, FILES)
        if os.fork() == 0:
            signal.signal(signal.SIGINT, signal.default_int_handler)
            asker.detach()  # Closed when this fork ends: so its asker knows.
            for number, file in enumerate(files):
                os.dup2(file, number)
                os.close(file)
            return line.decode()
        asker.close()
        for file in files:
            os.close(file)
    with suppress(ChildProcessError):  # Their time counts as this process's, as of any children.
        while os.waitpid(-1, os.WNOHANG) != (0, 0):
            pass
    return None


def main() -> None:
    """Collect, and fork until stdin ends; in a fork, be the process that xdist asked for."""
    address, *paths = sys.argv[1:]
    end = QuickEnd()
    collect(paths)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the forks, which end by it.
    gc.collect()
    gc.freeze()
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(address)
        listener.listen()
        os.write(1, READY)
        line = fork_for_each(listener)
    if line is not None:
        sys.argv = ["-c"]
        end.run(partial(exec, line, {"__name__": "__main__"}))
